"""The methods of ``tir.Schedule`` that make or replace whole blocks."""

from __future__ import annotations

from tilesmith.tir.schedule.base import ScheduleBase

__all__ = ["BlockMethods"]


class BlockMethods(ScheduleBase):
    """Primitives about blocks: blockize, tensorize, padding."""

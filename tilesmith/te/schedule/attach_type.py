"""Where a stage of a classic schedule is computed."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["AttachType"]


class AttachType(IntEnum):
    """Where a stage is computed. The numbers are those that users know."""

    GROUP_ROOT = 1
    INLINE = 2
    INLINED_ALREADY = 3
    SCOPE = 4
    SCAN_UPDATE = 5

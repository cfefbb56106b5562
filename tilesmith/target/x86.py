"""Answers questions of schedules about x86 CPUs."""

from __future__ import annotations

from tilesmith.target.machine import machine_model
from tilesmith.target.target import Target


def get_simd_32bit_lanes() -> int:
    """Return the number of 32-bit elements in a vector register of the current target."""
    return machine_model(Target.current(allow_none=False)).lanes(32)

"""Rounds numbers to what float dtypes hold, for constants that are folded."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from tilesmith.runtime.dtype import DataType

__all__ = ["ROUNDED", "held", "is_exact"]

_WHOLE = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
"""Integers of up to this many bits are exact in a float."""


def held(value: float, dtype: DataType) -> float | None:
    """Round a number to a float dtype; None where the rounding is left to run time."""
    if isinstance(value, int) and abs(value) > 1 << 53:
        return None
    if value == 0 or (abs(value) <= 1 << _WHOLE.get(dtype.element, 3) and value == int(value)):
        return value
    if dtype.bits == 64 or not math.isfinite(value):
        return value
    return _as_float32(value) if dtype.element == "float32" else None


def is_exact(value: float, dtype: DataType) -> bool:
    """True if float16, bfloat16 or float32 represents the number exactly."""
    digits = _WHOLE.get(dtype.element)
    if digits is None or not math.isfinite(value):
        return False
    if dtype.element == "float16" and not 2.0**-14 <= abs(value) <= 65504.0:
        return False
    if not 2.0**-126 <= abs(value) < 2.0**127:
        return False
    mantissa, _ = math.frexp(value)
    return (mantissa * 2.0**digits).is_integer()


def _as_float32(value: float) -> float | None:
    try:
        (rounded,) = struct.unpack("f", struct.pack("f", value))
        return float(rounded)
    except OverflowError:
        return None


def _as_float16(value: float) -> float | None:
    try:
        (rounded,) = struct.unpack("e", struct.pack("e", value))
        return float(rounded)
    except OverflowError:
        return None


def _as_bfloat16(value: float) -> float | None:
    if value == 0 or not math.isfinite(value):
        return value
    last = max(math.frexp(value)[1], -125) - 8  # exponent of the last digit, also of a subnormal
    rounded = math.ldexp(round(math.ldexp(value, -last)), last)
    return None if abs(rounded) >= 2.0**128 else math.copysign(rounded, value)


ROUNDED: dict[str, Callable[[float], float | None]] = {
    "float16": _as_float16, "bfloat16": _as_bfloat16, "float32": _as_float32,
}  # fmt: skip
"""What a float dtype stores for a number; None where that is left to run time."""

"""Lists names of functions of the C library."""

from __future__ import annotations

__all__ = ["LIBRARY", "MATH_H"]

MATH_H = (
    "acos acosh asin asinh atan atan2 atanh ceil copysign cos cosh erf exp exp2 fabs floor fma "
    "fmod hypot log log10 log1p log2 nearbyint nextafter round sin sinh sqrt tan tanh trunc"
).split()

LIBRARY = frozenset(
    [name + suffix for name in (*MATH_H, "pow", "ldexp") for suffix in ("", "f", "l")]
    + "abs abort calloc div exit free main malloc memcmp memcpy memmove memset printf puts rand "
      "realloc strlen".split()
)  # fmt: skip

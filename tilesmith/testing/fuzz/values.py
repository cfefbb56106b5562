"""Tracks the ranges of values of a generated program, and compares results.

Reordering a sum of floats changes its last bits. So floats that are added up hold small integers,
for which every order is exact: each tensor has a range, and an addition or product is generated
only where its result stays exact in its dtype. A value that is not exact (the result of ``exp``, a
quotient) carries a bound in units in the last place instead, and is never added, compared or cast.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy

from tilesmith.runtime.dtype import DataType
from tilesmith.testing.fuzz.layouts import array_in_gaps

__all__ = [
    "DTYPES", "FUNCTION_ULP", "NARROW", "Known", "arrays", "differences", "exact_limit", "fits",
    "is_narrow", "range_of", "wraps",
]  # fmt: skip

DTYPES = (
    "float32", "float32", "float32", "float16", "float64", "bfloat16",
    "int8", "int16", "int32", "int32", "int64", "uint8", "uint16", "uint32", "bool",
)  # fmt: skip
"""Dtypes as they are drawn; those that occur twice are drawn more often."""

NARROW = (
    "bfloat16", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4",
    "bool", "float32", "int8", "int32",
)  # fmt: skip
"""Dtypes of programs about small numbers, which machines compute in wider ones."""

_EXACT = {
    "float64": 1 << 40, "float32": 1 << 24, "float16": 1 << 11, "bfloat16": 1 << 8,
    "float8_e4m3fn": 1 << 4, "float8_e5m2": 1 << 3, "float8_e3m4": 1 << 3, "float8_e4m3": 1 << 4,
    "float8_e4m3b11fnuz": 1 << 4, "float8_e4m3fnuz": 1 << 4, "float8_e5m2fnuz": 1 << 3,
}  # fmt: skip

FUNCTION_ULP = {
    "sqrt": 0, "floor": 0, "ceil": 0, "trunc": 0, "round": 0, "nearbyint": 0, "fabs": 0,
    "exp": 4, "exp2": 4, "log": 4, "log2": 4, "tanh": 8, "sigmoid": 8, "erf": 16, "rsqrt": 4,
    "sin": 4, "cos": 4, "divide": 1,
}  # fmt: skip
"""Bounds between the interpreter (numpy's functions) and generated code, in units in the last
place of the result's dtype. A function that both sides round correctly has 0."""


class Known(NamedTuple):
    """The known facts about a value: its dtype, its range, and by how much computations may
    differ.
    """

    dtype: str
    low: int
    high: int
    ulp: int | None = None
    """None: an integer (maybe held by a float), exact in every order of computation."""

    @property
    def is_exact(self) -> bool:
        """True if every way to compute it gives the same bits."""
        return self.ulp is None


def range_of(dtype: str) -> tuple[int, int]:
    """Return the integers that a dtype holds exactly, and (int32, int64, floats) may reach."""
    if dtype == "bool":
        return 0, 1
    if dtype in _EXACT:
        return -_EXACT[dtype], _EXACT[dtype]
    kind = DataType(dtype)
    if dtype == "int64":
        return -(1 << 62), (1 << 62) - 1
    return int(kind.min_value), int(kind.max_value)


def exact_limit(dtype: str) -> int:
    """Return the largest integer up to which a dtype holds all integers."""
    return range_of(dtype)[1]


def is_narrow(dtype: str) -> bool:
    """True if machines compute in a wider float type."""
    kind = DataType(dtype)
    return kind.is_float and kind.bits < 32


def wraps(dtype: str) -> bool:
    """True if overflow is defined: unsigned and narrow integers are modulo a power of two."""
    kind = DataType(dtype)
    return kind.is_uint or (kind.is_int and kind.bits < 32)


def fits(dtype: str, low: int, high: int) -> bool:
    """True if a range lies within what a dtype holds exactly."""
    least, most = range_of(dtype)
    return least <= low and high <= most


def _ordered(array: numpy.ndarray) -> numpy.ndarray:
    """Map floats to integers such that neighbours differ by one and both zeros are 0."""
    width = array.dtype.itemsize
    raw = array.view(f"i{width}").astype(numpy.int64)
    sign = numpy.int64(-(1 << (8 * width - 1)))
    if width == 8:
        return numpy.where(raw < 0, sign - raw, raw)
    return numpy.where(raw < 0, sign - raw, raw)


def _ulp_distance(got: numpy.ndarray, want: numpy.ndarray) -> numpy.ndarray:
    one, other = _ordered(got), _ordered(want)
    with numpy.errstate(over="ignore"):
        distance = numpy.abs(one.astype(numpy.float64) - other.astype(numpy.float64))
    nan_got, nan_want = numpy.isnan(got.astype(float)), numpy.isnan(want.astype(float))
    distance = numpy.where(nan_got & nan_want, 0, distance)
    return numpy.where(nan_got != nan_want, numpy.inf, distance)


def differences(got: Any, want: Any, ulp: int = 0, near: float | None = None) -> str | None:
    """Say what differs between two arrays by more than ``ulp`` units in the last place; None if
    nothing.

    Zeros of both signs are equal, and so are all NaNs. With ``near``, differences up to that part
    of the largest number, or of 1, do not count either.
    """
    got, want = numpy.asarray(got), numpy.asarray(want)
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    if got.size == 0:
        return None
    whole = got.dtype.kind in "biu" or "int" in got.dtype.name  # int4 of ml_dtypes has no kind
    if whole:
        wrong = got.astype(numpy.int64) != want.astype(numpy.int64)
        distance = wrong.astype(float)
    else:
        distance = _ulp_distance(numpy.ascontiguousarray(got), numpy.ascontiguousarray(want))
        wrong = distance > ulp
    if near is not None:
        wrong &= ~_are_near(got, want, near)
    if not wrong.any():
        return None
    place = tuple(int(index) for index in numpy.argwhere(numpy.atleast_1d(wrong))[0])
    one, other = numpy.atleast_1d(got)[place], numpy.atleast_1d(want)[place]
    text = f"{int(wrong.sum())} of {got.size} elements differ, first at {list(place)}: "
    text += f"{one} instead of {other}"
    if not whole:
        text += f"; at most {distance.max():g} ULP, allowed {ulp}"
    return text


def _are_near(got: Any, want: Any, near: float) -> numpy.ndarray:
    one, other = got.astype(numpy.float64), want.astype(numpy.float64)
    finite = numpy.abs(other[numpy.isfinite(other)])
    with numpy.errstate(invalid="ignore"):  # of infinities, which are near to nothing
        found: numpy.ndarray = numpy.abs(one - other) <= near * max(1.0, finite.max(initial=0.0))
    return found


def arrays(arguments: list[dict[str, Any]], seed: int) -> list[Any]:
    """Return arrays and numbers to call a function with.

    An argument is ``{"value": number}``, or has a shape and a dtype and, for an input, the range of
    its values (``distinct``: each number once; ``special``: any float; ``pairs``: two of bfloat16
    in each word). Outputs are filled with 77. With a ``layout`` it lies in memory in that way.
    """
    generator = numpy.random.default_rng(seed)
    made: list[Any] = []
    for argument in arguments:
        if "value" in argument:
            made.append(argument["value"])
            continue
        shape, kind = tuple(argument["shape"]), DataType(argument["dtype"]).numpy()
        if "low" not in argument:
            array = numpy.full(shape, 77).astype(kind)
        elif argument.get("pairs"):
            drawn = generator.integers(argument["low"], argument["high"] + 1, (*shape, 2))
            array = drawn.astype(DataType("bfloat16").numpy()).view("uint32").reshape(shape)
        elif argument.get("special"):
            array = _any_floats(generator, shape, kind)
        elif argument.get("distinct"):
            count = int(numpy.prod(shape))
            array = generator.permutation(count).reshape(shape).astype(kind)
        else:
            drawn = generator.integers(argument["low"], argument["high"] + 1, shape)
            array = numpy.asarray(drawn).astype(kind)
        layout = argument.get("layout")
        made.append(array if layout is None else array_in_gaps(array, layout))
    return made


_SPECIAL = (0.0, -0.0, numpy.inf, -numpy.inf, numpy.nan, 448, 464, 480, 57344, 61440, 65504, 65520)


def _any_floats(generator: numpy.random.Generator, shape: Any, kind: Any) -> numpy.ndarray:
    """Return floats of all magnitudes that a small type has, of those beside it, and special
    ones.
    """
    numbers = generator.standard_normal(shape) * numpy.exp2(generator.integers(-26, 17, shape))
    special = generator.choice(_SPECIAL, shape)
    with numpy.errstate(all="ignore"):
        made: numpy.ndarray = numpy.where(generator.random(shape) < 0.15, special, numbers)
        return made.astype(kind)

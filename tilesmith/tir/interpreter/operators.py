"""Defines the operators of calls on the values of the interpreter.

``OPERATORS`` maps a name to a function of ``(dtype, argument dtypes)`` that returns the function of
the argument values, for scalars and vectors. Operators that need the program (memory, control) are
in ``calls``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.runtime.dtype import DataType
from tilesmith.tir.interpreter.values import Pointer, element_type, wrap_int

Make = Callable[[DataType, tuple[DataType, ...]], Callable[..., Any]]
OPERATORS: dict[str, Make] = {}


def _operator(*names: str) -> Callable[[Make], Make]:
    def add(make: Make) -> Make:
        for name in names:
            OPERATORS["tir." + name] = make
        return make

    return add


def _float_function(name: str, function: Callable[..., Any], exact: bool = False) -> None:
    """Return a function of floats. ``exact``: computed in float64 and rounded once; else numpy
    rounds."""

    def make(dtype: DataType, arguments: tuple[DataType, ...]) -> Callable[..., Any]:
        kind = element_type(dtype)
        if not exact or dtype.element == "float64":
            if dtype.lanes > 1:
                return function
            return lambda *values: kind.type(function(*values))
        wide = numpy.float64
        if dtype.lanes > 1:
            return lambda *values: function(*[v.astype(wide) for v in values]).astype(kind)
        return lambda *values: kind.type(function(*[wide(value) for value in values]))

    OPERATORS["tir." + name] = make


def rounded_to_tf32(value: Any) -> Any:
    """Return float32 numbers rounded to tf32, which has 10 bits behind the point; halves go away
    from zero."""
    given = numpy.asarray(value, numpy.float32)
    bits = given.view(numpy.uint32)
    rounded = ((bits + numpy.uint32(0x1000)) & numpy.uint32(0xFFFFE000)).view(numpy.float32)
    return numpy.where(given == given, rounded, given)


def cut_to_tf32(value: Any) -> Any:
    """Return float32 numbers as tensor cores read them: without the last 13 bits."""
    given = numpy.ascontiguousarray(value, numpy.float32)
    return (given.view(numpy.uint32) & numpy.uint32(0xFFFFE000)).view(numpy.float32)


_erf = numpy.vectorize(math.erf, otypes=[numpy.float64])


def _sigmoid(value: Any) -> Any:
    return 1.0 / (1.0 + numpy.exp(-value))


def _round_half_away(value: Any) -> Any:
    whole = numpy.trunc(value)
    return numpy.where(numpy.abs(value - whole) >= 0.5, whole + numpy.copysign(1, value), whole)


for _name in ("exp", "exp2", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "sinh", "cosh",
              "tanh", "sqrt"):  # fmt: skip
    _float_function(_name, getattr(numpy, _name))
for _name, _numpy_name in (("asin", "arcsin"), ("acos", "arccos"), ("atan", "arctan"),
                           ("asinh", "arcsinh"), ("acosh", "arccosh"), ("atanh", "arctanh"),
                           ("atan2", "arctan2"), ("fabs", "abs")):  # fmt: skip
    _float_function(_name, getattr(numpy, _numpy_name))
for _name in ("floor", "ceil", "trunc", "hypot", "copysign", "nextafter", "fmod"):
    _float_function(_name, getattr(numpy, _name))
_float_function("nearbyint", numpy.rint)
_float_function("round_to_tf32", rounded_to_tf32)
_float_function("round", _round_half_away, exact=True)
_float_function("erf", _erf, exact=True)
_float_function("sigmoid", _sigmoid, exact=True)
_float_function("rsqrt", lambda value: 1.0 / numpy.sqrt(value), exact=True)
_float_function("exp10", lambda value: numpy.power(10.0, value), exact=True)
_float_function("fma", lambda a, b, c: a * b + c, exact=True)


@_operator("ldexp")
def _ldexp(dtype: DataType, arguments: tuple[DataType, ...]) -> Callable[..., Any]:
    kind = element_type(dtype)
    if dtype.lanes > 1:
        return lambda value, power: numpy.ldexp(value, power).astype(kind)
    return lambda value, power: kind.type(numpy.ldexp(numpy.float64(value), int(power)))


@_operator("pow")
def _pow(dtype: DataType, arguments: tuple[DataType, ...]) -> Callable[..., Any]:
    if dtype.is_integer and dtype.lanes == 1:
        return lambda base, exponent: (
            wrap_int(base**exponent, dtype) if exponent >= 0 else int(base == 1)
        )
    kind = element_type(dtype)
    if dtype.lanes > 1:
        return lambda base, exponent: numpy.power(base, exponent).astype(kind)
    return lambda base, exponent: kind.type(numpy.power(base, exponent))


@_operator("isnan")
def _isnan(dtype: DataType, arguments: tuple[DataType, ...]) -> Callable[..., Any]:
    return numpy.isnan if dtype.lanes > 1 else lambda value: bool(value != value)


@_operator("isinf")
def _isinf(dtype: DataType, arguments: tuple[DataType, ...]) -> Callable[..., Any]:
    return numpy.isinf if dtype.lanes > 1 else lambda value: bool(numpy.isinf(value))


@_operator("isfinite")
def _isfinite(dtype: DataType, arguments: tuple[DataType, ...]) -> Callable[..., Any]:
    return numpy.isfinite if dtype.lanes > 1 else lambda value: bool(numpy.isfinite(value))


@_operator("bitwise_and")
def _bitwise_and(dtype: DataType, arguments: tuple[DataType, ...]) -> Callable[..., Any]:
    return lambda a, b: a & b


@_operator("bitwise_or")
def _bitwise_or(dtype: DataType, arguments: tuple[DataType, ...]) -> Callable[..., Any]:
    return lambda a, b: a | b


@_operator("bitwise_xor")
def _bitwise_xor(dtype: DataType, arguments: tuple[DataType, ...]) -> Callable[..., Any]:
    return lambda a, b: a ^ b


@_operator("bitwise_not")
def _bitwise_not(dtype: DataType, arguments: tuple[DataType, ...]) -> Callable[..., Any]:
    if dtype.lanes > 1:
        return numpy.invert
    if dtype.is_bool:
        return lambda value: not value
    return lambda value: wrap_int(~value, dtype)


@_operator("shift_left")
def _shift_left(dtype: DataType, arguments: tuple[DataType, ...]) -> Callable[..., Any]:
    if dtype.lanes > 1:
        return numpy.left_shift
    return lambda a, b: wrap_int(a << b, dtype)


@_operator("shift_right")
def _shift_right(dtype: DataType, arguments: tuple[DataType, ...]) -> Callable[..., Any]:
    return numpy.right_shift if dtype.lanes > 1 else lambda a, b: a >> b


def _each_lane(dtype: DataType, function: Callable[..., int]) -> Callable[..., Any]:
    """Return a function of Python ints that works lane by lane on vectors."""
    if dtype.lanes == 1:
        return function
    kind = element_type(dtype)
    return lambda *values: numpy.array([function(*lane) for lane in zip(*values)], kind)


@_operator("popcount")
def _popcount(dtype: DataType, arguments: tuple[DataType, ...]) -> Callable[..., Any]:
    mask = (1 << dtype.bits) - 1
    return _each_lane(dtype, lambda value: (int(value) & mask).bit_count())


@_operator("clz")
def _clz(dtype: DataType, arguments: tuple[DataType, ...]) -> Callable[..., Any]:
    bits = arguments[0].bits
    mask = (1 << bits) - 1
    return _each_lane(dtype, lambda value: bits - (int(value) & mask).bit_length())


@_operator("q_multiply_shift")
def _q_multiply_shift(dtype: DataType, arguments: tuple[DataType, ...]) -> Callable[..., Any]:
    def compute(x: int, y: int, q: int, s: int) -> int:
        shift = int(q) + int(s)
        product = int(x) * int(y)
        if shift > 0:
            product = (product + (1 << (shift - 1))) >> shift
        else:
            product <<= -shift
        return wrap_int(product, dtype.element)

    return _each_lane(dtype, compute)


@_operator("q_multiply_shift_per_axis")
def _q_multiply_shift_per_axis(
    dtype: DataType, arguments: tuple[DataType, ...]
) -> Callable[..., Any]:
    def compute(x: int, y: int, ls: int, rs: int, q: int, left: int, right: int) -> int:
        value = int(x) << int(ls) if left else int(x)
        shift = int(q) + (int(rs) if right else 0)
        product = value * int(y)
        if shift > 0:
            product = (product + (1 << (shift - 1))) >> shift
        return wrap_int(product, dtype.element)

    return _each_lane(dtype, compute)


def _address(value: Any) -> int:
    """Return a pointer as a number; handles of other objects only differ from each other."""
    if value is None:
        return 0
    return value.address if isinstance(value, Pointer) else id(value)


@_operator("reinterpret")
def _reinterpret(dtype: DataType, arguments: tuple[DataType, ...]) -> Callable[..., Any]:
    source = arguments[0]
    if dtype.is_handle:
        # The integer zero is the null pointer; other addresses mean nothing here.
        return lambda value: None if isinstance(value, int) and value == 0 else value
    if source.is_handle:
        return _address
    kind, source_kind = element_type(dtype), element_type(source)

    def compute(value: Any) -> Any:
        found = numpy.atleast_1d(numpy.asarray(value, source_kind)).view(kind)
        if dtype.lanes > 1:
            return found
        return found[0] if dtype.is_float else found.item(0)

    return compute


@_operator("likely", "tvm_thread_invariant")
def _identity(dtype: DataType, arguments: tuple[DataType, ...]) -> Callable[..., Any]:
    return lambda value: value


@_operator("isnullptr")
def _isnullptr(dtype: DataType, arguments: tuple[DataType, ...]) -> Callable[..., Any]:
    return lambda value: value is None or (isinstance(value, int) and value == 0)


@_operator("undef")
def _undef(dtype: DataType, arguments: tuple[DataType, ...]) -> Callable[..., Any]:
    return lambda: 0


@_operator("handle_add_byte_offset")
def _handle_add(dtype: DataType, arguments: tuple[DataType, ...]) -> Callable[..., Any]:
    return Pointer.moved


@_operator("vectorlow")
def _vectorlow(dtype: DataType, arguments: tuple[DataType, ...]) -> Callable[..., Any]:
    return lambda value: value[: len(value) // 2]


@_operator("vectorhigh")
def _vectorhigh(dtype: DataType, arguments: tuple[DataType, ...]) -> Callable[..., Any]:
    return lambda value: value[len(value) // 2 :]


@_operator("vectorcombine")
def _vectorcombine(dtype: DataType, arguments: tuple[DataType, ...]) -> Callable[..., Any]:
    return lambda low, high: numpy.concatenate([low, high])


@_operator("dp4a")
def _dp4a(dtype: DataType, arguments: tuple[DataType, ...]) -> Callable[..., Any]:
    def compute(a: Any, b: Any, accumulator: int) -> int:
        products = [int(x) * int(y) for x, y in zip(a, b)]
        return wrap_int(accumulator + sum(products), dtype)

    return compute


def _dot_product(dtype: DataType, first: str, second: str) -> Callable[..., Any]:
    """Return a sum of products of the small integers of which two words consist."""

    def compute(a: int, b: int) -> int:
        words = [numpy.asarray([int(word) & 0xFFFFFFFF], "<u4") for word in (a, b)]
        parts = [word.view(kind).tolist() for word, kind in zip(words, (first, second))]
        return wrap_int(sum(x * y for x, y in zip(*parts)), dtype.element)

    return _each_lane(dtype, compute)


@_operator("dot_u8i8")
def _dot_u8i8(dtype: DataType, arguments: tuple[DataType, ...]) -> Callable[..., Any]:
    return _dot_product(dtype, "u1", "i1")


@_operator("dot_i8i8")
def _dot_i8i8(dtype: DataType, arguments: tuple[DataType, ...]) -> Callable[..., Any]:
    return _dot_product(dtype, "i1", "i1")


@_operator("dot_i16i16")
def _dot_i16i16(dtype: DataType, arguments: tuple[DataType, ...]) -> Callable[..., Any]:
    return _dot_product(dtype, "<i2", "<i2")


@_operator("dot_bf16bf16")
def _dot_bf16bf16(dtype: DataType, arguments: tuple[DataType, ...]) -> Callable[..., Any]:
    def compute(a: Any, b: Any) -> Any:
        words = [numpy.asarray(one, "uint32") for one in (a, b)]
        low = [(word << numpy.uint32(16)).view("float32") for word in words]
        high = [(word & numpy.uint32(0xFFFF0000)).view("float32") for word in words]
        made = high[0] * high[1] + low[0] * low[1]
        return made if dtype.lanes > 1 else made[()]

    return compute


@_operator("tvm_tuple", "tvm_stack_make_shape")
def _tuple(dtype: DataType, arguments: tuple[DataType, ...]) -> Callable[..., Any]:
    return lambda *values: values


@_operator("tvm_check_return")
def _check_return(dtype: DataType, arguments: tuple[DataType, ...]) -> Callable[..., Any]:
    return lambda expected, unexpected, value: value


@_operator("start_profile_intrinsic", "end_profile_intrinsic")
def _nothing(dtype: DataType, arguments: tuple[DataType, ...]) -> Callable[..., Any]:
    return lambda *values: None


_C_FUNCTIONS = {
    "exp": "exp", "log": "log", "log2": "log2", "log10": "log10", "log1p": "log1p", "sin": "sin",
    "cos": "cos", "tan": "tan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asin": "asin",
    "acos": "acos", "atan": "atan", "atan2": "atan2", "asinh": "asinh", "acosh": "acosh",
    "atanh": "atanh", "sqrt": "sqrt", "erf": "erf", "floor": "floor", "ceil": "ceil",
    "trunc": "trunc", "round": "round", "nearbyint": "nearbyint", "rint": "nearbyint",
    "fabs": "fabs", "pow": "pow", "fmod": "fmod", "hypot": "hypot", "copysign": "copysign",
    "nextafter": "nextafter", "ldexp": "ldexp", "exp2": "exp2", "exp10": "exp10", "fma": "fma",
}  # fmt: skip
_LLVM_ONLY = {"minnum": numpy.fmin, "maxnum": numpy.fmax, "minimum": numpy.minimum,
              "maximum": numpy.maximum}  # fmt: skip
_LLVM_INTEGERS = {"ctpop": "popcount", "ctlz": "clz"}


def c_function(name: str) -> Make | None:
    """Return the function of the C library with that name (``expf``, ``exp``), if it is known."""
    for candidate in (name, name.removesuffix("f")):
        known = _C_FUNCTIONS.get(candidate)
        if known is not None:
            return OPERATORS["tir." + known]
    return None


def llvm_function(name: str) -> Make | None:
    """Return the LLVM intrinsic with that name (``llvm.exp.f32``), if it is known."""
    parts = name.split(".")
    if len(parts) < 2 or parts[0] != "llvm":
        return None
    base = parts[1]
    if parts[1:4] == ["vector", "reduce", "or"]:
        return lambda dtype, arguments: lambda value: bool(numpy.any(value))
    if name == "llvm.x86.avx512.mask.scalef.ps.512":
        return lambda dtype, arguments: _scaled
    if name == "llvm.x86.avx512.permvar.sf.512":
        return lambda dtype, arguments: _picked
    if base in ("fmuladd", "fma"):
        return OPERATORS["tir.fma"]
    if base == "prefetch":
        return _nothing
    if base in _LLVM_INTEGERS:
        make = OPERATORS["tir." + _LLVM_INTEGERS[base]]
        # The second argument of ctlz says what zero gives; the meaning here is the full width.
        return lambda dtype, arguments: _first_only(make(dtype, arguments))
    if base in _LLVM_ONLY:
        function = _LLVM_ONLY[base]
        return lambda dtype, arguments: (
            function if dtype.lanes > 1 else lambda a, b: element_type(dtype).type(function(a, b))
        )
    return c_function(base)


def _scaled(value: Any, power: Any, *rest: Any) -> Any:
    """Return ``value * 2 ** floor(power)`` by lanes, NaN where the power is NaN."""
    known = ~numpy.isnan(power)
    whole = numpy.floor(numpy.clip(numpy.where(known, power, 0), -1000, 1000)).astype("int32")
    return numpy.where(known, numpy.ldexp(value, whole), power)


def _picked(values: Any, lanes: Any) -> Any:
    """Return lanes of a vector by number; only the lowest bits of a number count."""
    return values[lanes & (len(values) - 1)]


def _first_only(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda value, *rest: function(value)

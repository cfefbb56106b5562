"""Conversions between data types as LLVM text: C's rules, and rounding to nearest, halves to even.

A float that does not fit the integer it is converted to gives an unspecified value, as in C.
float16 uses the CPU's instructions where they exist, and so does bfloat16 where they round as all
others do (x86's take subnormal numbers for zero: only with -fast-math). float16 elsewhere, bfloat16
and the small float types are converted by integer arithmetic, vectorised like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilesmith.codegen.llvm.dtypes import is_native_float, register_type
from tilesmith.codegen.llvm.small_floats import (
    FLOAT16,
    from_small_float,
    round_bits,
    to_small_float,
)
from tilesmith.runtime.dtype import DataType

if TYPE_CHECKING:
    from tilesmith.codegen.llvm.expressions import ExpressionEmitter

_FLOAT32 = DataType("float32")
_FLOAT64 = DataType("float64")
_INT32 = DataType("int32")
_UINT16 = DataType("uint16")


def convert(emit: ExpressionEmitter, value: str, source: DataType, target: DataType) -> str:
    """`value` of dtype `source` as dtype `target`."""
    if (
        source is target
        or register_type(source) == register_type(target)
        and _same_kind(source, target)
    ):
        return value
    from_type, to_type = register_type(source), register_type(target)
    if source.is_handle or target.is_handle:
        return _convert_handle(emit, value, source, target)
    if source.is_float and target.is_float:
        return _float_to_float(emit, value, source, target)
    if source.is_float:
        if not is_native_float(source):
            wide = _FLOAT32.with_lanes(source.lanes)
            return convert(emit, convert(emit, value, source, wide), wide, target)
        return _float_to_integer(emit, value, source, target)
    if target.is_float:
        if target.bits < 32:
            # through a float that holds the number: rounded once (from 64 bits: almost)
            wide = (_FLOAT32 if source.bits < 32 else _FLOAT64).with_lanes(source.lanes)
            return convert(emit, convert(emit, value, source, wide), wide, target)
        operation = "sitofp" if source.is_int else "uitofp"
        return emit.define(f"{operation} {from_type} {value} to {to_type}")
    if target.is_bool:
        return emit.define(
            f"icmp ne {from_type} {value}, {_number(0, source.lanes, 'i' + str(source.bits))}"
        )
    if source.bits < target.bits:
        operation = "sext" if source.is_int else "zext"
        return emit.define(f"{operation} {from_type} {value} to {to_type}")
    return emit.define(f"trunc {from_type} {value} to {to_type}")


def _same_kind(source: DataType, target: DataType) -> bool:
    """Whether equal LLVM types mean equal values: bfloat16 lies in an integer and is none."""
    integers = (source.is_integer or source.is_bool) and (target.is_integer or target.is_bool)
    return integers or source.element is target.element


def _convert_handle(emit: Any, value: str, source: DataType, target: DataType) -> str:
    from_type, to_type = register_type(source), register_type(target)
    if source.is_handle and target.is_handle:
        return value
    if source.is_integer and target.is_handle:
        return emit.define(f"inttoptr {from_type} {value} to {to_type}")
    if source.is_handle and target.is_integer:
        return emit.define(f"ptrtoint {from_type} {value} to {to_type}")
    if source.is_handle and target.is_bool:
        return emit.define(f"icmp ne ptr {value}, null")
    raise emit.unsupported(f"no conversion from '{source}' to '{target}'")


def _float_to_integer(emit: Any, value: str, source: DataType, target: DataType) -> str:
    kind = register_type(source)
    if target.is_bool:
        zero = "zeroinitializer" if source.lanes > 1 else "0.0"
        return emit.define(f"fcmp une {kind} {value}, {zero}")
    operation = "fptosi" if target.is_int else "fptoui"
    return emit.define(f"{operation} {kind} {value} to {register_type(target)}")


def _float_to_float(emit: Any, value: str, source: DataType, target: DataType) -> str:
    wide = _FLOAT32.with_lanes(source.lanes)
    if source.bits <= 8:
        widened = from_small_float(emit, value, source)
        return widened if target is wide else _float_to_float(emit, widened, wide, target)
    if target.bits <= 8:
        if source.bits == 64:
            value = _round_to_odd(emit, value, source)
        elif source is not wide:
            value = _float_to_float(emit, value, source, wide)
        return to_small_float(emit, value, target)
    if source == "float64" or source.element == "float64":
        if target.bits == 32:
            return _truncate(emit, value, source, target)
        # to float32 such that the second rounding sees what was lost, then to 16 bits
        return _float_to_float(emit, _round_to_odd(emit, value, source), wide, target)
    if source.bits == 16:
        widened = _widen(emit, value, source, wide)
        return widened if target is wide else _float_to_float(emit, widened, wide, target)
    if target.bits == 16:
        return _narrow(emit, value, wide, target)
    return emit.define(f"fpext {register_type(source)} {value} to {register_type(target)}")


def _truncate(emit: Any, value: str, source: DataType, target: DataType) -> str:
    return emit.define(f"fptrunc {register_type(source)} {value} to {register_type(target)}")


def _round_to_odd(emit: Any, value: str, source: DataType) -> str:
    """A float64 as a float32 whose last bit says whether anything was lost.

    Rounding that once more to fewer digits gives what rounding the float64 directly gives.
    """
    lanes = source.lanes
    wide = _FLOAT32.with_lanes(lanes)
    double, single = register_type(source), register_type(wide)
    integer = register_type(_INT32.with_lanes(lanes))
    near = _truncate(emit, value, source, wide)
    back = emit.define(f"fpext {single} {near} to {double}")
    bits = emit.define(f"bitcast {single} {near} to {integer}")
    # nearest may have gone away from zero: one step back toward zero, then set the last bit
    flags = register_type(DataType("bool").with_lanes(lanes))
    exact = emit.define(f"fcmp ueq {double} {back}, {value}")
    magnitude = emit.define(f"call {double} @llvm.fabs({double} {value})")
    rounded = emit.define(f"call {double} @llvm.fabs({double} {back})")
    too_far = emit.define(f"fcmp ogt {double} {rounded}, {magnitude}")
    step = emit.define(f"sext {flags} {too_far} to {integer}")
    lower = emit.define(f"add {integer} {bits}, {step}")
    odd = emit.define(f"or {integer} {lower}, {_number(1, lanes)}")
    chosen = emit.define(f"select {flags} {exact}, {integer} {bits}, {integer} {odd}")
    return emit.define(f"bitcast {integer} {chosen} to {single}")


def _number(value: int, lanes: int, element: str = "i32") -> str:
    return str(value) if lanes == 1 else f"splat ({element} {value})"


def _widen(emit: Any, value: str, source: DataType, wide: DataType) -> str:
    """float16 or bfloat16 to float32."""
    lanes, single = source.lanes, register_type(wide)
    integer = register_type(_INT32.with_lanes(lanes))
    if source.element == "bfloat16":
        extended = emit.define(f"zext {register_type(source)} {value} to {integer}")
        bits = emit.define(f"shl {integer} {extended}, {_number(16, lanes)}")
        return emit.define(f"bitcast {integer} {bits} to {single}")
    if emit.module.converts_float16:
        return emit.define(f"fpext {register_type(source)} {value} to {single}")
    half_bits = register_type(_UINT16.with_lanes(lanes))
    stored = emit.define(f"bitcast {register_type(source)} {value} to {half_bits}")
    # Place exponent and digits as float32 has them and correct the exponent by a multiplication,
    # which also makes the subnormal numbers normal; infinities and NaN are set apart.
    bits = emit.define(f"zext {half_bits} {stored} to {integer}")
    rest = emit.define(f"and {integer} {bits}, {_number(0x7FFF, lanes)}")
    placed = emit.define(f"shl {integer} {rest}, {_number(13, lanes)}")
    as_float = emit.define(f"bitcast {integer} {placed} to {single}")
    factor = "0x46F0000000000000"  # 2 ** 112
    scaled = emit.define(f"fmul {single} {as_float}, {_number_text(factor, lanes)}")
    finite = emit.define(f"bitcast {single} {scaled} to {integer}")
    flags = register_type(DataType("bool").with_lanes(lanes))
    special = emit.define(f"icmp uge {integer} {rest}, {_number(0x7C00, lanes)}")
    infinite = emit.define(f"or {integer} {placed}, {_number(0x7F800000, lanes)}")
    magnitude = emit.define(f"select {flags} {special}, {integer} {infinite}, {integer} {finite}")
    sign_bit = emit.define(f"and {integer} {bits}, {_number(0x8000, lanes)}")
    sign = emit.define(f"shl {integer} {sign_bit}, {_number(16, lanes)}")
    joined = emit.define(f"or {integer} {magnitude}, {sign}")
    return emit.define(f"bitcast {integer} {joined} to {single}")


def _number_text(text: str, lanes: int) -> str:
    return text if lanes == 1 else f"splat (float {text})"


def _narrow(emit: Any, value: str, wide: DataType, target: DataType) -> str:
    """float32 to float16 or bfloat16."""
    if target.element == "bfloat16":
        return _to_bfloat16(emit, value, wide, target)
    if emit.module.converts_float16:
        return _truncate(emit, value, wide, target)
    bits = round_bits(emit, value, wide, FLOAT16)
    half_bits = register_type(_UINT16.with_lanes(target.lanes))
    integer = register_type(_INT32.with_lanes(target.lanes))
    short = emit.define(f"trunc {integer} {bits} to {half_bits}")
    return emit.define(f"bitcast {half_bits} {short} to {register_type(target)}")


def _to_bfloat16(emit: Any, value: str, wide: DataType, target: DataType) -> str:
    lanes, single = wide.lanes, register_type(wide)
    if emit.module.converts_bfloat16:
        kind = "bfloat" if lanes == 1 else f"<{lanes} x bfloat>"
        short = emit.define(f"fptrunc {single} {value} to {kind}")
        return emit.define(f"bitcast {kind} {short} to {register_type(target)}")
    integer, flags = (
        register_type(_INT32.with_lanes(lanes)),
        register_type(DataType("bool").with_lanes(lanes)),
    )
    bits = emit.define(f"bitcast {single} {value} to {integer}")
    high = emit.define(f"lshr {integer} {bits}, {_number(16, lanes)}")
    last = emit.define(f"and {integer} {high}, {_number(1, lanes)}")
    bias = emit.define(f"add {integer} {last}, {_number(0x7FFF, lanes)}")
    rounded = emit.define(f"add {integer} {bits}, {bias}")
    kept = emit.define(f"lshr {integer} {rounded}, {_number(16, lanes)}")
    quiet = emit.define(f"or {integer} {high}, {_number(0x40, lanes)}")
    nan = emit.define(f"fcmp uno {single} {value}, {value}")
    chosen = emit.define(f"select {flags} {nan}, {integer} {quiet}, {integer} {kept}")
    return emit.define(f"trunc {integer} {chosen} to {register_type(target)}")

"""Converts between data types in LLVM text: C's rules, and rounding to nearest, halves to even.

A float that does not fit the integer it is converted to gives an unspecified value, as in C.
float16 uses the CPU's instructions where they exist, and so does bfloat16 where they round
correctly (x86's treat subnormal numbers as zero: only with -fast-math or -flush-subnormals, which
models of bfloat16 have, as their dot products do the same). float16 elsewhere, bfloat16
and the small float types are converted by integer arithmetic, vectorised like any other.
"""

from __future__ import annotations

from tilesmith.codegen.llvm.builder import Builder
from tilesmith.codegen.llvm.dtypes import is_native_float, register_type
from tilesmith.codegen.llvm.small_floats import (
    FLOAT16,
    from_small_float,
    round_bits,
    to_small_float,
)
from tilesmith.runtime.dtype import DataType

_FLOAT32 = DataType("float32")
_FLOAT64 = DataType("float64")
_INT32 = DataType("int32")
_UINT16 = DataType("uint16")


def convert(out: Builder, value: str, source: DataType, target: DataType) -> str:
    """Convert `value` of dtype `source` to dtype `target`."""
    if (
        source is target
        or register_type(source) == register_type(target)
        and _same_kind(source, target)
    ):
        return value
    from_type, to_type = register_type(source), register_type(target)
    if source.is_handle or target.is_handle:
        return _convert_handle(out, value, source, target)
    if source.is_float and target.is_float:
        return _float_to_float(out, value, source, target)
    if source.is_float:
        if not is_native_float(source):
            wide = _FLOAT32.with_lanes(source.lanes)
            return convert(out, convert(out, value, source, wide), wide, target)
        return _float_to_integer(out, value, source, target)
    if target.is_float:
        if target.bits < 32:
            # through a float that holds the number: rounded once (from 64 bits: almost)
            wide = (_FLOAT32 if source.bits < 32 else _FLOAT64).with_lanes(source.lanes)
            return convert(out, convert(out, value, source, wide), wide, target)
        operation = "sitofp" if source.is_int else "uitofp"
        return out.define(f"{operation} {from_type} {value} to {to_type}")
    if target.is_bool:
        return out.define(
            f"icmp ne {from_type} {value}, {_number(0, source.lanes, 'i' + str(source.bits))}"
        )
    if source.bits < target.bits:
        operation = "sext" if source.is_int else "zext"
        return out.define(f"{operation} {from_type} {value} to {to_type}")
    return out.define(f"trunc {from_type} {value} to {to_type}")


def _same_kind(source: DataType, target: DataType) -> bool:
    """True if equal LLVM types mean equal values: bfloat16 is stored in an integer but is not
    one.
    """
    integers = (source.is_integer or source.is_bool) and (target.is_integer or target.is_bool)
    return integers or source.element is target.element


def _convert_handle(out: Builder, value: str, source: DataType, target: DataType) -> str:
    from_type, to_type = register_type(source), register_type(target)
    if source.is_handle and target.is_handle:
        return value
    if source.is_integer and target.is_handle:
        return out.define(f"inttoptr {from_type} {value} to {to_type}")
    if source.is_handle and target.is_integer:
        return out.define(f"ptrtoint {from_type} {value} to {to_type}")
    if source.is_handle and target.is_bool:
        return out.define(f"icmp ne ptr {value}, null")
    raise out.unsupported(f"no conversion from '{source}' to '{target}'")


def _float_to_integer(out: Builder, value: str, source: DataType, target: DataType) -> str:
    kind = register_type(source)
    if target.is_bool:
        zero = "zeroinitializer" if source.lanes > 1 else "0.0"
        return out.define(f"fcmp une {kind} {value}, {zero}")
    operation = "fptosi" if target.is_int else "fptoui"
    return out.define(f"{operation} {kind} {value} to {register_type(target)}")


def _float_to_float(out: Builder, value: str, source: DataType, target: DataType) -> str:
    wide = _FLOAT32.with_lanes(source.lanes)
    if source.bits <= 8:
        widened = from_small_float(out, value, source)
        return widened if target is wide else _float_to_float(out, widened, wide, target)
    if target.bits <= 8:
        if source.bits == 64:
            value = _round_to_odd(out, value, source)
        elif source is not wide:
            value = _float_to_float(out, value, source, wide)
        return to_small_float(out, value, target)
    if source == "float64" or source.element == "float64":
        if target.bits == 32:
            return _truncate(out, value, source, target)
        # to float32 such that the second rounding sees what was lost, then to 16 bits
        return _float_to_float(out, _round_to_odd(out, value, source), wide, target)
    if source.bits == 16:
        widened = _widen(out, value, source, wide)
        return widened if target is wide else _float_to_float(out, widened, wide, target)
    if target.bits == 16:
        return _narrow(out, value, wide, target)
    return out.define(f"fpext {register_type(source)} {value} to {register_type(target)}")


def _truncate(out: Builder, value: str, source: DataType, target: DataType) -> str:
    return out.define(f"fptrunc {register_type(source)} {value} to {register_type(target)}")


def _round_to_odd(out: Builder, value: str, source: DataType) -> str:
    """Convert a float64 to a float32 whose last bit is 1 if the conversion was inexact.

    Rounding the result to fewer digits is then the same as rounding the float64 directly.
    """
    lanes = source.lanes
    wide = _FLOAT32.with_lanes(lanes)
    double, single = register_type(source), register_type(wide)
    integer = register_type(_INT32.with_lanes(lanes))
    near = _truncate(out, value, source, wide)
    back = out.define(f"fpext {single} {near} to {double}")
    bits = out.define(f"bitcast {single} {near} to {integer}")
    # nearest may have gone away from zero: one step back toward zero, then set the last bit
    flags = register_type(DataType("bool").with_lanes(lanes))
    exact = out.define(f"fcmp ueq {double} {back}, {value}")
    magnitude = out.define(f"call {double} @llvm.fabs({double} {value})")
    rounded = out.define(f"call {double} @llvm.fabs({double} {back})")
    too_far = out.define(f"fcmp ogt {double} {rounded}, {magnitude}")
    step = out.define(f"sext {flags} {too_far} to {integer}")
    lower = out.define(f"add {integer} {bits}, {step}")
    odd = out.define(f"or {integer} {lower}, {_number(1, lanes)}")
    chosen = out.define(f"select {flags} {exact}, {integer} {bits}, {integer} {odd}")
    return out.define(f"bitcast {integer} {chosen} to {single}")


def _number(value: int, lanes: int, element: str = "i32") -> str:
    return str(value) if lanes == 1 else f"splat ({element} {value})"


def _widen(out: Builder, value: str, source: DataType, wide: DataType) -> str:
    """Convert float16 or bfloat16 to float32."""
    lanes, single = source.lanes, register_type(wide)
    integer = register_type(_INT32.with_lanes(lanes))
    if source.element == "bfloat16":
        extended = out.define(f"zext {register_type(source)} {value} to {integer}")
        bits = out.define(f"shl {integer} {extended}, {_number(16, lanes)}")
        return out.define(f"bitcast {integer} {bits} to {single}")
    if out.machine.converts_float16:
        return out.define(f"fpext {register_type(source)} {value} to {single}")
    half_bits = register_type(_UINT16.with_lanes(lanes))
    stored = out.define(f"bitcast {register_type(source)} {value} to {half_bits}")
    # Place exponent and digits as float32 has them and correct the exponent by a multiplication,
    # which also makes the subnormal numbers normal; infinities and NaN are set apart.
    bits = out.define(f"zext {half_bits} {stored} to {integer}")
    rest = out.define(f"and {integer} {bits}, {_number(0x7FFF, lanes)}")
    placed = out.define(f"shl {integer} {rest}, {_number(13, lanes)}")
    as_float = out.define(f"bitcast {integer} {placed} to {single}")
    factor = "0x46F0000000000000"  # 2 ** 112
    scaled = out.define(f"fmul {single} {as_float}, {_number_text(factor, lanes)}")
    finite = out.define(f"bitcast {single} {scaled} to {integer}")
    flags = register_type(DataType("bool").with_lanes(lanes))
    special = out.define(f"icmp uge {integer} {rest}, {_number(0x7C00, lanes)}")
    infinite = out.define(f"or {integer} {placed}, {_number(0x7F800000, lanes)}")
    magnitude = out.define(f"select {flags} {special}, {integer} {infinite}, {integer} {finite}")
    sign_bit = out.define(f"and {integer} {bits}, {_number(0x8000, lanes)}")
    sign = out.define(f"shl {integer} {sign_bit}, {_number(16, lanes)}")
    joined = out.define(f"or {integer} {magnitude}, {sign}")
    return out.define(f"bitcast {integer} {joined} to {single}")


def _number_text(text: str, lanes: int) -> str:
    return text if lanes == 1 else f"splat (float {text})"


def _narrow(out: Builder, value: str, wide: DataType, target: DataType) -> str:
    """Convert float32 to float16 or bfloat16."""
    if target.element == "bfloat16":
        return _to_bfloat16(out, value, wide, target)
    if out.machine.converts_float16:
        return _truncate(out, value, wide, target)
    bits = round_bits(out, value, wide, FLOAT16)
    half_bits = register_type(_UINT16.with_lanes(target.lanes))
    integer = register_type(_INT32.with_lanes(target.lanes))
    short = out.define(f"trunc {integer} {bits} to {half_bits}")
    return out.define(f"bitcast {half_bits} {short} to {register_type(target)}")


def _to_bfloat16(out: Builder, value: str, wide: DataType, target: DataType) -> str:
    lanes, single = wide.lanes, register_type(wide)
    if out.machine.converts_bfloat16:
        kind = "bfloat" if lanes == 1 else f"<{lanes} x bfloat>"
        short = out.define(f"fptrunc {single} {value} to {kind}")
        return out.define(f"bitcast {kind} {short} to {register_type(target)}")
    integer, flags = (
        register_type(_INT32.with_lanes(lanes)),
        register_type(DataType("bool").with_lanes(lanes)),
    )
    bits = out.define(f"bitcast {single} {value} to {integer}")
    high = out.define(f"lshr {integer} {bits}, {_number(16, lanes)}")
    last = out.define(f"and {integer} {high}, {_number(1, lanes)}")
    bias = out.define(f"add {integer} {last}, {_number(0x7FFF, lanes)}")
    rounded = out.define(f"add {integer} {bits}, {bias}")
    kept = out.define(f"lshr {integer} {rounded}, {_number(16, lanes)}")
    quiet = out.define(f"or {integer} {high}, {_number(0x40, lanes)}")
    nan = out.define(f"fcmp uno {single} {value}, {value}")
    chosen = out.define(f"select {flags} {nan}, {integer} {quiet}, {integer} {kept}")
    return out.define(f"trunc {integer} {chosen} to {register_type(target)}")

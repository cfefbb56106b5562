"""The operators of scalar calls as C99 text; one function per operator or family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.codegen.c.expressions import (
    ATOM,
    BIT_AND,
    BIT_OR,
    BIT_XOR,
    EQUAL,
    FLOAT32,
    PRODUCT,
    SHIFT,
    SUM,
    UNARY,
    Piece,
)
from tilesmith.codegen.c.helpers import c_type, is_narrow, short
from tilesmith.ir import Call, IntImm, StringImm
from tilesmith.runtime.packed_elements import is_packed
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.struct_fields import StructField

Handler = Callable[[Any, Call], Piece]
INTRINSICS: dict[str, Handler] = {}
"""Handlers by the operator's full name."""

MATH_H = (
    "acos acosh asin asinh atan atan2 atanh ceil copysign cos cosh erf exp exp2 fabs floor fma "
    "fmod hypot log log10 log1p log2 nearbyint nextafter round sin sinh sqrt tan tanh trunc"
).split()


def handles(*names: str) -> Callable[[Handler], Handler]:
    """Enter a function in the table under operator names without `tir.`."""

    def enter(handler: Handler) -> Handler:
        for name in names:
            INTRINSICS["tir." + name] = handler
        return handler

    return enter


@handles(*MATH_H)
def _math(write: Any, call: Call) -> Piece:
    return write.function(call.op.name[4:], list(call.args), call.dtype)


@handles("exp10")
def _exp10(write: Any, call: Call) -> Piece:
    inner = write.widened(call.args[0])
    suffix = write.suffix(call.dtype)
    ten = "10.0" + suffix
    return write.shortened(f"pow{suffix}({ten}, {inner})", call.dtype)


@handles("rsqrt")
def _rsqrt(write: Any, call: Call) -> Piece:
    suffix = write.suffix(call.dtype)
    written = f"1.0{suffix} / sqrt{suffix}({write.widened(call.args[0])})"
    return write.shortened(written, call.dtype)[0], ATOM if is_narrow(call.dtype) else PRODUCT


@handles("sigmoid")
def _sigmoid(write: Any, call: Call) -> Piece:
    suffix = write.suffix(call.dtype)
    inner = f"1.0{suffix} / (1.0{suffix} + exp{suffix}(-{write.widened(call.args[0], UNARY)}))"
    return write.shortened(inner, call.dtype)[0], ATOM if is_narrow(call.dtype) else PRODUCT


@handles("pow")
def _pow(write: Any, call: Call) -> Piece:
    if call.dtype.is_float:
        return write.function("pow", list(call.args), call.dtype)
    helper = write.module.helper("pow", call.dtype)
    return f"{helper}({write.text(call.args[0])}, {write.text(call.args[1])})", ATOM


@handles("ldexp")
def _ldexp(write: Any, call: Call) -> Piece:
    value, power = write.widened(call.args[0]), write.text(call.args[1])
    return write.shortened(f"ldexp{write.suffix(call.dtype)}({value}, {power})", call.dtype)


@handles("isnan", "isinf", "isfinite")
def _classify(write: Any, call: Call) -> Piece:
    return f"{call.op.name[4:]}({write.widened(call.args[0])}) != 0", EQUAL


@handles("bitwise_and", "bitwise_or", "bitwise_xor")
def _bitwise(write: Any, call: Call) -> Piece:
    operator, precedence = {"and": ("&", BIT_AND), "or": ("|", BIT_OR), "xor": ("^", BIT_XOR)}[
        call.op.name.rpartition("_")[2]
    ]
    a, b = write.text(call.args[0], UNARY), write.text(call.args[1], UNARY)
    return write.narrowed((f"{a} {operator} {b}", precedence), call.dtype)


@handles("bitwise_not")
def _bitwise_not(write: Any, call: Call) -> Piece:
    operator = "!" if call.dtype.is_bool else "~"
    return write.narrowed((f"{operator}{write.text(call.args[0], UNARY)}", UNARY), call.dtype)


@handles("shift_left", "shift_right")
def _shift(write: Any, call: Call) -> Piece:
    operator = "<<" if call.op.name == "tir.shift_left" else ">>"
    a, b = write.text(call.args[0], UNARY), write.text(call.args[1], UNARY)
    return write.narrowed((f"{a} {operator} {b}", SHIFT), call.dtype)


@handles("popcount", "clz")
def _count_bits(write: Any, call: Call) -> Piece:
    source = call.args[0].dtype
    value = f"(uint{max(8, source.bits)}_t){write.text(call.args[0], UNARY)}"
    if is_packed(source):
        value = f"{value} & {(1 << source.bits) - 1}"
    if call.op.name == "tir.popcount":
        counted = f"{write.module.helper('popcount')}({value})"
    else:
        counted = f"{write.module.helper('count_leading_zeros')}({value}, {source.bits})"
    return f"({c_type(call.dtype)}){counted}", UNARY


@handles("reinterpret")
def _reinterpret(write: Any, call: Call) -> Piece:
    source, target = call.args[0].dtype.element, call.dtype.element
    if target.is_handle:
        inner = write.text(call.args[0], UNARY)
        return f"(void*)(uintptr_t){inner}", UNARY
    if source.is_handle:
        return f"({c_type(target)})(uintptr_t){write.text(call.args[0], UNARY)}", UNARY
    if source.bits != target.bits or call.dtype.lanes != call.args[0].dtype.lanes:
        raise write.unsupported(f"reinterpret from {call.args[0].dtype} to {call.dtype}")
    if c_type(source) == c_type(target):
        return write.visit(call.args[0])
    return f"{write.module.reinterpret(source, target)}({write.text(call.args[0])})", ATOM


@handles("large_uint_imm")
def _large_uint(write: Any, call: Call) -> Piece:
    low, high = [arg.value for arg in call.args]  # type: ignore[attr-defined]
    return f"UINT64_C({(high << 32) | low})", ATOM


@handles("q_multiply_shift")
def _q_multiply_shift(write: Any, call: Call) -> Piece:
    x, y, q, s = [write.text(arg, SUM) for arg in call.args]
    helper = write.module.helper("scale_rounded")
    return f"({c_type(call.dtype)}){helper}({x}, {y}, {q} + {s})", UNARY


@handles("q_multiply_shift_per_axis")
def _q_multiply_shift_per_axis(write: Any, call: Call) -> Piece:
    x, y, left, right, q, is_left, is_right = [write.text(arg, UNARY) for arg in call.args]
    helper = write.module.helper("scale_rounded")
    value = f"(int64_t){x} << ({is_left} ? {left} : 0)"
    shift = f"{q} + ({is_right} ? {right} : 0)"
    return f"({c_type(call.dtype)}){helper}({value}, {y}, {shift})", UNARY


@handles("dp4a")
def _dp4a(write: Any, call: Call) -> Piece:
    first, second, total = call.args
    if first.dtype.lanes == 1:
        write.module.helper("dp4a_" + ("u8" if first.dtype.is_uint else "i8"))
        name = "dp4a_" + ("u8" if first.dtype.is_uint else "i8")
        words = f"(uint32_t){write.text(first, UNARY)}, (uint32_t){write.text(second, UNARY)}"
        return f"{name}({words}, {write.text(total)})", ATOM
    products = [
        f"{write.at_lane(first, str(lane), PRODUCT)} * {write.at_lane(second, str(lane), UNARY)}"
        for lane in range(4)
    ]
    return f"{' + '.join(products)} + {write.text(total, SUM)}", SUM


@handles("if_then_else")
def _if_then_else(write: Any, call: Call) -> Piece:
    """Lazy: what an arm needs beforehand is computed only if the arm is taken."""
    condition, true, false = call.args
    saved = write.lines
    chosen = write.text(condition)
    arms = []
    for arm in (true, false):
        write.lines = []
        write.guarded += 1
        known = dict(write._known)
        write.indent += 1
        value = write.text(arm)
        write.indent -= 1
        write._known = known
        write.guarded -= 1
        arms.append((write.lines, value))
    write.lines = saved
    if not arms[0][0] and not arms[1][0]:
        return write.choice(condition, true, false)
    name = write.fresh("chosen")
    write.write(f"{c_type(call.dtype)} {name};")
    write.write(f"if ({chosen}) {{")
    for number, (lines, value) in enumerate(arms):
        write.lines += lines
        write.write(f"  {name} = {value};")
        write.write("} else {" if number == 0 else "}")
    return name, ATOM


@handles("likely", "tvm_thread_invariant")
def _hint(write: Any, call: Call) -> Piece:
    return write.visit(call.args[0])


@handles("assume", "tvm_storage_sync", "undef", "type_annotation")
def _nothing(write: Any, call: Call) -> Piece:
    return "0", ATOM


@handles("atomic_add")
def _atomic_add(write: Any, call: Call) -> Piece:
    pointer, value = call.args
    dtype = value.dtype
    if dtype.lanes > 1 or is_narrow(dtype) or is_packed(dtype) or dtype.is_bool:
        raise write.unsupported(f"values of '{dtype}' cannot be added atomically")
    helper = write.module.helper("atomic_add", dtype)
    place = f"({c_type(dtype)}*){write.text(pointer, UNARY)}"
    return f"{helper}({place}, {write.text(value)})", ATOM


@handles("prefetch")
def _prefetch(write: Any, call: Call) -> Piece:
    write.module.uses_prefetch = True
    numbers = [str(arg.value) for arg in call.args[1:3]]  # type: ignore[attr-defined]
    return f"TS_PREFETCH({write.text(call.args[0])}, {', '.join(numbers)})", ATOM


@handles("vectorlow", "vectorhigh")
def _vector_half(write: Any, call: Call) -> Piece:
    half = call.args[0].dtype.lanes // 2
    if call.op.name == "tir.vectorlow":
        return write.visit(call.args[0])
    return write.at_lane(call.args[0], f"({write.lane} + {half})", ATOM), ATOM


@handles("vectorcombine")
def _vector_combine(write: Any, call: Call) -> Piece:
    first, second = call.args
    low = write.text(first, ATOM)
    high = write.at_lane(second, f"({write.lane} - {first.dtype.lanes})", ATOM)
    return f"{write.lane} < {first.dtype.lanes} ? {low} : {high}", 3


@handles("get_active_lane_mask")
def _active_lanes(write: Any, call: Call) -> Piece:
    return f"{write.text(call.args[0], SUM)} + {write.lane} < {write.text(call.args[1], SUM)}", 10


@handles("address_of")
def _address_of(write: Any, call: Call) -> Piece:
    load = call.args[0]
    assert isinstance(load, BufferLoad)
    if is_packed(load.buffer.dtype):
        outer, write.lane = write.lane, "0"
        base, place = write.place(load)
        write.lane = outer
        return f"(void*)((uint8_t*){base} + ({place}) / {8 // load.buffer.dtype.bits})", UNARY
    return f"(void*)&{write.at_lane(load, '0', ATOM)}", UNARY


@handles("handle_add_byte_offset")
def _add_bytes(write: Any, call: Call) -> Piece:
    base, offset = write.text(call.args[0], UNARY), write.text(call.args[1], SUM)
    return f"(void*)((char*){base} + {offset})", UNARY


@handles("tvm_access_ptr")
def _access_pointer(write: Any, call: Call) -> Piece:
    unit, data, offset = call.args[0].dtype, call.args[1], write.text(call.args[2], PRODUCT)
    if unit.lanes > 1:
        offset = f"{offset} * {unit.lanes}"
    if is_packed(unit):
        offset = f"({offset}) / {8 // unit.bits}"
    return f"(void*)(({c_type(unit)}*){write.text(data, UNARY)} + {offset})", UNARY


@handles("isnullptr")
def _is_null(write: Any, call: Call) -> Piece:
    return f"{write.text(call.args[0], EQUAL)} == NULL", EQUAL


@handles("mem_copy")
def _mem_copy(write: Any, call: Call) -> Piece:
    return f"memmove({', '.join([write.text(arg) for arg in call.args[:3]])})", ATOM


def text_argument(write: Any, arg: Any) -> str:
    """A name given as an argument of a call."""
    if not isinstance(arg, StringImm):
        raise write.unsupported(f"a name must be a text, got {arg!r}")
    return arg.value


@handles("call_extern", "call_pure_extern")
def _call_extern(write: Any, call: Call) -> Piece:
    name = text_argument(write, call.args[0])
    arguments = call.args[1:]
    write.module.declare(name, call.dtype, [arg.dtype for arg in arguments])
    return f"{name}({', '.join([write.text(arg) for arg in arguments])})", ATOM


# -- tvm-ffi

_TENSOR_FIELDS = {
    StructField.ARRAY_DATA: "data",
    StructField.ARRAY_SHAPE: "shape",
    StructField.ARRAY_STRIDES: "strides",
    StructField.ARRAY_NDIM: "ndim",
    StructField.ARRAY_TYPE_CODE: "dtype.code",
    StructField.ARRAY_TYPE_BITS: "dtype.bits",
    StructField.ARRAY_TYPE_LANES: "dtype.lanes",
    StructField.ARRAY_BYTE_OFFSET: "byte_offset",
    StructField.ARRAY_DEVICE_ID: "device.id",
    StructField.ARRAY_DEVICE_TYPE: "device.type",
}


def _field(write: Any, call: Call, value: Any) -> str:
    """The C lvalue of a field of a runtime structure."""
    write.module.uses_ffi = True
    number = call.args[2]
    field = StructField(number.value) if isinstance(number, IntImm) else None
    base, index = write.text(call.args[0], UNARY), write.text(call.args[1])
    if field in _TENSOR_FIELDS:
        return f"((TsTensor*){base})[{index}].{_TENSOR_FIELDS[field]}"
    any_value = f"((TsAny*){base})[{index}]"
    if field is StructField.ANY_TYPE_INDEX:
        return any_value + ".type_index"
    if field is StructField.ANY_ZERO_PADDING:
        return any_value + ".zero"
    if field in (StructField.ANY_UNION_VALUE, StructField.VALUE_CONTENT):
        kind = "f" if value.is_float else "p" if value.is_handle else "i"
        return f"{any_value}.v.{kind}"
    raise write.unsupported(f"no runtime structure has the field {number!r}")


@handles("tvm_struct_get")
def _struct_get(write: Any, call: Call) -> Piece:
    if isinstance(call.args[2], IntImm) and call.args[2].value == StructField.ARRAY_ADDRESS:
        base, index = write.text(call.args[0], UNARY), write.text(call.args[1])
        write.module.uses_ffi = True
        return f"(void*)&((TsTensor*){base})[{index}]", UNARY
    return f"({c_type(call.dtype)}){_field(write, call, call.dtype)}", UNARY


@handles("tvm_struct_set")
def _struct_set(write: Any, call: Call) -> Piece:
    place = _field(write, call, call.args[3].dtype)
    return f"{place} = {write.text(call.args[3])}", 2


__all__ = ["FLOAT32", "INTRINSICS", "MATH_H", "handles", "short", "text_argument"]

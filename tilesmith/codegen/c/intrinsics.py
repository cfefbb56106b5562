"""Defines rules of the operators of scalar calls in C."""

from __future__ import annotations

from typing import Any

from tilesmith.codegen.c.dialect import c_type
from tilesmith.codegen.c.messages import raise_parts
from tilesmith.codegen.c.rules import handles
from tilesmith.codegen.c.values import Values
from tilesmith.codegen.c_family.dialect import is_narrow
from tilesmith.codegen.c_family.expressions import text_argument
from tilesmith.codegen.c_family.memory import offset_of_pointer, place
from tilesmith.codegen.c_family.pieces import ATOM, CHOICE, EQUAL, PRODUCT, SUM, UNARY, Piece
from tilesmith.ir import Call, IntImm
from tilesmith.runtime.packed_elements import is_packed
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.struct_fields import StructField


@handles("exp10")
def _exp10(emit: Values, call: Call) -> Piece:
    inner = emit.widened(call.args[0])
    suffix = emit.suffix(call.dtype)
    ten = "10.0" + suffix
    return emit.shortened(f"pow{suffix}({ten}, {inner})", call.dtype)


@handles("rsqrt")
def _rsqrt(emit: Values, call: Call) -> Piece:
    suffix = emit.suffix(call.dtype)
    written = f"1.0{suffix} / sqrt{suffix}({emit.widened(call.args[0])})"
    return emit.shortened(written, call.dtype)[0], ATOM if is_narrow(call.dtype) else PRODUCT


@handles("isnan", "isinf", "isfinite")
def _classify(emit: Values, call: Call) -> Piece:
    return f"{call.op.name[4:]}({emit.widened(call.args[0])}) != 0", EQUAL


@handles("popcount", "clz")
def _count_bits(emit: Values, call: Call) -> Piece:
    source = call.args[0].dtype
    value = f"(uint{max(8, source.bits)}_t){emit.text(call.args[0], UNARY)}"
    if is_packed(source):
        value = f"{value} & {(1 << source.bits) - 1}"
    if call.op.name == "tir.popcount":
        counted = f"{emit.file.helper('popcount')}({value})"
    else:
        counted = f"{emit.file.helper('count_leading_zeros')}({value}, {source.bits})"
    return f"({c_type(call.dtype)}){counted}", UNARY


@handles("reinterpret")
def _reinterpret(emit: Values, call: Call) -> Piece:
    source, target = call.args[0].dtype.element, call.dtype.element
    if target.is_handle:
        inner = emit.text(call.args[0], UNARY)
        return f"(void*)(uintptr_t){inner}", UNARY
    if source.is_handle:
        return f"({c_type(target)})(uintptr_t){emit.text(call.args[0], UNARY)}", UNARY
    if source.bits != target.bits or call.dtype.lanes != call.args[0].dtype.lanes:
        raise emit.out.unsupported(f"reinterpret from {call.args[0].dtype} to {call.dtype}")
    if c_type(source) == c_type(target):
        return emit.piece(call.args[0])
    return f"{emit.file.reinterpret(source, target)}({emit.text(call.args[0])})", ATOM


@handles("dp4a")
def _dp4a(emit: Values, call: Call) -> Piece:
    first, second, total = call.args
    if first.dtype.lanes == 1:
        emit.file.helper("dp4a_" + ("u8" if first.dtype.is_uint else "i8"))
        name = "dp4a_" + ("u8" if first.dtype.is_uint else "i8")
        words = f"(uint32_t){emit.text(first, UNARY)}, (uint32_t){emit.text(second, UNARY)}"
        return f"{name}({words}, {emit.text(total)})", ATOM
    products = [
        f"{emit.at_lane(first, str(lane), PRODUCT)} * {emit.at_lane(second, str(lane), UNARY)}"
        for lane in range(4)
    ]
    return f"{' + '.join(products)} + {emit.text(total, SUM)}", SUM


@handles("dot_bf16bf16", "dot_i16i16", "dot_i8i8", "dot_u8i8")
def _dot_product(emit: Values, call: Call) -> Piece:
    helper = emit.file.helper(call.op.name.removeprefix("tir."))
    return f"{helper}({emit.text(call.args[0])}, {emit.text(call.args[1])})", ATOM


@handles("checked")
def _checked(emit: Values, call: Call) -> Piece:
    """Write a value that is used only if a condition holds.

    Code that cannot report errors uses 0 instead, which neither traps nor leaves a buffer.
    """
    value, condition, *message = call.args
    holds = emit.text(condition, UNARY)
    can_report = emit.exits.can_report()
    if can_report:
        raise_parts(emit, f"!{holds}", message)
    written = emit.text(value)
    name = emit.out.fresh("value")
    emit.out.write(f"const {c_type(call.dtype)} {name} = {written};")
    return (name, ATOM) if can_report else (f"{holds} ? {name} : 0", CHOICE)


@handles("parallel_tasks")
def _parallel_tasks(emit: Values, call: Call) -> Piece:
    return emit.tasks, ATOM


@handles("parallel_barrier")
def _parallel_barrier(emit: Values, call: Call) -> Piece:
    if not emit.barrier:
        return "0", ATOM  # one task runs alone
    emit.file.uses_barrier = True
    if emit.exits.returns == "status":
        # Another task has ended with an error, which is kept: this one ends as well.
        emit.exits.leave_if(f"!{emit.barrier}", "-1")
        return "0", ATOM
    return emit.barrier, ATOM


@handles("tvm_storage_sync")
def _nothing(emit: Values, call: Call) -> Piece:
    return "0", ATOM


@handles("atomic_add")
def _atomic_add(emit: Values, call: Call) -> Piece:
    pointer, value = call.args
    dtype = value.dtype
    if dtype.lanes > 1 or is_narrow(dtype) or is_packed(dtype) or dtype.is_bool:
        raise emit.out.unsupported(f"values of '{dtype}' cannot be added atomically")
    helper = emit.file.helper("atomic_add", dtype)
    place = f"({c_type(dtype)}*){emit.text(pointer, UNARY)}"
    return f"{helper}({place}, {emit.text(value)})", ATOM


@handles("prefetch")
def _prefetch(emit: Values, call: Call) -> Piece:
    emit.file.uses_prefetch = True
    numbers = [str(arg.value) for arg in call.args[1:3]]  # type: ignore[attr-defined]
    return f"TS_PREFETCH({emit.text(call.args[0])}, {', '.join(numbers)})", ATOM


@handles("vectorlow", "vectorhigh")
def _vector_half(emit: Values, call: Call) -> Piece:
    half = call.args[0].dtype.lanes // 2
    if call.op.name == "tir.vectorlow":
        return emit.piece(call.args[0])
    return emit.at_lane(call.args[0], f"({emit.lane} + {half})", ATOM), ATOM


@handles("vectorcombine")
def _vector_combine(emit: Values, call: Call) -> Piece:
    first, second = call.args
    low = emit.text(first, ATOM)
    high = emit.at_lane(second, f"({emit.lane} - {first.dtype.lanes})", ATOM)
    return f"{emit.lane} < {first.dtype.lanes} ? {low} : {high}", 3


@handles("get_active_lane_mask")
def _active_lanes(emit: Values, call: Call) -> Piece:
    return f"{emit.text(call.args[0], SUM)} + {emit.lane} < {emit.text(call.args[1], SUM)}", 10


@handles("address_of")
def _address_of(emit: Values, call: Call) -> Piece:
    load = call.args[0]
    assert isinstance(load, BufferLoad)
    if is_packed(load.buffer.dtype):
        outer, emit.lane = emit.lane, "0"
        base, index = place(emit, load)
        emit.lane = outer
        return f"(void*)((uint8_t*){base} + ({index}) / {8 // load.buffer.dtype.bits})", UNARY
    return f"(void*)&{emit.at_lane(load, '0', ATOM)}", UNARY


@handles("tvm_access_ptr")
def _access_pointer(emit: Values, call: Call) -> Piece:
    unit, data, offset = call.args[0].dtype, call.args[1], offset_of_pointer(emit, call)
    return f"(void*)(({c_type(unit)}*){emit.text(data, UNARY)} + {offset})", UNARY


@handles("isnullptr")
def _is_null(emit: Values, call: Call) -> Piece:
    return f"{emit.text(call.args[0], EQUAL)} == NULL", EQUAL


@handles("mem_copy")
def _mem_copy(emit: Values, call: Call) -> Piece:
    return f"memmove({', '.join([emit.text(arg) for arg in call.args[:3]])})", ATOM


@handles("call_extern", "call_pure_extern")
def _call_extern(emit: Values, call: Call) -> Piece:
    name = text_argument(emit, call.args[0])
    arguments = call.args[1:]
    emit.file.declare(name, call.dtype, [arg.dtype for arg in arguments])
    return f"{name}({', '.join([emit.text(arg) for arg in arguments])})", ATOM


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


def _field(emit: Values, call: Call, value: Any) -> str:
    """Return the C lvalue of a field of a runtime structure."""
    emit.file.uses_ffi = True
    number = call.args[2]
    field = StructField(number.value) if isinstance(number, IntImm) else None
    base, index = emit.text(call.args[0], UNARY), emit.text(call.args[1])
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
    raise emit.out.unsupported(f"no runtime structure has the field {number!r}")


@handles("tvm_struct_get")
def _struct_get(emit: Values, call: Call) -> Piece:
    if isinstance(call.args[2], IntImm) and call.args[2].value == StructField.ARRAY_ADDRESS:
        base, index = emit.text(call.args[0], UNARY), emit.text(call.args[1])
        emit.file.uses_ffi = True
        return f"(void*)&((TsTensor*){base})[{index}]", UNARY
    return f"({c_type(call.dtype)}){_field(emit, call, call.dtype)}", UNARY


@handles("tvm_struct_set")
def _struct_set(emit: Values, call: Call) -> Piece:
    place = _field(emit, call, call.args[3].dtype)
    return f"{place} = {emit.text(call.args[3])}", 2

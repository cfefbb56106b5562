"""Defines the rule of the bits of a value as another type."""

from __future__ import annotations

from tilesmith.codegen.c_family.dialect import short
from tilesmith.codegen.c_family.pieces import ATOM, UNARY, Piece
from tilesmith.codegen.gpu.rules import handles
from tilesmith.codegen.gpu.values import Values
from tilesmith.ir import Call

_CUDA_BITS = {
    ("f32", "i32"): "__float_as_int", ("i32", "f32"): "__int_as_float",
    ("f32", "u32"): "__float_as_uint", ("u32", "f32"): "__uint_as_float",
    ("f64", "i64"): "__double_as_longlong", ("i64", "f64"): "__longlong_as_double",
    ("f16", "u16"): "__half_as_ushort", ("u16", "f16"): "__ushort_as_half",
    ("bf16", "u16"): "__bfloat16_as_ushort", ("u16", "bf16"): "__ushort_as_bfloat16",
}  # fmt: skip


@handles("reinterpret")
def _reinterpret(emit: Values, call: Call) -> Piece:
    source, target = call.args[0].dtype.element, call.dtype.element
    address = "size_t" if emit.dialect.name == "opencl" else "unsigned long long"
    if target.is_handle:
        return f"(void*)({address}){emit.text(call.args[0], UNARY)}", UNARY
    if source.is_handle:
        return f"({emit.type(target)})({address}){emit.text(call.args[0], UNARY)}", UNARY
    if source.bits * call.args[0].dtype.lanes != target.bits * call.dtype.lanes:
        raise emit.out.unsupported(f"reinterpret from {call.args[0].dtype} to {call.dtype}")
    if source.bits != target.bits:
        return _regrouped(emit, call)
    if emit.type(source) == emit.type(target):
        return emit.piece(call.args[0])
    if emit.dialect.name == "opencl":
        return f"as_{emit.type(target)}({emit.text(call.args[0])})", ATOM
    name = _CUDA_BITS.get((short(source), short(target)))
    return f"{name or emit.file.reinterpret(source, target)}({emit.text(call.args[0])})", ATOM


def _regrouped(emit: Values, call: Call) -> Piece:
    """Write the bits of a vector as fewer or more lanes: int8x4 as int32, float32 as float16x2."""
    source, target = call.args[0].dtype, call.dtype
    known = emit.regrouped.get(id(call))
    if known is None:
        values = emit.out.fresh("lanes")
        parts = [emit.at_lane(call.args[0], lane) for lane in range(source.lanes)]
        size = source.element.nbytes * source.lanes
        align = f"__align__({min(16, size)}) " if emit.dialect.name == "cuda" else ""
        aligned = "" if align else f" __attribute__((aligned({min(16, size)})))"
        listed = emit.listed(parts)
        element = emit.type(source.element)
        emit.out.write(f"{align}{element} {values}[{source.lanes}]{aligned} = {{{listed}}};")
        known = f"(({emit.type(target.element)}*){values})"
        if not emit.guarded:
            emit.regrouped[id(call)] = known
    return f"{known}[{emit.lane if target.lanes > 1 else 0}]", ATOM

"""Sums of products of bytes, ``dot_u8i8``: one instruction, where the target has it (vpdpbusd)."""

from __future__ import annotations

from collections.abc import Collection

from tilesmith.codegen.llvm.dtypes import register_type
from tilesmith.codegen.llvm.rules import handles
from tilesmith.codegen.llvm.values import Values
from tilesmith.ir import Call, PrimExpr, const
from tilesmith.ir.call_intrinsics import call_llvm_pure_intrin
from tilesmith.ir.intrinsics import reinterpret
from tilesmith.ir.queries import is_call
from tilesmith.runtime.dtype import DataType

__all__ = ["dot_product"]

_NAME = "tir.dot_u8i8"


def _has_instruction(features: Collection[str], lanes: int) -> bool:
    if lanes == 16:
        return "avx512vnni" in features
    if lanes in (4, 8):
        return "avxvnni" in features or ("avx512vnni" in features and "avx512vl" in features)
    return False


def dot_product(features: Collection[str], total: PrimExpr, product: PrimExpr) -> PrimExpr | None:
    """Return the sum of vectors and dot products of bytes as a call of the instruction that adds;
    None if it is no such sum or the target has no such instruction.
    """
    if not is_call(product, _NAME):
        return None
    lanes = product.dtype.lanes
    if not _has_instruction(features, lanes):
        return None
    bytes_ = f"uint8x{4 * lanes}"
    a, b = [reinterpret(bytes_, arg) for arg in product.args]
    name = f"llvm.x86.avx512.vpdpbusd.{32 * lanes}"
    return call_llvm_pure_intrin(str(product.dtype), name, total, a, b)


@handles("dot_u8i8")
def _dot_u8i8(emit: Values, call: Call) -> str:
    lanes = call.dtype.lanes
    zero = const(0, str(DataType("int32").with_lanes(lanes)))
    added = dot_product(emit.machine.features, zero, call)
    if added is not None:
        return emit.value(added)
    kind = register_type(call.dtype)
    a, b = [emit.value(arg) for arg in call.args]
    total = ""
    for place in range(0, 32, 8):
        shift, mask, left, right = [
            emit.out.broadcast(str(one), call.dtype) for one in (place, 255, 24 - place, 24)
        ]
        first = emit.define(f"and {kind} {emit.define(f'lshr {kind} {a}, {shift}')}, {mask}")
        second = emit.define(f"ashr {kind} {emit.define(f'shl {kind} {b}, {left}')}, {right}")
        product = emit.define(f"mul {kind} {first}, {second}")
        total = emit.define(f"add {kind} {total}, {product}") if total else product
    return total

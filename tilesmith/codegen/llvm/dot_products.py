"""Sums of products of bytes, ``dot_u8i8`` and ``dot_i8i8``, of int16, ``dot_i16i16``, and of
bfloat16, ``dot_bf16bf16``: one instruction, where the target has it (vpdpbusd, vpdpwssd, pmaddwd,
vdpbf16ps; sdot, usdot, bfdot).
"""

from __future__ import annotations

from collections.abc import Collection

from tilesmith.codegen.llvm.dtypes import register_type
from tilesmith.codegen.llvm.rules import handles
from tilesmith.codegen.llvm.values import Values
from tilesmith.ir import Call, PrimExpr, const
from tilesmith.ir.call_intrinsics import call_llvm_pure_intrin
from tilesmith.ir.intrinsics import reinterpret
from tilesmith.ir.operators import bitwise_and, shift_left, shift_right
from tilesmith.ir.queries import is_call
from tilesmith.runtime.dtype import DataType

__all__ = ["dot_product"]

_PAIRS = "tir.dot_bf16bf16"
_SIGNED, _UNSIGNED = "tir.dot_i8i8", "tir.dot_u8i8"
_SHORT = "tir.dot_i16i16"


def _instruction(features: Collection[str], signed: bool, lanes: int) -> str | None:
    """Return the name of the instruction that adds dot products to ``lanes`` sums."""
    if lanes == 4 and "i8mm" in features and not signed:
        return "llvm.aarch64.neon.usdot.v4i32.v16i8"
    if lanes == 4 and "dotprod" in features and signed:
        return "llvm.aarch64.neon.sdot.v4i32.v16i8"
    has = _adds_products(features, lanes)
    return f"llvm.x86.avx512.vpdpbusd.{32 * lanes}" if has and not signed else None


def _adds_products(features: Collection[str], lanes: int) -> bool:
    """Return whether an x86 adds dot products of small integers to ``lanes`` sums at once."""
    has_short = "avxvnni" in features or ("avx512vnni" in features and "avx512vl" in features)
    return "avx512vnni" in features if lanes == 16 else lanes in (4, 8) and has_short


def _multiplication_of_pairs(features: Collection[str], lanes: int) -> str | None:
    """Return the name of the instruction that multiplies int16 and adds neighbouring products."""
    names = {
        4: ("sse2", "sse2.pmadd.wd"), 8: ("avx2", "avx2.pmadd.wd"),
        16: ("avx512bw", "avx512.pmaddw.d.512"),
    }  # fmt: skip
    feature, name = names.get(lanes, ("", ""))
    return f"llvm.x86.{name}" if feature in features else None


def _instruction_for_pairs(features: Collection[str], lanes: int) -> str | None:
    """Return the name of the instruction that adds products of two bfloat16 to ``lanes`` sums."""
    if lanes == 4 and {"bf16", "neon"}.issubset(features):
        return "llvm.aarch64.neon.bfdot.v4f32.v8bf16"
    if "avx512bf16" not in features:
        return None
    has = lanes == 16 or (lanes in (4, 8) and "avx512vl" in features)
    return f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}" if has else None


def dot_product(features: Collection[str], total: PrimExpr, product: PrimExpr) -> PrimExpr | None:
    """Return the sum of vectors and dot products as a call of the instruction that adds; None if it
    is no such sum or the target has no such instruction.
    """
    if isinstance(product, Call) and is_call(product, _PAIRS):
        return _sum_of_pairs(features, total, product)
    if not is_call(product, _SIGNED, _UNSIGNED, _SHORT):
        return None
    lanes = product.dtype.lanes
    if is_call(product, _SHORT):
        has = _adds_products(features, lanes)
        name = f"llvm.x86.avx512.vpdpwssd.{32 * lanes}" if has else None
        element, count = "int16", 2
    else:
        name = _instruction(features, is_call(product, _SIGNED), lanes)
        element, count = "uint8", 4
    if name is None:
        return None
    a, b = [reinterpret(f"{element}x{count * lanes}", arg) for arg in product.args]
    return call_llvm_pure_intrin(str(product.dtype), name, total, a, b)


def _sum_of_pairs(features: Collection[str], total: PrimExpr, product: Call) -> PrimExpr | None:
    """Return a sum with dot products of bfloat16 as a call of the instruction; None without one."""
    lanes = product.dtype.lanes
    name = _instruction_for_pairs(features, lanes)
    if name is None:
        return None
    pairs = [reinterpret(f"bfloat16x{2 * lanes}", arg) for arg in product.args]
    return call_llvm_pure_intrin(str(product.dtype), name, total, *pairs)


def _products_of_pairs(features: Collection[str], call: Call) -> PrimExpr | None:
    """Return dot products of bytes as sums of two products of 16 bits, by an older instruction
    (pmaddwd) that multiplies the even bytes, then the odd ones; None if the target has none.
    """
    lanes = call.dtype.lanes
    name = _multiplication_of_pairs(features, lanes)
    if name is None or lanes == 4:
        return None
    short = f"int16x{2 * lanes}"
    eight = const(8, short)
    a, b = [reinterpret(short, arg) for arg in call.args]
    data, weights = [
        [shift_right(shift_left(one, eight), eight), shift_right(one, eight)] for one in (a, b)
    ]
    if is_call(call, _UNSIGNED):
        wide = reinterpret(f"uint16x{2 * lanes}", call.args[0])
        bits = const(8, f"uint16x{2 * lanes}")
        halves = [shift_right(shift_left(wide, bits), bits), shift_right(wide, bits)]
        data = [reinterpret(short, half) for half in halves]
    sums = [call_llvm_pure_intrin(str(call.dtype), name, x, y) for x, y in zip(data, weights)]
    return sums[0] + sums[1]


@handles("dot_i8i8", "dot_u8i8")
def _dot_product(emit: Values, call: Call) -> str:
    lanes = call.dtype.lanes
    zero = const(0, str(DataType("int32").with_lanes(lanes)))
    added = dot_product(emit.machine.features, zero, call)
    if added is None:
        added = _products_of_pairs(emit.machine.features, call)
    if added is not None:
        return emit.value(added)
    kind = register_type(call.dtype)
    a, b = [emit.value(arg) for arg in call.args]
    total = ""
    for place in range(0, 32, 8):
        shift, mask, left, right = [
            emit.out.broadcast(str(one), call.dtype) for one in (place, 255, 24 - place, 24)
        ]

        def signed(value: str, left: str = left, right: str = right) -> str:
            return emit.define(f"ashr {kind} {emit.define(f'shl {kind} {value}, {left}')}, {right}")

        if is_call(call, _SIGNED):
            first = signed(a)
        else:
            first = emit.define(f"and {kind} {emit.define(f'lshr {kind} {a}, {shift}')}, {mask}")
        product = emit.define(f"mul {kind} {first}, {signed(b)}")
        total = emit.define(f"add {kind} {total}, {product}") if total else product
    return total


@handles("dot_i16i16")
def _dot_product_of_short_integers(emit: Values, call: Call) -> str:
    lanes = call.dtype.lanes
    features = emit.machine.features
    added = dot_product(features, const(0, str(call.dtype)), call)
    name = _multiplication_of_pairs(features, lanes)
    if added is None and name is not None:
        pairs = [reinterpret(f"int16x{2 * lanes}", arg) for arg in call.args]
        added = call_llvm_pure_intrin(str(call.dtype), name, *pairs)
    if added is not None:
        return emit.value(added)
    a, b = [reinterpret(str(call.dtype), arg) for arg in call.args]
    bits = const(16, str(call.dtype))
    low = [shift_right(shift_left(one, bits), bits) for one in (a, b)]
    high = [shift_right(one, bits) for one in (a, b)]
    return emit.value(low[0] * low[1] + high[0] * high[1])


@handles("dot_bf16bf16")
def _dot_product_of_pairs(emit: Values, call: Call) -> str:
    zero = const(0.0, str(call.dtype))
    added = _sum_of_pairs(emit.machine.features, zero, call)
    if added is not None:
        return emit.value(added)
    word = str(call.args[0].dtype)
    kind, bits, mask = str(call.dtype), const(16, word), const(0xFFFF0000, word)
    high = [reinterpret(kind, bitwise_and(arg, mask)) for arg in call.args]
    low = [reinterpret(kind, shift_left(arg, bits)) for arg in call.args]
    return emit.value(high[0] * high[1] + low[0] * low[1])

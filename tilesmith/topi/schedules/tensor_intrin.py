"""Tensor intrinsics of x86 for classic schedules: sixteen dot products of four bytes each.

The instructions are those of `schedule_rules.intrinsics.x86`; all results are exact.
"""

from __future__ import annotations

from typing import Any

from tilesmith import te
from tilesmith.ir import Broadcast, Ramp, const
from tilesmith.ir import operators as op
from tilesmith.schedule_rules.intrinsics import x86
from tilesmith.target import Target
from tilesmith.tir import TensorIntrin
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.functor import substitute
from tilesmith.tir.stmt import BlockRealize, BufferStore, SeqStmt, Stmt
from tilesmith.topi.schedules.features import target_has_vnni

__all__ = [
    "dot_16x1x16_uint8_int8_int32", "dot_16x1x16_uint8_int8_int32_cascadelake",
    "dot_16x1x16_uint8_int8_int32_skylake",
]  # fmt: skip


def dot_16x1x16_uint8_int8_int32() -> Any:
    """Return the tensor intrinsic of sixteen dot products of four bytes for the current target:
    with VNNI where it has that, else by products of 16 bits.
    """
    target = Target.current(allow_none=True) or Target("llvm")
    has_vnni = target_has_vnni(target)
    return (
        dot_16x1x16_uint8_int8_int32_cascadelake()
        if has_vnni
        else dot_16x1x16_uint8_int8_int32_skylake()
    )


def dot_16x1x16_uint8_int8_int32_skylake() -> Any:
    """Return the tensor intrinsic of sixteen dot products of four bytes for AVX-512."""
    return _declared(x86.AVX512_DOT_16x4_INTRIN)


def dot_16x1x16_uint8_int8_int32_cascadelake() -> Any:
    """Return the tensor intrinsic of sixteen dot products of four bytes for AVX-512 VNNI."""
    return _declared(x86.VNNI_DOT_16x4_INTRIN)


def _declared(name: str) -> Any:
    """Return an intrinsic of schedules of the tensor IR in the form for stages."""
    data = te.placeholder((4,), "uint8", "data")
    kernel = te.placeholder((16, 4), "int8", "kernel")
    k = te.reduce_axis((0, 4), name="k")

    def element(i: Any) -> Any:
        return te.sum(op.cast("int32", data(k)) * op.cast("int32", kernel(i, k)), axis=k)

    result = te.compute((16,), element, name="dot")
    implementation = TensorIntrin.get(name).impl

    def bodies(ins: list[Buffer], outs: list[Buffer]) -> tuple[Stmt, Stmt, Stmt]:
        zeros = Broadcast(const(0, "int32"), 16)
        reset = BufferStore(outs[0], zeros, (Ramp(const(0, "int32"), const(1, "int32"), 16),))
        realize = implementation.body
        body = realize.block.body if isinstance(realize, BlockRealize) else realize
        update = substitute(body, {}, buffers=dict(zip(implementation.buffers, [*ins, *outs])))
        return SeqStmt([reset, update]), reset, update

    return te.decl_tensor_intrin(
        result.op, bodies, name=name, default_buffer_params={"offset_factor": 1}
    )

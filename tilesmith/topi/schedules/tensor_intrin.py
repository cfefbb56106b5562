"""Tensor intrinsics of x86 and of GPUs for classic schedules: dot products of bytes.

The instructions are those of `schedule_rules.intrinsics`; all results are exact.
"""

from __future__ import annotations

from typing import Any

from tilesmith import te
from tilesmith.ir import Broadcast, Ramp, Shuffle, const
from tilesmith.ir import operators as op
from tilesmith.ir.intrinsic_table import intrinsic_call
from tilesmith.schedule_rules.intrinsics import x86
from tilesmith.target import Target
from tilesmith.tir import TensorIntrin
from tilesmith.tir.buffer import Buffer, decl_buffer
from tilesmith.tir.functor import substitute
from tilesmith.tir.stmt import BlockRealize, BufferStore, SeqStmt, Stmt, stmt_seq
from tilesmith.topi.schedules.features import target_has_vnni

__all__ = [
    "dot_16x1x16_uint8_int8_int16", "dot_16x1x16_uint8_int8_int32",
    "dot_16x1x16_uint8_int8_int32_cascadelake", "dot_16x1x16_uint8_int8_int32_skylake", "dp4a",
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


def dot_16x1x16_uint8_int8_int16() -> Any:
    """Return the tensor intrinsic of 128 dot products of two bytes, in sums of 16 bits that wrap
    around as those of loops do.
    """
    lanes, step = 128, 32
    data = te.placeholder((2,), "uint8", "data")
    kernel = te.placeholder((lanes, 2), "int8", "kernel")
    k = te.reduce_axis((0, 2), name="k")

    def element(i: Any) -> Any:
        return te.sum(op.cast("int16", data(k)) * op.cast("int16", kernel(i, k)), axis=k)

    result = te.compute((lanes,), element, name="dot")

    def bodies(ins: list[Buffer], outs: list[Buffer]) -> tuple[Stmt, Stmt, Stmt]:
        resets, updates = [], []
        for start in range(0, lanes, step):
            resets.append(outs[0].vstore([start], Broadcast(const(0, "int16"), step)))
            pairs = op.cast(f"int16x{2 * step}", ins[1].vload([start, 0], f"int8x{2 * step}"))
            total = outs[0].vload([start], f"int16x{step}")
            for number in range(2):
                one = Broadcast(op.cast("int16", ins[0][number]), step)
                places = [const(2 * lane + number, "int32") for lane in range(step)]
                total = total + one * Shuffle([pairs], places)
            updates.append(outs[0].vstore([start], total))
        return stmt_seq(*resets, *updates), stmt_seq(*resets), stmt_seq(*updates)

    return te.decl_tensor_intrin(
        result.op, bodies, name="dot_16x1x16_uint8_int8_int16",
        default_buffer_params={"offset_factor": 1},
    )  # fmt: skip


def dp4a(
    x_scope: str = "local", y_scope: str = "local", z_scope: str = "local",
    dtypes: tuple[str, str] = ("int8", "int8"),
) -> Any:  # fmt: skip
    """Return the tensor intrinsic of one dot product of four bytes, the instruction dp4a of GPUs;
    the scopes are the memory of the operands and of the sum.
    """
    sums = "uint32" if tuple(dtypes) == ("uint8", "uint8") else "int32"
    x, y = [te.placeholder((4,), dtype, name) for dtype, name in zip(dtypes, ("x", "y"))]
    k = te.reduce_axis((0, 4), name="k")
    result = te.compute(
        (1,), lambda i: te.sum(op.cast(sums, x(k)) * op.cast(sums, y(k)), axis=k), name="z"
    )
    binds = {
        tensor: decl_buffer(
            tensor.shape, tensor.dtype, tensor.name, scope=scope, offset_factor=1,
            data_alignment=4,
        )
        for tensor, scope in ((x, x_scope), (y, y_scope), (result, z_scope))
    }  # fmt: skip

    def bodies(ins: list[Buffer], outs: list[Buffer]) -> tuple[Stmt, Stmt, Stmt]:
        words = [one.vload([0], f"{one.dtype}x4") for one in ins]
        reset = outs[0].vstore([0], const(0, sums))
        update = outs[0].vstore([0], intrinsic_call(sums, "dp4a", *words, outs[0][0]))
        return stmt_seq(reset, update), reset, update

    return te.decl_tensor_intrin(result.op, bodies, name="dp4a", binds=binds)

"""Tensor intrinsics of Arm CPUs for classic schedules: small products of bytes with 32-bit sums.

dot_int8_int8_int32_neon       4 sums += 4 bytes times 4 rows of 4 bytes          smull, saddlp
dot_int8_int8_int32_neon_82    the same, for as many rows as are wanted           sdot, udot
gemm_acc_4x4, gemm_acc_nx16    tiles of such sums                                 sdot, udot
gemm_acc_2x2                   2x2 sums += 2 rows times 2 rows of 8 bytes         smmla, ummla
gemm_4x4                       4x4 sums over K bytes, 16 at a time                smull, saddlp
smlal_int16_int32              8 sums += 8 values of 16 bits times one            smlal

All results are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilesmith import te
from tilesmith.ir import Broadcast, PrimExpr, Shuffle, const
from tilesmith.ir import operators as op
from tilesmith.ir.device_intrinsics import vectorhigh, vectorlow
from tilesmith.ir.intrinsics import call_llvm_pure_intrin, reinterpret
from tilesmith.support.errors import ScheduleError
from tilesmith.tir.buffer import Buffer, decl_buffer
from tilesmith.tir.stmt import (
    Allocate,
    BufferStore,
    DeclBuffer,
    For,
    ForKind,
    Stmt,
    stmt_seq,
)

__all__ = [
    "dot_int8_int8_int32_neon", "dot_int8_int8_int32_neon_82", "gemm_4x4_int8_int8_int32",
    "gemm_acc_2x2_int8_int8_int32", "gemm_acc_4x4_int8_int8_int32",
    "gemm_acc_nx16_int8_int8_int32", "select_word", "smlal_int16_int32",
]  # fmt: skip

Update = Callable[[Buffer, Buffer, Buffer], list[Stmt]]


def dot_int8_int8_int32_neon() -> Any:
    """Return the tensor intrinsic of four dot products of four signed bytes for any NEON."""
    data = te.placeholder((4,), "int8", "data")
    kernel = te.placeholder((4, 4), "int8", "kernel")
    result = _product((4,), 4, lambda i, k: data[k], lambda i, k: kernel[i, k], "int32")

    def update(a: Buffer, b: Buffer, c: Buffer) -> list[Stmt]:
        twice = reinterpret("int8x8", Broadcast(_word(a, [0]), 2))
        rows = b.vload([0, 0], "int8x16")
        low, high = vectorlow("int8x8", rows), vectorhigh("int8x8", rows)
        pairs = [_pairs(twice, part, "int8") for part in (low, high)]
        sums = _intrinsic("int32x4", "addp.v4i32", *pairs)
        return [c.vstore([0], c.vload([0], "int32x4") + sums)]

    return _declared(result, update, "dot_int8_int8_int32_neon")


def dot_int8_int8_int32_neon_82(int32_lanes: int, dtype: str = "uint") -> Any:
    """Return the tensor intrinsic of dot products of four bytes for Arm v8.2 with dot products;
    ``dtype`` is "int" or "uint".
    """
    lanes = int(int32_lanes)
    if lanes < 4 or lanes % 4 or dtype not in ("int", "uint"):
        raise ScheduleError(
            f"dot_int8_int8_int32_neon_82: {lanes} lanes of '{dtype}'",
            notes=("the instructions add to four sums: 4, 8, … lanes, dtype 'int' or 'uint'",),
        )
    bits8, sums = f"{dtype}8", f"{dtype}32"
    data = te.placeholder((4,), bits8, "data")
    kernel = te.placeholder((lanes, 4), bits8, "kernel")
    result = _product((lanes,), 4, lambda i, k: data[k], lambda i, k: kernel[i, k], sums)

    def update(a: Buffer, b: Buffer, c: Buffer) -> list[Stmt]:
        return [
            c.vstore([row], _dot(c.vload([row], sums + "x4"), b, [row, 0], _word(a, [0])))
            for row in range(0, lanes, 4)
        ]

    return _declared(result, update, "dot_int8_int8_int32_neon_82")


def gemm_acc_4x4_int8_int8_int32(dtype: str) -> Any:
    """Return the tensor intrinsic of a 4x4 tile of sums, over four bytes (Arm v8.2)."""
    a = te.placeholder((4, 4), _byte(dtype), "A")
    b = te.placeholder((4, 4), dtype, "B")
    result = _product((4, 4), 4, lambda i, j, k: a[i, k], lambda i, j, k: b[j, k], "int32")

    def update(a: Buffer, b: Buffer, c: Buffer) -> list[Stmt]:
        return [
            c.vstore([i, 0], _dot(c.vload([i, 0], "int32x4"), b, [0, 0], _word(a, [i, 0])))
            for i in range(4)
        ]

    return _declared(result, update, "gemm_acc_4x4_int8_int8_int32", a=a, c=result)


def gemm_acc_nx16_int8_int8_int32(dtype: str, rows: int) -> Any:
    """Return the tensor intrinsic of ``rows`` rows of 16 sums, over 16 bytes of which four lie side
    by side: ``C[i, j] += A[i, k] * B[k // 4, j, k % 4]`` (Arm v8.2).
    """
    a = te.placeholder((rows, 16), _byte(dtype), "A")
    b = te.placeholder((4, 16, 4), dtype, "B")
    result = _product(
        (rows, 16), 16, lambda i, j, k: a[i, k], lambda i, j, k: b[k // 4, j, k % 4], "int32"
    )

    def update(a: Buffer, b: Buffer, c: Buffer) -> list[Stmt]:
        stores: list[Stmt] = []
        for i in range(rows):
            for j in range(0, 16, 4):
                sums: Any = c.vload([i, j], "int32x4")
                for k in range(4):
                    sums = _dot(sums, b, [k, j, 0], _word(a, [i, 4 * k]))
                stores.append(c.vstore([i, j], sums))
        return stores

    return _declared(result, update, "gemm_acc_nx16_int8_int8_int32", a=a, c=result)


def gemm_acc_2x2_int8_int8_int32(dtype: str) -> Any:
    """Return the tensor intrinsic of a 2x2 tile of sums, over eight bytes (Arm v8.6, i8mm)."""
    a = te.placeholder((2, 8), _byte(dtype), "A")
    b = te.placeholder((2, 8), dtype, "B")
    result = _product((2, 2), 8, lambda i, j, k: a[i, k], lambda i, j, k: b[j, k], "int32")
    name = f"{dtype[0].replace('i', 's')}mmla.v4i32.v16i8"

    def update(a: Buffer, b: Buffer, c: Buffer) -> list[Stmt]:
        first, second, before = [_joined(one, width) for one, width in ((a, 8), (b, 8), (c, 2))]
        sums = _intrinsic("int32x4", name, before, first, second)
        return [
            c.vstore([0, 0], vectorlow("int32x2", sums)),
            c.vstore([1, 0], vectorhigh("int32x2", sums)),
        ]

    return _declared(result, update, "gemm_acc_2x2_int8_int8_int32", a=a, b=b, c=result)


def gemm_4x4_int8_int8_int32(M: int, N: int, K: int, unroll: int, in_type: str) -> Any:
    """Return the tensor intrinsic of a 4x4 tile of sums over ``K`` bytes, of which 16 lie side by
    side: ``C[i, j] = sum of A[k // 16, i, k % 16] * B[k // 16, j, k % 16]`` (any NEON). ``unroll``
    says whether the loop over groups of 16 is written out.
    """
    if K % 16 or M < 4 or N < 4:
        raise ScheduleError(
            f"gemm_4x4_int8_int8_int32: a tile of 4 by 4 sums over groups of 16 bytes does not lie "
            f"in a product of {M} by {N} sums over {K}",
            notes=("pad the operands with zeros",),
        )
    a = te.placeholder((K // 16, 4, 16), _byte(in_type), "A")
    b = te.placeholder((K // 16, 4, 16), in_type, "B")
    result = _product(
        (4, 4), K, lambda i, j, k: a[k // 16, i, k % 16], lambda i, j, k: b[k // 16, j, k % 16],
        "int32",
    )  # fmt: skip

    def update(a: Buffer, b: Buffer, c: Buffer) -> list[Stmt]:
        return [_tile_of_sums(a, b, c, K // 16, in_type, bool(unroll))]

    return _declared(result, update, "gemm_4x4_int8_int8_int32", a=a, b=b, c=result)


def smlal_int16_int32() -> Any:
    """Return the tensor intrinsic of eight products of 16 bits with one value, in 32-bit sums."""
    a = te.placeholder((8,), "int16", "A")
    b = te.placeholder((1,), "int16", "B")
    result = _product((8,), 1, lambda i, k: a[i], lambda i, k: b[k], "int32")

    def update(a: Buffer, b: Buffer, c: Buffer) -> list[Stmt]:
        one = Broadcast(op.cast("int32", b[0]), 8)
        products = op.cast("int32x8", a.vload([0], "int16x8")) * one
        return [c.vstore([0], c.vload([0], "int32x8") + products)]

    return _declared(result, update, "smlal_int16_int32")


def select_word(vec: PrimExpr, lane: int, dtype_vec: str) -> PrimExpr:
    """Return a vector of bytes that repeats four of them, those of 32-bit lane ``lane``."""
    words = vec.dtype.lanes * vec.dtype.bits // 32
    word = Shuffle([reinterpret(f"int32x{words}", vec)], [const(int(lane), "int32")])
    return reinterpret(dtype_vec, Broadcast(word, words))


# Parts of the intrinsics


def _byte(dtype: str) -> str:
    if dtype not in ("int8", "uint8"):
        raise ScheduleError(
            f"the operands of these intrinsics are bytes, got '{dtype}'",
            notes=("dtype is 'int8' or 'uint8'",),
        )
    return dtype


def _product(shape: Sequence[int], depth: int, left: Any, right: Any, dtype: str) -> Any:
    """Return the sums of products that an intrinsic computes."""
    k = te.reduce_axis((0, depth), name="k")

    def element(*indices: Any) -> Any:
        product = op.cast(dtype, left(*indices, k)) * op.cast(dtype, right(*indices, k))
        return te.sum(product, axis=k)

    return te.compute(tuple(shape), element, name="C")


def _declared(result: Any, update: Update, name: str, **strided: Any) -> Any:
    """Return the intrinsic whose bodies ``update`` makes; the rows of operands in ``strided`` may
    lie in rows of larger tensors.
    """
    shape, dtype = [int(one) for one in result.shape], result.dtype
    binds = {tensor: _strided(key, tensor) for key, tensor in strided.items()}

    def bodies(ins: list[Buffer], outs: list[Buffer]) -> tuple[Stmt, Stmt, Stmt]:
        zeros = Broadcast(const(0, dtype), shape[-1])
        rows = [[i, 0] for i in range(shape[0])] if len(shape) == 2 else [[0]]
        reset = stmt_seq(*[outs[0].vstore(row, zeros) for row in rows])
        body = stmt_seq(*update(ins[0], ins[1], outs[0]))
        return stmt_seq(reset, body), reset, body

    return te.decl_tensor_intrin(
        result.op, bodies, name=name, binds=binds, default_buffer_params={"offset_factor": 1}
    )


def _strided(name: str, tensor: Any) -> Buffer:
    """Return a buffer for a part of a larger tensor."""
    outer = [te.var(f"{name}_stride{number}") for number in range(len(tensor.shape) - 1)]
    return decl_buffer(
        tensor.shape, tensor.dtype, f"{name}_buffer", offset_factor=1, strides=[*outer, 1]
    )


def _intrinsic(dtype: str, name: str, *arguments: Any) -> PrimExpr:
    return call_llvm_pure_intrin(dtype, f"llvm.aarch64.neon.{name}", *arguments)


def _word(buffer: Buffer, indices: Sequence[int]) -> PrimExpr:
    """Return four bytes of a buffer as one word."""
    return reinterpret("int32", buffer.vload(list(indices), f"{buffer.dtype}x4"))


def _dot(sums: Any, rows: Buffer, indices: Sequence[int], word: PrimExpr) -> PrimExpr:
    """Return four sums with the dot products of a word of bytes and four rows of bytes added."""
    vector = f"{rows.dtype}x16"
    letter = "s" if rows.dtype.is_int else "u"
    four = reinterpret(vector, Broadcast(word, 4))
    loaded = rows.vload(list(indices), vector)
    return _intrinsic(sums.dtype, f"{letter}dot.v4i32.v16i8", sums, loaded, four)


def _pairs(a: PrimExpr, b: PrimExpr, dtype: str) -> PrimExpr:
    """Return the products of two vectors of eight bytes, added in pairs in 32 bits."""
    letter = "s" if dtype == "int8" else "u"
    wide = "int16x8" if dtype == "int8" else "uint16x8"
    products = _intrinsic(wide, f"{letter}mull.v8i16", a, b)
    return _intrinsic("int32x4", f"{letter}addlp.v4i32.v8i16", products)


def _joined(buffer: Buffer, width: int) -> PrimExpr:
    """Return two rows of a buffer as one vector."""
    half = f"{buffer.dtype}x{width}"
    rows = [buffer.vload([row, 0], half) for row in range(2)]
    return Shuffle(rows, [const(lane, "int32") for lane in range(2 * width)])


def _tile_of_sums(a: Buffer, b: Buffer, c: Buffer, groups: int, dtype: str, unrolled: bool) -> Stmt:
    """Return the update of a 4x4 tile: 16 vectors of partial sums, added up in the end."""
    partial = decl_buffer((64,), "int32", "partial", scope="local")
    zeros = Broadcast(const(0, "int32"), 4)
    group = te.var("group")
    steps: list[Stmt] = []
    ends: list[Stmt] = []
    for i in range(4):
        for j in range(4):
            place = [4 * (4 * i + j)]
            left, right = [
                one.vload([group, row, 0], f"{dtype}x16") for one, row in ((a, i), (b, j))
            ]
            sums: Any = partial.vload(place, "int32x4")
            for half in (vectorlow, vectorhigh):
                sums = sums + _pairs(half(f"{dtype}x8", left), half(f"{dtype}x8", right), dtype)
            steps.append(partial.vstore(place, sums))
            total = call_llvm_pure_intrin(
                "int32", "llvm.vector.reduce.add.v4i32", partial.vload(place, "int32x4")
            )
            ends.append(BufferStore(c, c[i, j] + total, [i, j]))
    start = [partial.vstore([place], zeros) for place in range(0, 64, 4)]
    kind = ForKind.UNROLLED if unrolled else ForKind.SERIAL
    body = stmt_seq(*start, For(group, 0, groups, kind, stmt_seq(*steps)), *ends)
    return Allocate(partial.data, "int32", (64,), const(True, "bool"), DeclBuffer(partial, body))

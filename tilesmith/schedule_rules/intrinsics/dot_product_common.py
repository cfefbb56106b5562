"""Descriptions of dot products that several machines share, and ``dp4a`` of GPUs."""

from typing import Any

from tilesmith.ir import PrimExpr
from tilesmith.script import tir as T
from tilesmith.tir import PrimFunc, TensorIntrin

__all__ = [
    "DP4A_S8S8S32_INTRIN",
    "DP4A_S8U8S32_INTRIN",
    "DP4A_U8S8S32_INTRIN",
    "DP4A_U8U8U32_INTRIN",
    "dot_product_desc",
    "get_dp4a_intrin",
    "rows_as_vector",
    "tile_product_desc",
]


def rows_as_vector(buffer: Any, dtype: str, width: int, start: int, count: int) -> PrimExpr:
    """Return rows of a matched buffer, ``width`` elements each, concatenated in one vector.

    Rows that are contiguous in memory become one load; others are gathered.
    """
    if count == 1:
        return buffer.vload([start, 0], f"{dtype}x{width}")
    half = count // 2
    return T.vectorcombine(
        f"{dtype}x{width * count}",
        rows_as_vector(buffer, dtype, width, start, half),
        rows_as_vector(buffer, dtype, width, start + half, half),
    )


def dot_product_desc(
    lanes: int, group: int, a_dtype: str, b_dtype: str, c_dtype: str, **options: Any
) -> PrimFunc:
    """Describe ``C[i] += sum over k of A[k] * B[i, k]`` for ``lanes`` values of i, ``group`` of
    k.
    """

    @T.prim_func(private=True)
    def desc(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(a, (group,), a_dtype, offset_factor=1)
        B = T.match_buffer(b, (lanes, group), b_dtype, offset_factor=1)
        C = T.match_buffer(c, (lanes,), c_dtype, offset_factor=1)
        with T.block("root"):
            T.reads(C[0:lanes], A[0:group], B[0:lanes, 0:group])
            T.writes(C[0:lanes])
            for i, k in T.grid(lanes, group):
                with T.block("update"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    C[vi] = C[vi] + T.cast(A[vk], c_dtype) * T.cast(B[vi, vk], c_dtype)

    made: PrimFunc = desc
    return made


def tile_product_desc(
    rows: int, columns: int, depth: int, a_dtype: str, b_dtype: str, c_dtype: str
) -> PrimFunc:
    """Describe ``C[i, j] += sum over k of A[i, k] * B[j, k]``: a product with a transposed
    matrix.
    """

    @T.prim_func(private=True)
    def desc(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(a, (rows, depth), a_dtype, offset_factor=1)
        B = T.match_buffer(b, (columns, depth), b_dtype, offset_factor=1)
        C = T.match_buffer(c, (rows, columns), c_dtype, offset_factor=1)
        with T.block("root"):
            T.reads(C[0:rows, 0:columns], A[0:rows, 0:depth], B[0:columns, 0:depth])
            T.writes(C[0:rows, 0:columns])
            for i, j, k in T.grid(rows, columns, depth):
                with T.block("update"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    C[vi, vj] = C[vi, vj] + T.cast(A[vi, vk], c_dtype) * T.cast(B[vj, vk], c_dtype)

    made: PrimFunc = desc
    return made


def _dp4a(a_dtype: str, b_dtype: str, c_dtype: str) -> tuple[PrimFunc, PrimFunc]:
    """Define one dot product of four bytes, from shared memory into a register."""

    @T.prim_func(private=True)
    def desc(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(a, (4,), a_dtype, offset_factor=1, align=4, scope="shared")
        B = T.match_buffer(b, (4,), b_dtype, offset_factor=1, align=4, scope="shared")
        C = T.match_buffer(c, (1,), c_dtype, offset_factor=1, align=4, scope="local")
        with T.block("root"):
            T.reads(C[0], A[0:4], B[0:4])
            T.writes(C[0])
            for i in range(4):
                with T.block("update"):
                    vi = T.axis.remap("R", [i])
                    C[0] = C[0] + T.cast(A[vi], c_dtype) * T.cast(B[vi], c_dtype)

    @T.prim_func(private=True)
    def impl(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(a, (4,), a_dtype, offset_factor=1, align=4, scope="shared")
        B = T.match_buffer(b, (4,), b_dtype, offset_factor=1, align=4, scope="shared")
        C = T.match_buffer(c, (1,), c_dtype, offset_factor=1, align=4, scope="local")
        with T.block("root"):
            T.reads(C[0], A[0:4], B[0:4])
            T.writes(C[0])
            C[0] = T.dp4a(A.vload([0], a_dtype + "x4"), B.vload([0], b_dtype + "x4"), C[0])

    return desc, impl


def get_dp4a_intrin(dtype_a: str, dtype_b: str, dtype_c: str) -> str:
    """Return the name of the dot product of four bytes for given dtypes ("int8" or "uint8")."""
    letters = {"int8": "s8", "uint8": "u8", "int32": "s32", "uint32": "u32"}
    return "dp4a_" + letters[dtype_a] + letters[dtype_b] + letters[dtype_c]


DP4A_S8S8S32_INTRIN = "dp4a_s8s8s32"
DP4A_U8S8S32_INTRIN = "dp4a_u8s8s32"
DP4A_S8U8S32_INTRIN = "dp4a_s8u8s32"
DP4A_U8U8U32_INTRIN = "dp4a_u8u8u32"
DP4A_INTRIN = "dp4a"

for _name, _dtypes in {
    DP4A_S8S8S32_INTRIN: ("int8", "int8", "int32"),
    DP4A_U8S8S32_INTRIN: ("uint8", "int8", "int32"),
    DP4A_S8U8S32_INTRIN: ("int8", "uint8", "int32"),
    DP4A_U8U8U32_INTRIN: ("uint8", "uint8", "uint32"),
    DP4A_INTRIN: ("int8", "int8", "int32"),
}.items():
    TensorIntrin.register(_name, *_dp4a(*_dtypes))

"""Dot products of Hexagon's vector unit (HVX, 128 bytes)."""

from tilesmith.schedule_rules.intrinsics.dot_product_common import (
    dot_product_desc,
    rows_as_vector,
)
from tilesmith.script import tir as T
from tilesmith.tir import PrimFunc, TensorIntrin

__all__ = ["VDMPY_i16i16i32_INTRIN", "VRMPY_u8i8i32_INTRIN", "VRMPY_u8u8i32_INTRIN"]

_LANES = 32


def _dot(name: str, a_dtype: str, b_dtype: str, group: int) -> PrimFunc:
    """Define 32 sums of ``group`` products each, added to the result by one instruction.

    All lanes get the same elements of ``A``: they are read as one word and repeated.
    """

    @T.prim_func(private=True)
    def impl(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(a, (group,), a_dtype, offset_factor=1)
        B = T.match_buffer(b, (_LANES, group), b_dtype, offset_factor=1)
        C = T.match_buffer(c, (_LANES,), "int32", offset_factor=1)
        with T.block("root"):
            T.reads(C[0:_LANES], A[0:group], B[0:_LANES, 0:group])
            T.writes(C[0:_LANES])
            word: T.int32 = T.reinterpret("int32", A.vload([0], f"{a_dtype}x{group}"))
            C[T.ramp(0, 1, _LANES)] = T.call_llvm_pure_intrin(
                "int32x32",
                name,
                C.vload([0], "int32x32"),
                T.broadcast(word, _LANES),
                T.reinterpret("int32x32", rows_as_vector(B, b_dtype, group, 0, _LANES)),
            )

    made: PrimFunc = impl
    return made


VRMPY_u8u8i32_INTRIN = "dot_32x4_u8u8i32_vrmpy"
VRMPY_u8i8i32_INTRIN = "dot_32x4_u8i8i32_vrmpy"
VDMPY_i16i16i32_INTRIN = "dot_product_32x2_i16i16i32_vdmpy"
"""Its sums saturate where others wrap around."""

for _name, _instruction, _a, _b, _group in (
    (VRMPY_u8u8i32_INTRIN, "vrmpyubv.acc", "uint8", "uint8", 4),
    (VRMPY_u8i8i32_INTRIN, "vrmpybusv.acc", "uint8", "int8", 4),
    (VDMPY_i16i16i32_INTRIN, "vdmpyhvsat.acc", "int16", "int16", 2),
):
    TensorIntrin.register(
        _name,
        dot_product_desc(_LANES, _group, _a, _b, "int32"),
        _dot(f"llvm.hexagon.V6.{_instruction}.128B", _a, _b, _group),
    )

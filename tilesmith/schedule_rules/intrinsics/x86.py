"""Dot products of x86 CPUs: AVX2, AVX-512, VNNI, BF16; tile products with AMX.

All of them are exact: those without VNNI widen to 16 bits first, because the instruction that
multiplies bytes directly (vpmaddubsw) saturates.
"""

from tilesmith.schedule_rules.intrinsics.dot_product_common import (
    dot_product_desc,
    rows_as_vector,
)
from tilesmith.script import tir as T
from tilesmith.tir import PrimFunc, TensorIntrin

__all__ = [
    "AMX_16x16x32_BF16BF16F32_INTRIN",
    "AMX_16x16x64_I8I8I32_INTRIN",
    "AMX_16x16x64_U8I8I32_INTRIN",
    "AVX2_DOT_8x4_INTRIN",
    "AVX512BF16_DOT_16x2_INTRIN",
    "AVX512_DOT_16x4_INTRIN",
    "AVXVNNI_DOT_8x4_INTRIN",
    "VNNI_DOT_16x4_INTRIN",
    "dot_product_16x4_u8i8i32_avx512",
    "dot_product_16x4_u8i8i32_desc",
    "dot_product_16x4_u8i8i32_vnni",
]


def _vnni(lanes: int) -> PrimFunc:
    """Define ``vpdpbusd``: four products of bytes added to each of ``lanes`` sums."""
    sums, group = f"int32x{lanes}", f"uint8x{4 * lanes}"
    name = f"llvm.x86.avx512.vpdpbusd.{32 * lanes}"

    @T.prim_func(private=True)
    def impl(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(a, (4,), "uint8", offset_factor=1)
        B = T.match_buffer(b, (lanes, 4), "int8", offset_factor=1)
        C = T.match_buffer(c, (lanes,), "int32", offset_factor=1)
        with T.block("root"):
            T.reads(C[0:lanes], A[0:4], B[0:lanes, 0:4])
            T.writes(C[0:lanes])
            four: T.int32 = T.reinterpret("int32", A.vload([0], "uint8x4"))
            C[T.ramp(0, 1, lanes)] = T.call_llvm_pure_intrin(
                sums,
                name,
                C.vload([0], sums),
                T.reinterpret(group, T.broadcast(four, lanes)),
                rows_as_vector(B, "int8", 4, 0, lanes),
            )

    made: PrimFunc = impl
    return made


def _widening(lanes: int, name: str) -> PrimFunc:
    """Define ``vpmaddwd`` of the even bytes and of the odd bytes, as 16-bit numbers."""
    sums, halves, words = f"int32x{lanes}", f"int16x{2 * lanes}", 2 * lanes

    @T.prim_func(private=True)
    def impl(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(a, (4,), "uint8", offset_factor=1)
        B = T.match_buffer(b, (lanes, 4), "int8", offset_factor=1)
        C = T.match_buffer(c, (lanes,), "int32", offset_factor=1)
        with T.block("root"):
            T.reads(C[0:lanes], A[0:4], B[0:lanes, 0:4])
            T.writes(C[0:lanes])
            four: T.uint32 = T.reinterpret("uint32", A.vload([0], "uint8x4"))
            even: T.uint32 = T.bitwise_and(four, T.uint32(0x00FF00FF))
            odd: T.uint32 = T.bitwise_and(T.shift_right(four, T.uint32(8)), T.uint32(0x00FF00FF))
            pairs = T.meta_var(T.reinterpret(halves, rows_as_vector(B, "int8", 4, 0, lanes)))
            eight = T.meta_var(T.broadcast(T.int16(8), words))
            C[T.ramp(0, 1, lanes)] = (
                C.vload([0], sums)
                + T.call_llvm_pure_intrin(
                    sums,
                    name,
                    T.reinterpret(halves, T.broadcast(even, lanes)),
                    T.shift_right(T.shift_left(pairs, eight), eight),
                )
                + T.call_llvm_pure_intrin(
                    sums,
                    name,
                    T.reinterpret(halves, T.broadcast(odd, lanes)),
                    T.shift_right(pairs, eight),
                )
            )

    made: PrimFunc = impl
    return made


def _bfloat16() -> PrimFunc:
    """Define ``vdpbf16ps``: two products of bfloat16 added to each of sixteen float32 sums."""

    @T.prim_func(private=True)
    def impl(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(a, (2,), "bfloat16", offset_factor=1)
        B = T.match_buffer(b, (16, 2), "bfloat16", offset_factor=1)
        C = T.match_buffer(c, (16,), "float32", offset_factor=1)
        with T.block("root"):
            T.reads(C[0:16], A[0:2], B[0:16, 0:2])
            T.writes(C[0:16])
            two: T.int32 = T.reinterpret("int32", A.vload([0], "bfloat16x2"))
            C[T.ramp(0, 1, 16)] = T.call_llvm_pure_intrin(
                "float32x16",
                "llvm.x86.avx512bf16.dpbf16ps.512",
                C.vload([0], "float32x16"),
                T.reinterpret("bfloat16x32", T.broadcast(two, 16)),
                rows_as_vector(B, "bfloat16", 2, 0, 16),
            )

    made: PrimFunc = impl
    return made


# --- AMX ------------------------------------------------------------------------------------------


def _amx_desc(group: int, a_dtype: str, b_dtype: str, c_dtype: str) -> PrimFunc:
    """Describe ``C[i, j] += sum over k of A[i, k] * B[k // group, j, k % group]``: B is packed in
    groups.
    """
    depth = 16 * group

    @T.prim_func(private=True)
    def desc(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(a, (16, depth), a_dtype, offset_factor=1)
        B = T.match_buffer(b, (16, 16, group), b_dtype, offset_factor=1)
        C = T.match_buffer(c, (16, 16), c_dtype, offset_factor=1)
        with T.block("root"):
            T.reads(C[0:16, 0:16], A[0:16, 0:depth], B[0:16, 0:16, 0:group])
            T.writes(C[0:16, 0:16])
            for i, j, k in T.grid(16, 16, depth):
                with T.block("update"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    C[vi, vj] = C[vi, vj] + T.cast(A[vi, vk], c_dtype) * T.cast(
                        B[vk // group, vj, vk % group], c_dtype
                    )

    made: PrimFunc = desc
    return made


def _amx_impl(group: int, a_dtype: str, b_dtype: str, c_dtype: str, name: str) -> PrimFunc:
    """Configure, load, multiply and store three tiles of 16 rows of 64 bytes."""
    depth, size = 16 * group, 4 // group

    @T.prim_func(private=True)
    def impl(a: T.handle, b: T.handle, c: T.handle):
        sa, sb, sc = T.int32(), T.int32(), T.int32()
        A = T.match_buffer(a, (16, depth), a_dtype, offset_factor=1, strides=[sa, 1])
        B = T.match_buffer(b, (16, 16, group), b_dtype, offset_factor=1, strides=[sb, group, 1])
        C = T.match_buffer(c, (16, 16), c_dtype, offset_factor=1, strides=[sc, 1])
        with T.block("root"):
            T.reads(C[0:16, 0:16], A[0:16, 0:depth], B[0:16, 0:16, 0:group])
            T.writes(C[0:16, 0:16])
            setting = T.alloc_buffer((64,), "uint8")
            setting[T.ramp(0, 1, 64)] = T.broadcast(T.uint8(0), 64)
            setting[0] = T.uint8(1)  # the palette
            for tile in T.unroll(3):
                setting[16 + tile * 2] = T.uint8(64)  # bytes in a row
                setting[48 + tile] = T.uint8(16)  # rows
            T.evaluate(T.call_llvm_intrin("void", "llvm.x86.ldtilecfg", setting.access_ptr("r")))
            T.evaluate(
                T.call_llvm_intrin(
                    "void", "llvm.x86.tileloadd64", T.int8(0), C.access_ptr("r"),
                    T.cast(sc, "int64") * T.int64(4),
                )
            )  # fmt: skip
            T.evaluate(
                T.call_llvm_intrin(
                    "void", "llvm.x86.tileloadd64", T.int8(1), A.access_ptr("r"),
                    T.cast(sa, "int64") * T.int64(size),
                )
            )  # fmt: skip
            T.evaluate(
                T.call_llvm_intrin(
                    "void", "llvm.x86.tileloadd64", T.int8(2), B.access_ptr("r"),
                    T.cast(sb, "int64") * T.int64(size),
                )
            )  # fmt: skip
            T.evaluate(T.call_llvm_intrin("void", name, T.int8(0), T.int8(1), T.int8(2)))
            T.evaluate(
                T.call_llvm_intrin(
                    "void", "llvm.x86.tilestored64", T.int8(0), C.access_ptr("w"),
                    T.cast(sc, "int64") * T.int64(4),
                )
            )  # fmt: skip
            T.evaluate(T.call_llvm_intrin("void", "llvm.x86.tilerelease"))

    made: PrimFunc = impl
    return made


VNNI_DOT_16x4_INTRIN = "dot_16x4_vnni"
AVX512_DOT_16x4_INTRIN = "dot_16x4_avx512"
AVXVNNI_DOT_8x4_INTRIN = "dot_8x4_avxvnni"
AVX2_DOT_8x4_INTRIN = "dot_8x4_avx2"
AVX512BF16_DOT_16x2_INTRIN = "dot_16x2_avx512bf16"
AMX_16x16x64_U8I8I32_INTRIN = "amx_16x16x64_u8i8i32"
AMX_16x16x64_I8I8I32_INTRIN = "amx_16x16x64_i8i8i32"
AMX_16x16x32_BF16BF16F32_INTRIN = "amx_16x16x32_bf16bf16f32"

dot_product_16x4_u8i8i32_desc = dot_product_desc(16, 4, "uint8", "int8", "int32")
dot_product_16x4_u8i8i32_vnni = _vnni(16)
dot_product_16x4_u8i8i32_avx512 = _widening(16, "llvm.x86.avx512.pmaddw.d.512")
dot_product_8x4_u8i8i32_desc = dot_product_desc(8, 4, "uint8", "int8", "int32")

TensorIntrin.register(
    VNNI_DOT_16x4_INTRIN, dot_product_16x4_u8i8i32_desc, dot_product_16x4_u8i8i32_vnni
)
TensorIntrin.register(AVXVNNI_DOT_8x4_INTRIN, dot_product_8x4_u8i8i32_desc, _vnni(8))
TensorIntrin.register(
    AVX512_DOT_16x4_INTRIN, dot_product_16x4_u8i8i32_desc, dot_product_16x4_u8i8i32_avx512
)
TensorIntrin.register(
    AVX2_DOT_8x4_INTRIN, dot_product_8x4_u8i8i32_desc, _widening(8, "llvm.x86.avx2.pmadd.wd")
)
TensorIntrin.register(
    AVX512BF16_DOT_16x2_INTRIN,
    dot_product_desc(16, 2, "bfloat16", "bfloat16", "float32"),
    _bfloat16(),
)
for _name, _group, _dtypes, _instruction in (
    (AMX_16x16x64_U8I8I32_INTRIN, 4, ("uint8", "int8", "int32"), "llvm.x86.tdpbusd"),
    (AMX_16x16x64_I8I8I32_INTRIN, 4, ("int8", "int8", "int32"), "llvm.x86.tdpbssd"),
    (AMX_16x16x32_BF16BF16F32_INTRIN, 2, ("bfloat16", "bfloat16", "float32"),
     "llvm.x86.tdpbf16ps"),
):  # fmt: skip
    TensorIntrin.register(
        _name, _amx_desc(_group, *_dtypes), _amx_impl(_group, *_dtypes, _instruction)
    )

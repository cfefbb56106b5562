"""Dot products and small matrix products of Arm CPUs: NEON, dot product and i8mm extensions.

What uses SME is in `arm_sme`; its names are found here too.
"""

from tilesmith.schedule_rules.intrinsics.arm_sme import (
    ARM_SME_INIT,
    ARM_SME_2SVLx2SVL_FP32_TRANSPOSE_INTERLEAVE,
    ARM_SME_2SVLx2SVL_GEMM_INTERLEAVED_MOPA,
    ARM_SME_BLOCK2_2SVLx1SVL_FP16_TRANSPOSE_INTERLEAVE,
    get_sme_gemm_interleaved_mopa_2svlx2svl_intrin,
    get_sme_init_intrin,
    get_sme_transpose_interleave_2svlx2svl_fp32_intrin,
    get_sme_transpose_interleave_block2_2svl_fp16_intrin,
    get_transpose_interleave_intrin_name,
)
from tilesmith.schedule_rules.intrinsics.dot_product_common import (
    DP4A_S8S8S32_INTRIN,
    DP4A_S8U8S32_INTRIN,
    DP4A_U8S8S32_INTRIN,
    DP4A_U8U8U32_INTRIN,
    dot_product_desc,
    rows_as_vector,
    tile_product_desc,
)
from tilesmith.script import tir as T
from tilesmith.support.errors import ScheduleError
from tilesmith.tir import PrimFunc, TensorIntrin

__all__ = [
    "ARM_DOT_4x4_i8_NEON_INTRIN",
    "ARM_DOT_4x4_i8_SDOT_INTRIN",
    "ARM_DOT_4x4_u8_HDOT_INTRIN",
    "ARM_DOT_4x4_u8_UDOT_INTRIN",
    "ARM_MLA_4x4x4_f32_NEON_INTRIN",
    "ARM_MLA_8x8x8_f16_NEON_INTRIN",
    "ARM_MMA_2x2x8_i8_SMMLA_INTRIN",
    "ARM_MMA_2x2x8_u8_UMMLA_INTRIN",
    "ARM_MMA_2x2x8_u8i8_USMMLA_INTRIN",
    "ARM_SME_2SVLx2SVL_FP32_TRANSPOSE_INTERLEAVE",
    "ARM_SME_2SVLx2SVL_GEMM_INTERLEAVED_MOPA",
    "ARM_SME_BLOCK2_2SVLx1SVL_FP16_TRANSPOSE_INTERLEAVE",
    "ARM_SME_INIT",
    "DP4A_S8S8S32_INTRIN",
    "DP4A_S8U8S32_INTRIN",
    "DP4A_U8S8S32_INTRIN",
    "DP4A_U8U8U32_INTRIN",
    "get_dotprod_intrin",
    "get_sme_gemm_interleaved_mopa_2svlx2svl_intrin",
    "get_sme_init_intrin",
    "get_sme_transpose_interleave_2svlx2svl_fp32_intrin",
    "get_sme_transpose_interleave_block2_2svl_fp16_intrin",
    "get_transpose_interleave_intrin_name",
    "neon_4x4_i8i8i32_desc",
    "neon_4x4_i8i8i32_impl",
]


def _neon_dot() -> PrimFunc:
    """Define 16-bit products of bytes (smull), added in pairs twice (saddlp, addp)."""

    @T.prim_func(private=True)
    def impl(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(a, (4,), "int8", offset_factor=1)
        B = T.match_buffer(b, (4, 4), "int8", offset_factor=1)
        C = T.match_buffer(c, (4,), "int32", offset_factor=1)
        with T.block("root"):
            T.reads(C[0:4], A[0:4], B[0:4, 0:4])
            T.writes(C[0:4])
            four: T.int32 = T.reinterpret("int32", A.vload([0], "int8x4"))
            twice = T.meta_var(T.reinterpret("int8x8", T.broadcast(four, 2)))
            C[T.ramp(0, 1, 4)] = C.vload([0], "int32x4") + T.call_llvm_pure_intrin(
                "int32x4",
                "llvm.aarch64.neon.addp.v4i32",
                T.call_llvm_pure_intrin(
                    "int32x4",
                    "llvm.aarch64.neon.saddlp.v4i32.v8i16",
                    T.call_llvm_pure_intrin(
                        "int16x8",
                        "llvm.aarch64.neon.smull.v8i16",
                        twice,
                        rows_as_vector(B, "int8", 4, 0, 2),
                    ),
                ),
                T.call_llvm_pure_intrin(
                    "int32x4",
                    "llvm.aarch64.neon.saddlp.v4i32.v8i16",
                    T.call_llvm_pure_intrin(
                        "int16x8",
                        "llvm.aarch64.neon.smull.v8i16",
                        twice,
                        rows_as_vector(B, "int8", 4, 2, 2),
                    ),
                ),
            )

    made: PrimFunc = impl
    return made


def _dot_extension(letter: str, in_dtype: str, out_dtype: str) -> PrimFunc:
    """Define ``sdot`` or ``udot``: four products of bytes added to each of four sums."""
    name = f"llvm.aarch64.neon.{letter}dot.v4i32.v16i8"
    sums = out_dtype + "x4"

    @T.prim_func(private=True)
    def impl(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(a, (4,), in_dtype, offset_factor=1)
        B = T.match_buffer(b, (4, 4), in_dtype, offset_factor=1)
        C = T.match_buffer(c, (4,), out_dtype, offset_factor=1)
        with T.block("root"):
            T.reads(C[0:4], A[0:4], B[0:4, 0:4])
            T.writes(C[0:4])
            four: T.int32 = T.reinterpret("int32", A.vload([0], in_dtype + "x4"))
            C[T.ramp(0, 1, 4)] = T.call_llvm_pure_intrin(
                sums,
                name,
                C.vload([0], sums),
                rows_as_vector(B, in_dtype, 4, 0, 4),
                T.reinterpret(in_dtype + "x16", T.broadcast(four, 4)),
            )

    made: PrimFunc = impl
    return made


def get_dotprod_intrin(in_dtype: str, out_dtype: str) -> tuple[PrimFunc, PrimFunc]:
    """Return description and implementation of ``sdot`` (int8) or ``udot`` (uint8)."""
    letter = {
        ("int8", "int32"): "s", ("uint8", "uint32"): "u", ("uint8", "int32"): "u",
    }.get((in_dtype, out_dtype))  # fmt: skip
    if letter is None:
        raise ScheduleError(
            f"Arm has no dot product of {in_dtype} with sums in {out_dtype}",
            notes=("known: int8 with int32, uint8 with uint32 or int32",),
        )
    desc = dot_product_desc(4, 4, in_dtype, in_dtype, out_dtype)
    return desc, _dot_extension(letter, in_dtype, out_dtype)


def _matrix_extension(name: str, a_dtype: str, b_dtype: str, out_dtype: str) -> PrimFunc:
    """Define ``smmla`` or a variant: a 2x2 tile of sums, two rows of eight bytes on either side."""

    @T.prim_func(private=True)
    def impl(a: T.handle, b: T.handle, c: T.handle):
        sa, sb, sc = T.int32(), T.int32(), T.int32()
        A = T.match_buffer(a, (2, 8), a_dtype, offset_factor=1, strides=[sa, 1])
        B = T.match_buffer(b, (2, 8), b_dtype, offset_factor=1, strides=[sb, 1])
        C = T.match_buffer(c, (2, 2), out_dtype, offset_factor=1, strides=[sc, 1])
        with T.block("root"):
            T.reads(C[0:2, 0:2], A[0:2, 0:8], B[0:2, 0:8])
            T.writes(C[0:2, 0:2])
            tile = T.alloc_buffer((4,), out_dtype, scope="local")
            tile[T.ramp(0, 1, 4)] = T.call_llvm_pure_intrin(
                out_dtype + "x4",
                name,
                rows_as_vector(C, out_dtype, 2, 0, 2),
                rows_as_vector(A, a_dtype, 8, 0, 2),
                rows_as_vector(B, b_dtype, 8, 0, 2),
            )
            C[0, T.ramp(0, 1, 2)] = tile[T.ramp(0, 1, 2)]
            C[1, T.ramp(0, 1, 2)] = tile[T.ramp(2, 1, 2)]

    made: PrimFunc = impl
    return made


def _multiply_add(size: int, dtype: str, kind: str) -> tuple[PrimFunc, PrimFunc]:
    """Define ``C += A @ B`` of small square matrices, a row of ``C`` in a register (fmla)."""
    vector, name = f"{dtype}x{size}", f"llvm.fma.v{size}{kind}"

    @T.prim_func(private=True)
    def desc(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(a, (size, size), dtype, offset_factor=1)
        B = T.match_buffer(b, (size, size), dtype, offset_factor=1)
        C = T.match_buffer(c, (size, size), dtype, offset_factor=1)
        with T.block("root"):
            T.reads(C[0:size, 0:size], A[0:size, 0:size], B[0:size, 0:size])
            T.writes(C[0:size, 0:size])
            for i, j, k in T.grid(size, size, size):
                with T.block("update"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    @T.prim_func(private=True)
    def impl(a: T.handle, b: T.handle, c: T.handle):
        sa, sb, sc = T.int32(), T.int32(), T.int32()
        A = T.match_buffer(a, (size, size), dtype, offset_factor=1, strides=[sa, 1])
        B = T.match_buffer(b, (size, size), dtype, offset_factor=1, strides=[sb, 1])
        C = T.match_buffer(c, (size, size), dtype, offset_factor=1, strides=[sc, 1])
        with T.block("root"):
            T.reads(C[0:size, 0:size], A[0:size, 0:size], B[0:size, 0:size])
            T.writes(C[0:size, 0:size])
            for k in T.unroll(size):
                for i in T.unroll(size):
                    C[i, T.ramp(0, 1, size)] = T.call_llvm_pure_intrin(
                        vector,
                        name,
                        T.broadcast(A[i, k], size),
                        B.vload([k, 0], vector),
                        C.vload([i, 0], vector),
                    )

    return desc, impl


ARM_DOT_4x4_i8_NEON_INTRIN = "dot_4x4_i8i8s32_neon"
ARM_DOT_4x4_i8_SDOT_INTRIN = "dot_4x4_i8i8s32_sdot"
ARM_DOT_4x4_u8_UDOT_INTRIN = "dot_4x4_u8u8u32_udot"
ARM_DOT_4x4_u8_HDOT_INTRIN = "dot_4x4_u8u8i32_hdot"
ARM_MMA_2x2x8_i8_SMMLA_INTRIN = "mma_2x2x8_i8i8i32_smmla"
ARM_MMA_2x2x8_u8_UMMLA_INTRIN = "mma_2x2x8_u8u8u32_ummla"
ARM_MMA_2x2x8_u8i8_USMMLA_INTRIN = "mma_2x2x8_u8i8i32_usmmla"
ARM_MLA_4x4x4_f32_NEON_INTRIN = "mla_4x4x4_f32_neon"
ARM_MLA_8x8x8_f16_NEON_INTRIN = "mla_8x8x8_f16_neon"

neon_4x4_i8i8i32_desc = dot_product_desc(4, 4, "int8", "int8", "int32")
neon_4x4_i8i8i32_impl = _neon_dot()

TensorIntrin.register(ARM_DOT_4x4_i8_NEON_INTRIN, neon_4x4_i8i8i32_desc, neon_4x4_i8i8i32_impl)
for _name, _in_dtype, _out_dtype in (
    (ARM_DOT_4x4_i8_SDOT_INTRIN, "int8", "int32"),
    (ARM_DOT_4x4_u8_UDOT_INTRIN, "uint8", "uint32"),
    (ARM_DOT_4x4_u8_HDOT_INTRIN, "uint8", "int32"),
):
    TensorIntrin.register(_name, *get_dotprod_intrin(_in_dtype, _out_dtype))
for _name, _instruction, _dtypes in (
    (ARM_MMA_2x2x8_i8_SMMLA_INTRIN, "smmla", ("int8", "int8", "int32")),
    (ARM_MMA_2x2x8_u8_UMMLA_INTRIN, "ummla", ("uint8", "uint8", "uint32")),
    (ARM_MMA_2x2x8_u8i8_USMMLA_INTRIN, "usmmla", ("uint8", "int8", "int32")),
):
    TensorIntrin.register(
        _name,
        tile_product_desc(2, 2, 8, *_dtypes),
        _matrix_extension(f"llvm.aarch64.neon.{_instruction}.v4i32.v16i8", *_dtypes),
    )
TensorIntrin.register(ARM_MLA_4x4x4_f32_NEON_INTRIN, *_multiply_add(4, "float32", "f32"))
TensorIntrin.register(ARM_MLA_8x8x8_f16_NEON_INTRIN, *_multiply_add(8, "float16", "f16"))

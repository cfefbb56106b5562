"""The dot product of four bytes of AMD GPUs (``v_dot4_i32_i8``)."""

from tilesmith.script import tir as T
from tilesmith.tir import PrimFunc, TensorIntrin

__all__ = ["AMDGPU_SDOT4_INTRIN"]


def _sdot4() -> tuple[PrimFunc, PrimFunc]:
    @T.prim_func(private=True)
    def desc(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(a, (4,), "int8", offset_factor=1, align=4, scope="shared")
        B = T.match_buffer(b, (4,), "int8", offset_factor=1, align=4, scope="shared")
        C = T.match_buffer(c, (1,), "int32", offset_factor=1, align=4, scope="local")
        with T.block("root"):
            T.reads(C[0], A[0:4], B[0:4])
            T.writes(C[0])
            for i in range(4):
                with T.block("update"):
                    vi = T.axis.remap("R", [i])
                    C[0] = C[0] + T.cast(A[vi], "int32") * T.cast(B[vi], "int32")

    @T.prim_func(private=True)
    def impl(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(a, (4,), "int8", offset_factor=1, align=4, scope="shared")
        B = T.match_buffer(b, (4,), "int8", offset_factor=1, align=4, scope="shared")
        C = T.match_buffer(c, (1,), "int32", offset_factor=1, align=4, scope="local")
        with T.block("root"):
            T.reads(C[0], A[0:4], B[0:4])
            T.writes(C[0])
            C[0] = T.call_llvm_pure_intrin(
                "int32",
                "llvm.amdgcn.sdot4",
                T.reinterpret("int32", A.vload([0], "int8x4")),
                T.reinterpret("int32", B.vload([0], "int8x4")),
                C[0],
                T.bool(False),  # wraps around instead of saturating
            )

    return desc, impl


AMDGPU_SDOT4_INTRIN = "sdot4"
TensorIntrin.register(AMDGPU_SDOT4_INTRIN, *_sdot4())

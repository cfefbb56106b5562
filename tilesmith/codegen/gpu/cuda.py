"""The table of CUDA C."""

from __future__ import annotations

from tilesmith.codegen.c_family.dialect import C_KEYWORDS
from tilesmith.codegen.c_family.library import LIBRARY
from tilesmith.codegen.gpu.dialect import DeviceDialect
from tilesmith.runtime.dtype import DataType

__all__ = ["CUDA", "DEFAULT_ARCH"]

DEFAULT_ARCH = "sm_75"
"""What is compiled for where a target names no architecture. Newer GPUs run it, too, as PTX."""

_KEYWORDS = frozenset(
    "alignas alignof and and_eq asm bitand bitor catch char16_t char32_t class compl concept "
    "const_cast constexpr decltype delete dynamic_cast explicit export friend mutable namespace "
    "new noexcept not not_eq nullptr operator or or_eq private protected public register "
    "reinterpret_cast requires static_assert static_cast template this thread_local throw try "
    "typeid typename using virtual wchar_t xor xor_eq threadIdx blockIdx blockDim gridDim warpSize "
    "min max half uint4 int4 float4 uint2 int2 float2 memcpy dynamic_shared".split()
)


def _vector_lanes(element: DataType) -> tuple[int, ...]:
    if element.is_float and element.bits == 16:
        return (2,) if element == "float16" else ()
    if element.is_float and element.bits < 32 or element.bits < 8:
        return ()
    return (2,) if element.bits == 64 else (2, 4)


_HELPERS = {
    # as the hardware converts, from sm_89 on; the header does it for others
    "e4m3fn_to_f32": """// include: cuda_fp8.h
{inline} float e4m3fn_to_f32(unsigned char code) {{
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(code, __NV_E4M3)));
}}""",
    "e5m2_to_f32": """// include: cuda_fp8.h
{inline} float e5m2_to_f32(unsigned char code) {{
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(code, __NV_E5M2)));
}}""",
    "f32_to_e4m3fn": """// include: cuda_fp8.h
{inline} unsigned char f32_to_e4m3fn(float value) {{
  return __nv_cvt_float_to_fp8(value, __NV_NOSAT, __NV_E4M3);
}}""",
    "f32_to_e5m2": """// include: cuda_fp8.h
{inline} unsigned char f32_to_e5m2(float value) {{
  return __nv_cvt_float_to_fp8(value, __NV_NOSAT, __NV_E5M2);
}}""",
    "f32_bits": """
{inline} unsigned int f32_bits(float value) {{ return __float_as_uint(value); }}""",
    "bits_f32": """
{inline} float bits_f32(unsigned int bits) {{ return __uint_as_float(bits); }}""",
    "mul_alone": """
{inline} float mul_alone(float a, float b) {{ return __fmul_rn(a, b); }} /* not fused with a sum */
{inline} double mul_alone(double a, double b) {{ return __dmul_rn(a, b); }}""",
}

CUDA = DeviceDialect(
    name="cuda",
    title="CUDA C",
    types={
        "bool": "bool", "i8": "signed char", "u8": "unsigned char", "i16": "short",
        "u16": "unsigned short", "i32": "int", "u32": "unsigned int", "i64": "long long",
        "u64": "unsigned long long", "f32": "float", "f64": "double", "f16": "__half",
        "bf16": "__nv_bfloat16",
    },
    numbers={"u32": "{}u", "i64": "{}LL", "u64": "{}ULL"},
    vector_names={
        "signed char": "char", "unsigned char": "uchar", "unsigned short": "ushort",
        "unsigned int": "uint", "long long": "longlong", "unsigned long long": "ulonglong",
    },
    vector_lanes=_vector_lanes,
    components="xyzw",
    component_prefix="",
    build_vector="make_{type}({parts})",
    access_bytes=16,
    threads={
        f"{word}.{axis}": f"{word}.{axis}" for word in ("threadIdx", "blockIdx") for axis in "xyz"
    },
    spaces={},
    kernel='extern "C" __global__ void {bounds}',
    inline="static __device__ __forceinline__",
    restrict="__restrict__ ",
    shared="__shared__ __align__({bytes}) {type} {name}[{count}];",
    constant="static __device__ const {type} {name}[{count}]",
    barriers={"shared": "__syncthreads()", "warp": "__syncwarp()"},
    headers={"f16": "cuda_fp16.h", "bf16": "cuda_bf16.h"},
    to_float={"f16": "__half2float", "bf16": "__bfloat162float"},
    from_float={"f16": "__float2half_rn", "bf16": "__float2bfloat16_rn"},
    math_names={},
    math_suffix="f",
    fast_names={
        "exp": "__expf", "exp10": "__exp10f", "log": "__logf", "log2": "__log2f",
        "log10": "__log10f", "sin": "__sinf", "cos": "__cosf", "tan": "__tanf", "pow": "__powf",
    },
    native=frozenset({"f16"}),
    default_arch=DEFAULT_ARCH,
    static_shared_bytes=48 * 1024,
    shared_kib={  # as NVIDIA's programming guide has it
        70: 96, 72: 96, 75: 64, 80: 163, 86: 99, 87: 163, 88: 99, 89: 99, 90: 227, 100: 227,
        101: 227, 103: 227, 110: 227, 120: 99, 121: 99,
    },
    largest_extents={
        "threadIdx.x": 1024, "threadIdx.y": 1024, "threadIdx.z": 64,
        "blockIdx.x": 2**31 - 1, "blockIdx.y": 65535, "blockIdx.z": 65535,
    },
    helpers=_HELPERS,
    extremes=frozenset({"i32", "u32", "i64", "u64"}),
    shifts_round_down=True,
    keywords=C_KEYWORDS | LIBRARY | _KEYWORDS,
    prologue="""#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#endif
""",
)  # fmt: skip

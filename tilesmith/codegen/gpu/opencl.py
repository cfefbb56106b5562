"""The table of OpenCL C (version 1.2)."""

from __future__ import annotations

from tilesmith.codegen.c_family.dialect import C_KEYWORDS
from tilesmith.codegen.c_family.library import LIBRARY
from tilesmith.codegen.gpu.dialect import DeviceDialect
from tilesmith.runtime.dtype import DataType

__all__ = ["OPENCL"]

_KEYWORDS = frozenset(
    "kernel __kernel global local constant private __global __local __constant __private half "
    "uchar ushort uint ulong size_t ptrdiff_t image2d_t image3d_t sampler_t event_t read_only "
    "write_only read_write pipe vec_step min max clamp mix step sign radians degrees dot cross "
    "length distance normalize select any all uniform generic dynamic_shared "
    "char2 char4 int2 int4 float2 float4 float8 float16 double2 half2 half4 uint2 uint4".split()
)


def _vector_lanes(element: DataType) -> tuple[int, ...]:
    return () if element.bits < 8 else (2, 4, 8, 16)


_HELPERS = {
    # values of float16 and bfloat16 are kept as their bits: not every device has the types
    # (a union: a ushort that is accessed as half too might be taken for two different objects)
    "f16_to_f32": """
{inline} float f16_to_f32(ushort bits) {{
  union {{ ushort bits; uchar bytes[2]; }} both = {{bits}};
  return vload_half(0, (const half*)both.bytes);
}}""",
    "f32_to_f16": """
{inline} ushort f32_to_f16(float value) {{
  union {{ ushort bits; uchar bytes[2]; }} both;
  vstore_half_rte(value, 0, (half*)both.bytes);
  return both.bits;
}}""",
    "bf16_to_f32": """
{inline} float bf16_to_f32(ushort bits) {{ return as_float((uint)bits << 16); }}""",
    "f32_to_bf16": """
{inline} ushort f32_to_bf16(float value) {{
  const uint bits = as_uint(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (ushort)((bits >> 16) | 0x40u);
  return (ushort)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}}""",
    "f32_bits": """
{inline} uint f32_bits(float value) {{ return as_uint(value); }}""",
    "bits_f32": """
{inline} float bits_f32(uint bits) {{ return as_float(bits); }}""",
    "mul_alone": """
{inline} float mul_alone(float a, float b) {{
#pragma OPENCL FP_CONTRACT OFF
  return a * b; /* not fused with a sum */
}}""",
    "mul_alone_f64": """
{inline} double mul_alone_f64(double a, double b) {{
#pragma OPENCL FP_CONTRACT OFF
  return a * b; /* not fused with a sum */
}}""",
}

OPENCL = DeviceDialect(
    name="opencl",
    title="OpenCL C",
    types={
        "bool": "bool", "i8": "char", "u8": "uchar", "i16": "short", "u16": "ushort", "i32": "int",
        "u32": "uint", "i64": "long", "u64": "ulong", "f32": "float", "f64": "double",
        "f16": "ushort", "bf16": "ushort",
    },
    numbers={"u32": "{}u", "i64": "{}L", "u64": "{}UL"},
    vector_names={},
    vector_lanes=_vector_lanes,
    components="0123456789abcdef",
    component_prefix="s",
    build_vector="({type})({parts})",
    access_bytes=128,
    threads={
        f"{tag}.{axis}": f"{function}({number})"
        for tag, function in (("threadIdx", "get_local_id"), ("blockIdx", "get_group_id"))
        for number, axis in enumerate("xyz")
    },
    spaces={
        "global": "__global ", "": "__global ", "shared": "__local ", "constant": "__constant ",
    },
    kernel="__kernel {bounds}void",
    inline="static inline",
    restrict="restrict ",
    shared="__local {type} {name}[{count}] __attribute__((aligned({bytes})));",
    constant="__constant {type} {name}[{count}]",
    barriers={
        "shared": "barrier(CLK_LOCAL_MEM_FENCE)",
        # no sub-groups in OpenCL 1.2: all work items of the group wait
        "warp": "barrier(CLK_LOCAL_MEM_FENCE)",
    },
    headers={"f64": "#pragma OPENCL EXTENSION cl_khr_fp64 : enable"},
    to_float={},
    from_float={},
    math_names={"nearbyint": "rint"},
    math_suffix="",
    fast_names={
        "exp": "native_exp", "exp2": "native_exp2", "exp10": "native_exp10", "log": "native_log",
        "log2": "native_log2", "log10": "native_log10", "sin": "native_sin", "cos": "native_cos",
        "tan": "native_tan", "sqrt": "native_sqrt", "rsqrt": "native_rsqrt",
    },
    helpers=_HELPERS,
    extremes=frozenset({"i32", "u32", "i64", "u64"}),
    shifts_round_down=True,
    keywords=C_KEYWORDS | LIBRARY | _KEYWORDS,
)  # fmt: skip

"""Rules of matrix products of a warp on registers: ``mma``, ``mma.sp``, ``ldmatrix``."""

from __future__ import annotations

from tilesmith.codegen.c_family.pieces import Piece
from tilesmith.codegen.gpu.device_calls import call_function, constant, name_of, pointer, word
from tilesmith.codegen.gpu.device_functions import DeviceFunction
from tilesmith.codegen.gpu.mma_functions import (
    PTX_KINDS,
    ROUND_TO_TF32,
    MmaError,
    ldmatrix_function,
    mma_function,
    mma_sp_function,
)
from tilesmith.codegen.gpu.rules import handles
from tilesmith.codegen.gpu.values import Values
from tilesmith.ir import Call
from tilesmith.runtime.dtype import DataType

__all__ = ["DTYPES_OF_KINDS"]

DTYPES_OF_KINDS = {
    "f16": "float16", "bf16": "bfloat16", "tf32": "float32", "f32": "float32", "f64": "float64",
    "e4m3": "e4m3_float8", "e5m2": "e5m2_float8", "s8": "int8", "u8": "uint8", "s4": "int4",
    "u4": "uint4", "b1": "int1", "s32": "int32",
}  # fmt: skip
"""The dtypes of the elements that PTX names so."""

_WORDS = {8: "unsigned char", 16: "unsigned short", 32: "unsigned", 64: "unsigned long long"}


def _operands(emit: Values, call: Call) -> list[str]:
    """Return pointers to the registers of the results, A and B: arguments 6 to 11."""
    found = []
    for place, kind in ((10, 5), (6, 3), (8, 4)):
        dtype = DataType(DTYPES_OF_KINDS[PTX_KINDS[word(emit, call, kind)].ptx])
        found.append(pointer(emit, call.args[place], call.args[place + 1], dtype))
    return found


def _words(emit: Values, call: Call) -> tuple[str, tuple[str, str], tuple[str, str, str]]:
    shape, *others = [word(emit, call, which) for which in range(6)]
    return shape, (others[0], others[1]), (others[2], others[3], others[4])


@handles("ptx_mma", dialect="cuda")
def _mma(emit: Values, call: Call) -> Piece:
    shape, layouts, kinds = _words(emit, call)
    saturate = bool(constant(emit, call, 12, "saturation"))
    operator = word(emit, call, 13).removeprefix(".") if len(call.args) > 13 else ""
    try:
        function = mma_function(shape, layouts, kinds, saturate, operator.removesuffix(".popc"))
    except MmaError as error:
        raise emit.out.unsupported(f"ptx_mma: {error}") from None
    return call_function(emit, f"ptx_mma {shape}", function, *_operands(emit, call))


@handles("ptx_mma_sp", dialect="cuda")
def _mma_sp(emit: Values, call: Call) -> Piece:
    """Write a product with a sparse A: the metadata is a register of 32 bits."""
    shape, layouts, kinds = _words(emit, call)
    selector = constant(emit, call, 14, "the selector")
    saturate = bool(constant(emit, call, 15, "saturation"))
    try:
        function = mma_sp_function(shape, layouts, kinds, selector, saturate)
    except MmaError as error:
        raise emit.out.unsupported(f"ptx_mma_sp: {error}") from None
    metadata = pointer(emit, call.args[12], call.args[13], DataType("uint32"))
    operands = [*_operands(emit, call), f"*(const unsigned*)({metadata})"]
    return call_function(emit, f"ptx_mma_sp {shape}", function, *operands)


@handles("ptx_ldmatrix", dialect="cuda")
def _ldmatrix(emit: Values, call: Call) -> Piece:
    transposed = bool(constant(emit, call, 0, "transposition"))
    count, kind = constant(emit, call, 1, "the number of matrices"), word(emit, call, 2)
    if kind.removeprefix(".") not in ("b16", "b8") or transposed and kind.endswith("b8"):
        raise emit.out.unsupported(
            f"ptx_ldmatrix moves elements of .b16, not of {kind}" + " transposed" * transposed,
            "it can load pairs of bytes as they are; load single bytes by a loop of each thread",
        )
    try:
        function = ldmatrix_function(count, transposed)
    except MmaError as error:
        raise emit.out.unsupported(f"ptx_ldmatrix: {error}") from None
    element = call.dtype.element
    target = pointer(emit, call.args[3], call.args[4], element)
    source = pointer(emit, call.args[5], call.args[6], element)
    return call_function(emit, "ptx_ldmatrix", function, target, source)


@handles("round_to_tf32", dialect="cuda")
def _round_to_tf32(emit: Values, call: Call) -> Piece:
    return call_function(emit, "round_to_tf32", ROUND_TO_TF32, emit.text(call.args[0]))


@handles("mma_fill", dialect="cuda")
def _mma_fill(emit: Values, call: Call) -> Piece:
    count, dtype = constant(emit, call, 0, "the number of registers"), call.dtype.element
    bits = _width(emit, call, dtype)
    name = f"mma_fill_{count}x{bits}"
    text = (
        f"static __device__ __forceinline__ void {name}(void* c_) {{\n"
        f"  {_WORDS[bits]}* c = ({_WORDS[bits]}*)c_;\n"
        f"#pragma unroll\n  for (int i = 0; i < {count}; ++i) c[i] = 0;\n}}"
    )
    target = pointer(emit, call.args[1], call.args[2], dtype)
    return call_function(emit, "mma_fill", DeviceFunction(name, text), target)


@handles("mma_store", dialect="cuda")
def _mma_store(emit: Values, call: Call) -> Piece:
    """Write the store of a tile of 16 by 16 results, eight in each thread."""
    sizes = tuple([constant(emit, call, which, "a size") for which in (0, 1)])
    if sizes != (16, 16):
        raise emit.out.unsupported(f"mma_store stores tiles of 16 by 16, not {sizes}")
    dtype = call.dtype.element
    bits = _width(emit, call, dtype)
    name, kind = f"mma_store_16x16x{bits}", _WORDS[bits]
    text = (
        f"static __device__ __forceinline__ void {name}(void* d_, const void* c_, int stride) {{\n"
        f"  {kind}* d = ({kind}*)d_;\n"
        f"  const {kind}* c = (const {kind}*)c_;\n"
        "  unsigned lane;\n"
        '  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));\n'
        "#pragma unroll\n"
        "  for (int i = 0; i < 8; ++i)\n"
        "    d[(lane / 4 + i % 4 / 2 * 8) * stride + lane % 4 * 2 + i % 2 + i / 4 * 8] = c[i];\n"
        "}"
    )
    target = emit.text(call.args[2])
    source = pointer(emit, call.args[3], call.args[4], dtype)
    stride = emit.text(call.args[5])
    return call_function(emit, "mma_store", DeviceFunction(name, text), target, source, stride)


def _width(emit: Values, call: Call, dtype: DataType) -> int:
    if dtype.bits not in _WORDS:
        raise emit.out.unsupported(f"'{name_of(call)}' cannot hold results of '{dtype}'")
    return dtype.bits


_REFUSED = (
    "ptx_mma", "ptx_mma_sp", "ptx_ldmatrix", "mma_fill", "mma_store",
)  # fmt: skip


@handles(*_REFUSED, dialect="opencl")
def _refuse(emit: Values, call: Call) -> Piece:
    raise emit.out.unsupported(
        f"'{name_of(call)}' is an instruction of NVIDIA GPUs, which OpenCL C has no words for",
        "build for 'cuda', or schedule the product without tensor intrinsics",
    )

"""Rules of additions in memory that no other thread can interrupt.

CUDA C has functions for it. OpenCL C adds integers of 32 bits (of 64 with an extension); other
values are replaced by a loop of compare-and-exchange, those of 16 bits inside of their word.
"""

from __future__ import annotations

from tilesmith.codegen.c_family.dialect import short
from tilesmith.codegen.c_family.pieces import ATOM, UNARY, Piece
from tilesmith.codegen.gpu.device_calls import pointer_scope, require
from tilesmith.codegen.gpu.rules import handles
from tilesmith.codegen.gpu.values import Values
from tilesmith.ir import Call
from tilesmith.runtime.dtype import DataType

_CUDA: dict[str, int] = {
    "i32": 0, "u32": 0, "i64": 0, "u64": 0, "f32": 0, "f64": 60, "f16": 70, "bf16": 70,
}  # fmt: skip
"""The dtypes that CUDA adds, with the least architecture."""


def _unsupported(emit: Values, dtype: DataType, known: str) -> Exception:
    return emit.out.unsupported(
        f"values of '{dtype}' cannot be added atomically in {emit.dialect.title}",
        f"it adds {known}, one element at a time",
    )


@handles("atomic_add", dialect="cuda")
def _atomic_add(emit: Values, call: Call) -> Piece:
    place, value = call.args
    dtype, kind = value.dtype, short(value.dtype)
    if dtype.lanes > 1 or dtype.is_bool or kind not in _CUDA:
        raise _unsupported(emit, dtype, "int32, int64, float16, bfloat16, float32, float64")
    require(emit, f"atomic_add of {dtype}", _CUDA[kind])
    pointed = emit.text(place, UNARY)
    if kind == "i64":
        word = "unsigned long long"
        return f"(long long)atomicAdd(({word}*){pointed}, ({word}){emit.text(value, UNARY)})", UNARY
    return f"atomicAdd(({emit.type(dtype)}*){pointed}, {emit.text(value)})", ATOM


_INTEGER = """\
static inline {type} {name}(volatile {space}{type}* place, {type} value) {{
  return {function}(place, value);
}}"""
_FLOAT = """\
static inline {type} {name}(volatile {space}{type}* place, {type} value) {{
  volatile {space}{word}* bits = (volatile {space}{word}*)place;
  {word} seen = *bits, before;
  do {{
    before = seen;
    seen = {exchange}(bits, before, as_{word}(as_{type}(before) + value));
  }} while (seen != before);
  return as_{type}(before);
}}"""
_HALF = """\
static inline ushort {name}(volatile {space}ushort* place, ushort value) {{
  const uint shift = ((size_t)place & 2) * 8; /* of the half in its word; little endian */
  volatile {space}uint* word = (volatile {space}uint*)((size_t)place & ~(size_t)3);
  uint seen = *word, before;
  do {{
    before = seen;
    const float sum = {short}_to_f32((ushort)(before >> shift)) + {short}_to_f32(value);
    const uint next = (before & ~(0xffffu << shift)) | (uint)f32_to_{short}(sum) << shift;
    seen = atomic_cmpxchg(word, before, next);
  }} while (seen != before);
  return (ushort)(before >> shift);
}}"""
_OPENCL = {
    "i32": (_INTEGER, "atomic_add"), "u32": (_INTEGER, "atomic_add"),
    "i64": (_INTEGER, "atom_add"), "u64": (_INTEGER, "atom_add"),
    "f32": (_FLOAT, "uint"), "f64": (_FLOAT, "ulong"), "f16": (_HALF, ""), "bf16": (_HALF, ""),
}  # fmt: skip


@handles("atomic_add", dialect="opencl")
def _atomic_add_in_opencl(emit: Values, call: Call) -> Piece:
    place, value = call.args
    dtype, kind = value.dtype, short(value.dtype)
    if dtype.lanes > 1 or dtype.is_bool or kind not in _OPENCL:
        raise _unsupported(emit, dtype, "int32, int64, float16, bfloat16, float32, float64")
    space = emit.dialect.space(pointer_scope(place))
    if not space.startswith(("__global", "__local")):
        raise emit.out.unsupported("atomic_add needs memory that threads share: global or shared")
    name = f"atomic_add_{kind}_{space.strip(' _')}"
    template, word = _OPENCL[kind]
    if template is _HALF:
        emit.file.helper(f"{kind}_to_f32")
        emit.file.helper(f"f32_to_{kind}")
    if dtype.bits == 64:
        emit.file.include("#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable")
    text = template.format(
        name=name, space=space, type=emit.type(dtype), function=word, word=word, short=kind,
        exchange="atom_cmpxchg" if dtype.bits == 64 else "atomic_cmpxchg",
    )  # fmt: skip
    emit.file.helpers.setdefault(name, text)
    pointed = f"(volatile {space}{emit.type(dtype)}*){emit.text(place, UNARY)}"
    return f"{name}({pointed}, {emit.text(value)})", ATOM

"""Rules of exchanges within a warp, and of products of four bytes.

OpenCL calls a warp a sub-group; it is an extension, so code for it is only written for targets with
a warp (``-thread_warp_size`` above 1).
"""

from __future__ import annotations

from tilesmith.codegen.c_family.pieces import ATOM, UNARY, Piece
from tilesmith.codegen.gpu.device_calls import name_of, require
from tilesmith.codegen.gpu.rules import handles
from tilesmith.codegen.gpu.values import Values
from tilesmith.ir import Call, PrimExpr
from tilesmith.runtime.packed_elements import is_packed

_FUNCTIONS = {
    "tvm_warp_shuffle": "__shfl_sync",
    "tvm_warp_shuffle_up": "__shfl_up_sync",
    "tvm_warp_shuffle_down": "__shfl_down_sync",
}
_LANES = {
    "tvm_warp_shuffle": "{given} % {width}",
    "tvm_warp_shuffle_up": "lane - {given}",
    "tvm_warp_shuffle_down": "lane + {given}",
}
_SUB_GROUPS = """\
#if defined(cl_khr_subgroup_shuffle)
#pragma OPENCL EXTENSION cl_khr_subgroup_shuffle : enable
#elif defined(cl_intel_subgroups)
#pragma OPENCL EXTENSION cl_intel_subgroups : enable
#define sub_group_shuffle intel_sub_group_shuffle
#else
#error "this device has no shuffles of sub-groups: build for a target with -thread_warp_size=1"
#endif"""


@handles(*_FUNCTIONS, dialect="cuda")
def _shuffle(emit: Values, call: Call) -> Piece:
    mask, value, given, width = call.args[:4]
    dtype = value.dtype.element
    # 8-bit floats are held as their bits; int promotes all smaller integers
    if is_packed(dtype) or dtype.is_handle:
        raise emit.out.unsupported(f"values of '{dtype}' cannot be exchanged in a warp")
    arguments = ", ".join([emit.text(mask), emit.text(value), emit.text(given), emit.text(width)])
    text = f"{_FUNCTIONS[name_of(call)]}({arguments})"
    if dtype.bits < 32 and not (dtype.is_float and dtype.bits == 16):
        return f"({emit.type(dtype)}){text}", UNARY
    return text, ATOM


@handles("tvm_warp_activemask", dialect="cuda")
def _active_mask(emit: Values, call: Call) -> Piece:
    return "__activemask()", ATOM


@handles(*_FUNCTIONS, dialect="opencl")
def _shuffle_in_opencl(emit: Values, call: Call) -> Piece:
    """Write a shuffle of a sub-group; the mask says what is so anyway: who takes part."""
    _require_sub_groups(emit, call)
    _, value, given, width = call.args[:4]
    kind = emit.type(value.dtype)
    name = f"{name_of(call).removeprefix('tvm_')}_{kind}"
    source = _LANES[name_of(call)].format(given="given", width="width")
    emit.file.declare("sub_groups", _SUB_GROUPS)
    emit.file.helpers.setdefault(
        name,
        f"static inline {kind} {name}({kind} value, int given, int width) {{\n"
        "  const int own = (int)get_sub_group_local_id(), lane = own % width;\n"
        f"  const int source = {source};\n"
        "  const bool inside = source >= 0 && source < width;\n"
        "  return sub_group_shuffle(value, inside ? own - lane + source : own);\n"
        "}",
    )
    return f"{name}({emit.text(value)}, {emit.text(given)}, {emit.text(width)})", ATOM


@handles("tvm_warp_activemask", dialect="opencl")
def _active_mask_in_opencl(emit: Values, call: Call) -> Piece:
    _require_sub_groups(emit, call)
    emit.file.include("#pragma OPENCL EXTENSION cl_khr_subgroup_ballot : enable")
    return "sub_group_ballot(1).s0", ATOM


def _require_sub_groups(emit: Values, call: Call) -> None:
    if emit.warp_size <= 1:
        raise emit.out.unsupported(
            f"'{name_of(call)}' needs sub-groups, which the target's devices may lack",
            "exchange values through shared memory (LowerThreadAllreduce does so), or build for "
            '"opencl -thread_warp_size=32" if the device has sub-groups of that size',
        )


# Products of four bytes.


@handles("dp4a", dialect="cuda")
def _dp4a(emit: Values, call: Call) -> Piece:
    first, second, total = call.args
    signs = [one.dtype.is_uint for one in (first, second)]
    if signs[0] != signs[1]:
        return _sum_of_products(emit, call)
    require(emit, "dp4a", 61)
    word = "unsigned int" if signs[0] else "int"
    words = [_word(emit, one, word) for one in (first, second)]
    return f"__dp4a({', '.join(words)}, ({word}){emit.text(total, UNARY)})", ATOM


def _word(emit: Values, value: PrimExpr, word: str) -> str:
    """Return four bytes as a word: what has 32 bits is one already."""
    if value.dtype.lanes == 1:
        return f"({word}){emit.text(value, UNARY)}"
    name = emit.define_vector("bytes", value)
    return f"*(const {word}*)&{name}"


@handles("dp4a", dialect="opencl")
def _dp4a_in_opencl(emit: Values, call: Call) -> Piece:
    return _sum_of_products(emit, call)


def _sum_of_products(emit: Values, call: Call) -> Piece:
    first, second, total = call.args
    texts = []
    for lane in range(4):
        factors = [_byte(emit, one, lane) for one in (first, second)]
        texts.append(" * ".join(factors))
    written = " + ".join([*texts, emit.text(total, UNARY)])
    return f"({emit.type(call.dtype)})({written})", UNARY


def _byte(emit: Values, value: PrimExpr, lane: int, unsigned: bool | None = None) -> str:
    dtype = value.dtype
    is_unsigned = dtype.is_uint if unsigned is None else unsigned
    byte = emit.dialect.types["u8" if is_unsigned else "i8"]
    if dtype.lanes > 1:
        return f"(int){emit.at_lane(value, lane, UNARY)}"
    text = emit.text(value, UNARY)
    return f"(int)({byte})({text} >> {8 * lane})"


@handles("dot_i16i16")
def _dot_of_short_integers(emit: Values, call: Call) -> Piece:
    """Write the product of two int16 in each of two words; unsigned sums may wrap around."""
    word, short = emit.dialect.types["u32"], emit.dialect.types["i16"]
    first, second = [emit.text(one, UNARY) for one in call.args]
    products = [
        f"({word})((int)({short})({first} >> {place}) * (int)({short})({second} >> {place}))"
        for place in (0, 16)
    ]
    return f"({emit.type(call.dtype)})({' + '.join(products)})", UNARY


@handles("dot_i8i8", "dot_u8i8")
def _dot_of_words(emit: Values, call: Call) -> Piece:
    """Write the product of four bytes in each of two words."""
    first, second = call.args
    if emit.dialect.name == "cuda" and name_of(call) == "dot_i8i8":
        return f"__dp4a({emit.text(first)}, {emit.text(second)}, 0)", ATOM
    is_unsigned = name_of(call) == "dot_u8i8"
    texts = [
        f"{_byte(emit, first, lane, is_unsigned)} * {_byte(emit, second, lane, False)}"
        for lane in range(4)
    ]
    return f"({emit.type(call.dtype)})({' + '.join(texts)})", UNARY

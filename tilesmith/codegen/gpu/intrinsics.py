"""Defines rules of operators: mathematics, bits, choices, barriers, calls of foreign functions.

Those of matrix units, asynchronous copies, atomic steps and warps have files of their own.
"""

from __future__ import annotations

from tilesmith.codegen.c_family.expressions import text_argument
from tilesmith.codegen.c_family.operators import lazy_choice, math_operator
from tilesmith.codegen.c_family.pieces import ATOM, CHOICE, COMPARE, SUM, UNARY, Piece
from tilesmith.codegen.gpu.grid_barriers import barrier_of_grid
from tilesmith.codegen.gpu.rules import handles
from tilesmith.codegen.gpu.shared_barriers import write_fence
from tilesmith.codegen.gpu.values import Values, whole_choice
from tilesmith.ir import Call, StringImm

handles("rsqrt", "exp10")(math_operator)


@handles("isnan", "isinf", "isfinite")
def _classify(emit: Values, call: Call) -> Piece:
    return f"(bool){call.op.name[4:]}({emit.widened(call.args[0])})", UNARY


@handles("popcount", "clz")
def _count_bits(emit: Values, call: Call) -> Piece:
    source = call.args[0].dtype
    wide = source.bits == 64
    kind = emit.dialect.types["u64" if wide else "u32"]
    value = f"({kind}){emit.text(call.args[0], UNARY)}"
    if source.bits < 32:
        mask = (1 << source.bits) - 1
        value = f"{value} & {mask}u"
    of_cuda = emit.dialect.name == "cuda"
    if call.op.name == "tir.popcount":
        name = ("__popcll" if wide else "__popc") if of_cuda else "popcount"
        return f"({emit.type(call.dtype)}){name}({value})", UNARY
    if of_cuda and not wide:
        value = f"(int)({value})"
    name = ("__clzll" if wide else "__clz") if of_cuda else "clz"
    less = f" - {32 - source.bits}" if source.bits < 32 else ""
    return f"({emit.type(call.dtype)})({name}({value}){less})", UNARY


# -- choice


@handles("if_then_else")
def _if_then_else(emit: Values, call: Call) -> Piece:
    """Write a lazy choice: lines that an arm needs are executed only if the arm is taken."""
    loaded = emit.loaded.get(id(call))
    if loaded is not None and emit.lane is not None:
        return loaded.parts[emit.lane], ATOM
    name = emit.out.fresh("chosen")  # before the arms, which may hold choices of their own
    return lazy_choice(emit, call.dtype, *whole_choice(call), name=name)


@handles("checked")
def _checked(emit: Values, call: Call) -> Piece:
    """Write a value that is used only if a condition holds: kernels cannot report errors, they take
    0 instead, which neither traps nor leaves a buffer. A value that several lanes share is used if
    the condition holds in all of them.
    """
    value, condition = call.args[:2]
    if condition.dtype.lanes > 1 and emit.lane is None:
        lanes = range(condition.dtype.lanes)
        holds = " && ".join([emit.at_lane(condition, lane, UNARY) for lane in lanes])
        return f"({holds}) ? {emit.text(value, CHOICE + 1)} : 0", CHOICE
    return f"{emit.text(condition, UNARY)} ? {emit.text(value, CHOICE + 1)} : 0", CHOICE


@handles("prefetch")
def _nothing(emit: Values, call: Call) -> Piece:
    return "0", ATOM


# -- vectors


@handles("vectorlow", "vectorhigh")
def _vector_half(emit: Values, call: Call) -> Piece:
    half = call.args[0].dtype.lanes // 2 if call.op.name == "tir.vectorhigh" else 0
    return emit.at_lane(call.args[0], half + (emit.lane or 0), ATOM), ATOM


@handles("vectorcombine")
def _vector_combine(emit: Values, call: Call) -> Piece:
    first, second = call.args
    lane = emit.lane or 0
    if lane < first.dtype.lanes:
        return emit.at_lane(first, lane, ATOM), ATOM
    return emit.at_lane(second, lane - first.dtype.lanes, ATOM), ATOM


@handles("get_active_lane_mask")
def _active_lanes(emit: Values, call: Call) -> Piece:
    first, end = emit.scalar(call.args[0], SUM), emit.scalar(call.args[1], SUM)
    return f"{first} + {emit.lane or 0} < {end}", COMPARE


# -- threads


@handles("tvm_storage_sync")
def _barrier(emit: Values, call: Call) -> Piece:
    scope = call.args[0].value if isinstance(call.args[0], StringImm) else ""
    if scope.partition(".")[0] == "global":
        return barrier_of_grid(emit)
    found = emit.dialect.barriers.get(scope.partition(".")[0])
    if found is None:
        raise emit.out.unsupported(f"a barrier for the scope '{scope}'")
    if scope.partition(".")[0] in ("shared", "warp"):
        write_fence(emit)  # the arrival of one thread may speak for others that it has met
    if emit.orders_global and emit.dialect.name == "opencl":
        found = found.replace("CLK_LOCAL_MEM_FENCE", "CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE")
    return found, ATOM


# -- foreign functions


@handles("call_extern", "call_pure_extern")
def _call_extern(emit: Values, call: Call) -> Piece:
    name = text_argument(emit, call.args[0])
    return f"{name}({', '.join([emit.text(arg) for arg in call.args[1:]])})", ATOM


@handles("mem_copy")
def _mem_copy(emit: Values, call: Call) -> Piece:
    target, source, size = [emit.text(arg, UNARY) for arg in call.args[:3]]
    if emit.dialect.name == "cuda":
        return f"memcpy({target}, {source}, {size})", ATOM
    raise emit.out.unsupported("mem_copy has no translation into OpenCL C", "copy by a loop")


@handles("tvm_call_packed", "tvm_call_cpacked", "tvm_call_trace_packed", "tvm_call_packed_lowered",
         "tvm_call_cpacked_lowered", "tvm_stack_alloca", "tvm_throw_last_error")  # fmt: skip
def _packed(emit: Values, call: Call) -> Piece:
    raise emit.out.unsupported(
        f"'{call.op.name}' calls a function of the host, which a kernel cannot do",
        "call it before or after the kernel, or call device code: T.call_extern",
    )

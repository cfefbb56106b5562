"""Rules of barriers in shared memory (``mbarrier``), which OpenCL C has not.

A thread waits for the phase after the one that it waited for last: a variable has the parity of
each barrier's phase.
"""

from __future__ import annotations

from tilesmith.codegen.c_family.pieces import ATOM, Piece
from tilesmith.codegen.gpu.copy_functions import (
    ARRIVE,
    ARRIVE_AFTER_COPIES,
    ARRIVE_EXPECTING,
    INIT_BARRIER,
    INIT_BARRIER_90,
    WAIT_BARRIER,
    WAIT_BARRIER_90,
)
from tilesmith.codegen.gpu.device_calls import architecture_of, call_function, constant, name_of
from tilesmith.codegen.gpu.rules import handles
from tilesmith.codegen.gpu.values import Values
from tilesmith.codegen.gpu.wgmma_functions import FENCE_PROXY
from tilesmith.ir import Call, IntImm

__all__ = ["barrier_address", "write_fence"]

MOST_BARRIERS = 64


@handles("create_barriers", dialect="cuda")
def _create_barriers(emit: Values, call: Call) -> Piece:
    """Declare barriers, and a variable with the parity of the phase of each."""
    count = constant(emit, call, 0, "the number of barriers")
    if not 0 < count <= MOST_BARRIERS:
        raise emit.out.unsupported(f"a kernel has 1 to {MOST_BARRIERS} barriers, not {count}")
    if emit.barriers:
        raise emit.out.unsupported("create_barriers is called twice; create all at once")
    emit.barriers = emit.out.fresh("barriers")
    emit.phases = emit.out.fresh("phases")
    emit.out.top.append(f"  __shared__ unsigned long long {emit.barriers}[{count}];")
    emit.out.top.append(f"  unsigned long long {emit.phases} = 0;")
    return "", ATOM


def barrier_address(emit: Values, call: Call, which: int = 0) -> str:
    """Return the address of the barrier whose number is an argument of a call."""
    if not emit.barriers:
        raise emit.out.unsupported(f"'{name_of(call)}' comes before create_barriers")
    return f"&{emit.barriers}[{emit.text(call.args[which])}]"


def _is_new(emit: Values) -> bool:
    return architecture_of(emit.arch) >= 90


@handles("ptx_init_barrier_thread_count", dialect="cuda")
def _init_barrier(emit: Values, call: Call) -> Piece:
    function = INIT_BARRIER_90 if _is_new(emit) else INIT_BARRIER
    arguments = barrier_address(emit, call), emit.text(call.args[1])
    return call_function(emit, name_of(call), function, *arguments)


def write_fence(emit: Values) -> None:
    """Write the fence of `proxy_fences`, if the kernel needs it: what this thread has done with
    shared memory, or has waited for, comes before what tensor cores and bulk copies do.
    """
    operator = emit.fences.operator
    if operator and emit.dialect.name == "cuda":
        feature = "a" if operator == "ptx_wgmma" else ""
        emit.out.write(call_function(emit, operator, FENCE_PROXY, feature=feature)[0] + ";")


@handles("ptx_arrive_barrier", dialect="cuda")
def _arrive(emit: Values, call: Call) -> Piece:
    write_fence(emit)
    return call_function(emit, name_of(call), ARRIVE, barrier_address(emit, call))


@handles("ptx_arrive_barrier_expect_tx", dialect="cuda")
def _arrive_expecting(emit: Values, call: Call) -> Piece:
    write_fence(emit)
    arguments = barrier_address(emit, call), emit.text(call.args[1])
    return call_function(emit, name_of(call), ARRIVE_EXPECTING, *arguments)


@handles("ptx_cp_async_barrier", dialect="cuda")
def _copies_at_barrier(emit: Values, call: Call) -> Piece:
    return call_function(emit, name_of(call), ARRIVE_AFTER_COPIES, barrier_address(emit, call))


@handles("ptx_wait_barrier", dialect="cuda")
def _wait_barrier(emit: Values, call: Call) -> Piece:
    """Wait for the phase that follows the one waited for last."""
    number = emit.text(call.args[0])
    shift = number if isinstance(call.args[0], IntImm) else f"({number})"
    function = WAIT_BARRIER_90 if _is_new(emit) else WAIT_BARRIER
    parity = f"(unsigned)({emit.phases} >> {shift}) & 1"
    text, _ = call_function(emit, name_of(call), function, barrier_address(emit, call), parity)
    emit.out.write(text + ";")
    if emit.fences.behind_waits:
        write_fence(emit)
    return f"{emit.phases} ^= 1ull << {shift}", 2


_BARRIERS = (
    "create_barriers", "ptx_init_barrier_thread_count", "ptx_arrive_barrier",
    "ptx_arrive_barrier_expect_tx", "ptx_cp_async_barrier", "ptx_cp_async_bulk",
    "ptx_cp_async_bulk_tensor", "ptx_wait_barrier",
)  # fmt: skip


@handles(*_BARRIERS, dialect="opencl")
def _refuse(emit: Values, call: Call) -> Piece:
    raise emit.out.unsupported(
        f"'{name_of(call)}' needs barriers in shared memory, which OpenCL C has not",
        "use groups of copies (ptx_cp_async, ptx_commit_group, ptx_wait_group) with "
        "tvm_storage_sync, or build for 'cuda'",
    )

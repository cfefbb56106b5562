"""Rules of copies in the background, and of barriers in shared memory.

OpenCL C has neither: there a copy is done at once, which is right wherever the copy in the
background is, and groups and waits are nothing.
"""

from __future__ import annotations

from tilesmith.codegen.c_family.pieces import ATOM, CHOICE, OR, UNARY, Piece
from tilesmith.codegen.gpu.copy_functions import (
    ARRIVE,
    ARRIVE_AFTER_COPIES,
    ARRIVE_EXPECTING,
    BULK_COPY,
    COMMIT_GROUP,
    INIT_BARRIER,
    INIT_BARRIER_90,
    WAIT_BARRIER,
    WAIT_BARRIER_90,
    copy_function,
    wait_group_function,
)
from tilesmith.codegen.gpu.device_calls import (
    architecture_of,
    call_function,
    constant,
    name_of,
    pointer,
    pointer_scope,
    rely_on_alignment,
)
from tilesmith.codegen.gpu.rules import handles
from tilesmith.codegen.gpu.values import Values
from tilesmith.ir import Call, IntImm, PrimExpr
from tilesmith.ir.operators import is_const
from tilesmith.ir.queries import any_node, is_call
from tilesmith.support.fallbacks import record_fallback
from tilesmith.tir.queries import statements
from tilesmith.tir.stmt import AttrStmt, Stmt

__all__ = ["begin_wait", "end_group", "queues_of_copies"]

MOST_BARRIERS = 64
_BULK_BYTES = 16
_UNITS = {4: "uint", 8: "uint2", 16: "uint4"}


def _places(emit: Values, call: Call) -> tuple[str, str]:
    """Return the target and the source of a copy."""
    element = call.dtype.element
    target = pointer(emit, call.args[0], call.args[1], element)
    return target, pointer(emit, call.args[2], call.args[3], element)


def _copied_bytes(emit: Values, call: Call) -> int:
    count = constant(emit, call, 4, "the number of bytes")
    if count not in _UNITS:
        raise emit.out.unsupported(
            f"'{name_of(call)}' copies 4, 8 or 16 bytes, not {count}",
            "vectorize the copy so that each thread copies one of these sizes",
        )
    _rely_on_alignment(emit, call, count)
    return count


def _rely_on_alignment(emit: Values, call: Call, size: int) -> None:
    for which in (0, 2):
        rely_on_alignment(emit, call.args[which], size)


@handles("ptx_cp_async", dialect="cuda")
def _copy(emit: Values, call: Call) -> Piece:
    count = _copied_bytes(emit, call)
    guard = call.args[5] if len(call.args) > 5 and not is_const(call.args[5], 1) else None
    arguments = [*_places(emit, call)]
    if guard is not None:
        arguments.append(emit.text(guard))
    function = copy_function(count, guard is not None)
    return call_function(emit, "ptx_cp_async", function, *arguments)


@handles("ptx_cp_async", dialect="opencl")
def _copy_at_once(emit: Values, call: Call) -> Piece:
    unit = _UNITS[_copied_bytes(emit, call)]
    target, source = _places(emit, call)
    spaces = [emit.dialect.space(pointer_scope(call.args[which])) for which in (0, 2)]
    copy = f"*({spaces[0]}{unit}*)({target}) = "
    loaded = f"*(const {spaces[1]}{unit}*)({source})"
    if len(call.args) > 5 and not is_const(call.args[5], 1):
        loaded = f"{emit.text(call.args[5], OR)} ? {loaded} : ({unit})(0)"
    return copy + loaded, 2


@handles("ptx_commit_group", dialect="cuda")
def _commit(emit: Values, call: Call) -> Piece:
    return call_function(emit, "ptx_commit_group", COMMIT_GROUP)


@handles("ptx_wait_group", dialect="cuda")
def _wait(emit: Values, call: Call) -> Piece:
    pending = constant(emit, call, 0, "the number of pending groups")
    return call_function(emit, "ptx_wait_group", wait_group_function(pending))


@handles("ptx_commit_group", "ptx_wait_group", dialect="opencl")
def _nothing(emit: Values, call: Call) -> Piece:
    return "", ATOM


# Attributes of pipelines: groups and waits that InjectPTXAsyncCopy leaves.


def queues_of_copies(body: Stmt) -> set[int]:
    """Return the queues that a kernel waits for; none where all its copies are done at once."""
    if not any_node(body, lambda node: is_call(node, "tir.ptx_cp_async")):
        return set()
    attributes = [one for one in statements(body) if isinstance(one, AttrStmt)]
    waits = [one.value for one in attributes if one.attr_key == "async_wait_queue_scope"]
    return {queue.value if isinstance(queue, IntImm) else -1 for queue in waits} or {0}


def end_group(emit: Values) -> str:
    """Return the call that ends ``async_commit_queue_scope``; "" where copies are done at once."""
    if emit.dialect.name != "cuda" or not emit.queues:
        return ""
    return call_function(emit, "async_commit_queue_scope", COMMIT_GROUP)[0]


def begin_wait(emit: Values, attribute: AttrStmt) -> tuple[str, Stmt]:
    """Return the call that begins ``async_wait_queue_scope``, and the statement inside of it.

    A GPU has one queue: where a kernel fills several, or the number of pending groups is not
    constant, it waits for the newest group, which is slower and always right.
    """
    inner = attribute.body
    if not isinstance(inner, AttrStmt) or inner.attr_key != "async_wait_inflight_count":
        raise emit.out.unsupported(
            "async_wait_queue_scope needs async_wait_inflight_count right inside"
        )
    if emit.dialect.name != "cuda" or not emit.queues:
        return "", inner.body
    pending = _pending(emit, inner.value)
    function = wait_group_function(pending)
    return call_function(emit, "async_wait_queue_scope", function)[0], inner.body


def _pending(emit: Values, count: PrimExpr) -> int:
    if len(emit.queues) > 1:
        record_fallback("copies", f"kernel '{emit.out.name}'", "it fills several queues")
        return 0
    if isinstance(count, IntImm):
        return int(count.value)
    reason = f"the number of groups that may be pending is not constant: {count}"
    record_fallback("copies", f"kernel '{emit.out.name}'", reason)
    return 0


# Barriers in shared memory.


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


def _barrier(emit: Values, call: Call, which: int = 0) -> str:
    if not emit.barriers:
        raise emit.out.unsupported(f"'{name_of(call)}' comes before create_barriers")
    return f"&{emit.barriers}[{emit.text(call.args[which])}]"


def _is_new(emit: Values) -> bool:
    return architecture_of(emit.arch) >= 90


@handles("ptx_init_barrier_thread_count", dialect="cuda")
def _init_barrier(emit: Values, call: Call) -> Piece:
    function = INIT_BARRIER_90 if _is_new(emit) else INIT_BARRIER
    arguments = _barrier(emit, call), emit.text(call.args[1])
    return call_function(emit, name_of(call), function, *arguments)


@handles("ptx_arrive_barrier", dialect="cuda")
def _arrive(emit: Values, call: Call) -> Piece:
    return call_function(emit, name_of(call), ARRIVE, _barrier(emit, call))


@handles("ptx_arrive_barrier_expect_tx", dialect="cuda")
def _arrive_expecting(emit: Values, call: Call) -> Piece:
    arguments = _barrier(emit, call), emit.text(call.args[1])
    return call_function(emit, name_of(call), ARRIVE_EXPECTING, *arguments)


@handles("ptx_cp_async_barrier", dialect="cuda")
def _copies_at_barrier(emit: Values, call: Call) -> Piece:
    return call_function(emit, name_of(call), ARRIVE_AFTER_COPIES, _barrier(emit, call))


@handles("ptx_cp_async_bulk", dialect="cuda")
def _copy_bulk(emit: Values, call: Call) -> Piece:
    count = call.args[4]
    if isinstance(count, IntImm) and (count.value % _BULK_BYTES or count.value <= 0):
        raise emit.out.unsupported(
            f"ptx_cp_async_bulk copies whole pieces of {_BULK_BYTES} bytes, not {count.value} bytes"
        )
    _rely_on_alignment(emit, call, _BULK_BYTES)
    arguments = [*_places(emit, call), emit.text(count), _barrier(emit, call, 5)]
    return call_function(emit, name_of(call), BULK_COPY, *arguments)


@handles("ptx_wait_barrier", dialect="cuda")
def _wait_barrier(emit: Values, call: Call) -> Piece:
    """Wait for the phase that follows the one waited for last."""
    number = emit.text(call.args[0])
    shift = number if isinstance(call.args[0], IntImm) else f"({number})"
    function = WAIT_BARRIER_90 if _is_new(emit) else WAIT_BARRIER
    parity = f"(unsigned)({emit.phases} >> {shift}) & 1"
    text, _ = call_function(emit, name_of(call), function, _barrier(emit, call), parity)
    emit.out.write(text + ";")
    return f"{emit.phases} ^= 1ull << {shift}", 2


_BARRIERS = (
    "create_barriers", "ptx_init_barrier_thread_count", "ptx_arrive_barrier",
    "ptx_arrive_barrier_expect_tx", "ptx_cp_async_barrier", "ptx_cp_async_bulk",
    "ptx_wait_barrier",
)  # fmt: skip


@handles(*_BARRIERS, dialect="opencl")
def _refuse(emit: Values, call: Call) -> Piece:
    raise emit.out.unsupported(
        f"'{name_of(call)}' needs barriers in shared memory, which OpenCL C has not",
        "use groups of copies (ptx_cp_async, ptx_commit_group, ptx_wait_group) with "
        "tvm_storage_sync, or build for 'cuda'",
    )


# Guarded loads into registers.


@handles("ptx_ldg32")
def _guarded_load(emit: Values, call: Call) -> Piece:
    """Write a load that is 0 where its condition is false: (registers, condition, load, number)."""
    register, condition, load, number = call.args
    target = pointer(emit, register, number, load.dtype)
    emit.guarded += 1
    value = emit.text(load, CHOICE)
    emit.guarded -= 1
    kind = emit.type(load.dtype)
    place = f"{emit.text(register, UNARY)}[{emit.text(number)}]"
    if emit.pointer_types.get(register) != load.dtype:  # type: ignore[call-overload]
        place = f"*({kind}*)({target})"
    zero = emit.dialect.constant_text(0, load.dtype)
    return f"{place} = {emit.text(condition, OR)} ? {value} : {zero}", 2

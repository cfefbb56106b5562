"""Rules of copies in the background.

OpenCL C has none: there a copy is done at once, which is right wherever the copy in the
background is, and groups and waits are nothing.
"""

from __future__ import annotations

from tilesmith.codegen.c_family.pieces import ATOM, CHOICE, OR, UNARY, Piece
from tilesmith.codegen.gpu.copy_functions import (
    BULK_COPY,
    COMMIT_GROUP,
    copy_function,
    wait_group_function,
)
from tilesmith.codegen.gpu.device_calls import (
    call_function,
    constant,
    name_of,
    pointer,
    pointer_scope,
    rely_on_alignment,
)
from tilesmith.codegen.gpu.rules import handles
from tilesmith.codegen.gpu.shared_barriers import barrier_address
from tilesmith.codegen.gpu.values import Values
from tilesmith.ir import Call, IntImm, PrimExpr
from tilesmith.ir.operators import is_const
from tilesmith.ir.queries import any_node, is_call
from tilesmith.support.fallbacks import record_fallback
from tilesmith.tir.queries import statements
from tilesmith.tir.stmt import AttrStmt, Stmt

__all__ = ["begin_wait", "end_group", "queues_of_copies"]

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


@handles("ptx_cp_async_bulk", dialect="cuda")
def _copy_bulk(emit: Values, call: Call) -> Piece:
    count = call.args[4]
    if isinstance(count, IntImm) and (count.value % _BULK_BYTES or count.value <= 0):
        raise emit.out.unsupported(
            f"ptx_cp_async_bulk copies whole pieces of {_BULK_BYTES} bytes, not {count.value} bytes"
        )
    _rely_on_alignment(emit, call, _BULK_BYTES)
    arguments = [*_places(emit, call), emit.text(count), barrier_address(emit, call, 5)]
    return call_function(emit, name_of(call), BULK_COPY, *arguments)


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

"""Primitives that say how a loop is carried out, and annotations."""

from __future__ import annotations

import difflib
from typing import Any

from tilesmith.ir import Range, Var, structural_equal
from tilesmith.ir.operators import is_const
from tilesmith.tir.expr import IterVar
from tilesmith.tir.schedule.primitives.blocks import has_affine_binding, scope_of
from tilesmith.tir.schedule.primitives.common import refuse_at, uses_var, variables_in
from tilesmith.tir.schedule.primitives.flags import is_covered
from tilesmith.tir.schedule.state import ScheduleState, StmtSRef
from tilesmith.tir.stmt import BlockRealize, For, ForKind

__all__ = ["annotate", "bind", "parallel", "unannotate", "unroll", "vectorize"]

THREAD_AXES = tuple(
    f"{kind}.{axis}" for kind in ("blockIdx", "threadIdx", "vthread") for axis in "xyz"
) + ("vthread",)


def _check_independent(
    state: ScheduleState, primitive: str, sref: StmtSRef, thread: str = ""
) -> None:
    """The iterations of a loop may run in any order: it drives data-parallel iterators only.

    A loop bound to ``threadIdx`` may drive a reduction: lowering combines across threads.
    """
    if not state.enable_check:
        return
    loop: For = state.stmt(sref)
    name = loop.loop_var.name
    is_single = is_const(loop.extent, 1)
    for block_sref in state.blocks_below(sref):
        realize: BlockRealize = state.stmt(block_sref)
        block = realize.block
        if block.iter_vars:
            _check_own_elements(state, primitive, block_sref)
            if not has_affine_binding(state, block_sref, sref) and (
                primitive == "vectorize" or not _is_repeated(state, sref, block_sref)
            ):
                reason = f"the binding of block '{block.name_hint}' is not affine"
                raise refuse_at(state, primitive, reason, block_sref)
        uses_loop = False
        for iterator, value in zip(block.iter_vars, realize.iter_values):
            if loop.loop_var not in variables_in(value):
                continue
            uses_loop = True
            if iterator.iter_type == IterVar.DataPar:
                continue
            if iterator.iter_type == IterVar.CommReduce and thread.startswith("threadIdx"):
                continue
            reason = (
                f"loop '{name}' drives iterator '{iterator.var.name}', which must keep its order"
            )
            if iterator.iter_type == IterVar.CommReduce:
                reason = (
                    f"loop '{name}' carries the reduction iterator '{iterator.var.name}' "
                    f"of block '{block.name_hint}'"
                )
            advice = "use rfactor to make the partial results of a reduction independent"
            raise refuse_at(state, primitive, reason, sref, advice)
        if block.iter_vars and not uses_loop and not is_single:
            _check_private(state, primitive, sref, block_sref)


def _is_repeated(state: ScheduleState, sref: StmtSRef, block_sref: StmtSRef) -> bool:
    """Whether iterations of a loop compute again what others compute too, each for itself: the
    outputs of the block are used in the loop only, and each use finds all that it needs there."""
    inside = set(state.blocks_below(sref))
    scope = state.scope(block_sref)
    allocated = state.stmt(scope).block.alloc_buffers
    written = [region.buffer for region in state.stmt(block_sref).block.writes]
    if any(buffer not in allocated for buffer in written):
        return False
    for other in state.blocks_below(scope):
        block = state.stmt(other).block
        reads = any(region.buffer in written for region in block.reads)
        writes = any(region.buffer in written for region in block.writes)
        if (reads or writes) and other not in inside:
            return False
        if other is not block_sref and (writes or (reads and not is_covered(state, other))):
            return False
    return True


def _check_private(
    state: ScheduleState, primitive: str, sref: StmtSRef, block_sref: StmtSRef
) -> None:
    """A block that each iteration of a loop repeats: its outputs are used
    in that iteration only."""
    inside = state.blocks_below(sref)
    scope = scope_of(state, sref, primitive)
    allocated = state.stmt(scope).block.alloc_buffers
    name = state.stmt(sref).loop_var.name
    for region in state.stmt(block_sref).block.writes:
        others = [other for other in state.blocks_below(scope) if other not in inside]
        used = [
            r.buffer
            for s in others
            for r in (*state.stmt(s).block.reads, *state.stmt(s).block.writes)
        ]
        if region.buffer not in allocated or region.buffer in used:
            reason = (
                f"every iteration of loop '{name}' writes the same elements of "
                f"'{region.buffer.name}'"
            )
            raise refuse_at(state, primitive, reason, sref)


def _check_own_elements(state: ScheduleState, primitive: str, sref: StmtSRef) -> None:
    """Different values of the data-parallel iterators write different elements, and what the block
    reads of its own output is the element that it writes."""
    block = state.stmt(sref).block
    name = block.name_hint
    kinds = {iterator.var: iterator.iter_type for iterator in block.iter_vars}
    for variable, kind in kinds.items():
        if kind not in (IterVar.DataPar, IterVar.CommReduce):
            reason = f"iterator '{variable.name}' of block '{name}' must keep its order"
            advice = (
                "what an iteration reads, another one writes: only T.axis.spatial is free of that"
            )
            raise refuse_at(state, primitive, reason, sref, advice)
    for region in block.writes:
        used = variables_in(*[part.min for part in region.region])
        for variable in variables_in(*region.region):
            if kinds.get(variable) == IterVar.CommReduce:
                reason = (
                    f"reduction iterator '{variable.name}' of block '{name}' indexes the output"
                )
                raise refuse_at(state, primitive, reason, sref)
        for iterator in block.iter_vars:
            is_parallel = iterator.iter_type == IterVar.DataPar
            if is_parallel and iterator.var not in used and not is_const(iterator.dom.extent, 1):
                reason = (
                    f"block '{name}' writes the same elements of '{region.buffer.name}' "
                    f"for different '{iterator.var.name}'"
                )
                raise refuse_at(state, primitive, reason, sref)
        for read in block.reads:
            if read.buffer is region.buffer and not structural_equal(read, region):
                reason = (
                    f"block '{name}' reads other elements of '{read.buffer.name}' than it writes"
                )
                raise refuse_at(state, primitive, reason, sref)


def _with_kind(state: ScheduleState, sref: StmtSRef, kind: ForKind, binding: Any = None) -> None:
    loop: For = state.stmt(sref)
    if loop.kind is kind and binding is None:
        return
    state.replace(sref, loop.with_fields(kind=kind, thread_binding=binding))


def parallel(state: ScheduleState, sref: StmtSRef) -> None:
    """Run the iterations in parallel."""
    _check_independent(state, "parallel", sref)
    _with_kind(state, sref, ForKind.PARALLEL)


def vectorize(state: ScheduleState, sref: StmtSRef) -> None:
    """Run the iterations as lanes."""
    _check_independent(state, "vectorize", sref)
    loop: For = state.stmt(sref)
    for name, value in (("start", loop.min), ("extent", loop.extent)):
        if variables_in(value):
            raise refuse_at(
                state,
                "vectorize",
                f"the {name} of loop '{loop.loop_var.name}' is not constant",
                sref,
            )
    _with_kind(state, sref, ForKind.VECTORIZED)


def unroll(state: ScheduleState, sref: StmtSRef) -> None:
    """Unroll."""
    _with_kind(state, sref, ForKind.UNROLLED)


def bind(state: ScheduleState, sref: StmtSRef, thread_axis: str) -> None:
    """Bind a loop to a thread axis."""
    if thread_axis not in THREAD_AXES:
        near = difflib.get_close_matches(str(thread_axis), THREAD_AXES, n=1)
        raise refuse_at(
            state,
            "bind",
            f"'{thread_axis}' is no thread axis",
            sref,
            (f"did you mean '{near[0]}'? " if near else "")
            + f"thread axes: {', '.join(THREAD_AXES)}",
        )
    loop: For = state.stmt(sref)
    for ancestor in state.ancestors(sref):
        other = state.stmt(ancestor)
        if isinstance(other, For) and other.thread_binding is not None:
            if other.thread_binding.thread_tag == thread_axis and not _fills_shared_memory(
                state, sref, other.loop_var
            ):
                raise refuse_at(
                    state,
                    "bind",
                    f"an outer loop is bound to {thread_axis} already",
                    sref,
                    "take another axis, or split the loop that is bound",
                )
        if isinstance(other, For) and uses_var(loop.extent, other.loop_var):
            raise refuse_at(state, "bind", "the extent depends on an outer loop", sref)
    _check_bound_inside(state, sref, thread_axis)
    _check_independent(state, "bind", sref, thread_axis)
    variable = Var(thread_axis, loop.loop_var.dtype)
    domain = Range.from_min_extent(loop.min, loop.extent)
    axis = IterVar(domain, variable, IterVar.ThreadIndex, thread_axis)
    _with_kind(state, sref, ForKind.THREAD_BINDING, axis)


def _check_bound_inside(state: ScheduleState, sref: StmtSRef, thread_axis: str) -> None:
    """No loop inside is bound to the axis, unless to divide the filling of shared memory."""
    variable = state.stmt(sref).loop_var
    inside = list(state.child_srefs(sref))
    while inside:
        inner = inside.pop()
        stmt = state.stmt(inner)
        inside += state.child_srefs(inner)
        if not isinstance(stmt, For) or stmt.thread_binding is None:
            continue
        if stmt.thread_binding.thread_tag == thread_axis and not _fills_shared_memory(
            state, inner, variable
        ):
            reason = f"loop '{stmt.loop_var.name}' inside is bound to {thread_axis} already"
            raise refuse_at(state, "bind", reason, inner, "take another axis")


def _fills_shared_memory(state: ScheduleState, sref: StmtSRef, outer: Var) -> bool:
    """Whether the blocks below a loop do the same for each iteration of an outer one, in memory
    that threads share: then the threads of the outer loop may divide the work."""
    for below in state.blocks_below(sref):
        realize: BlockRealize = state.stmt(below)
        if any(uses_var(v, outer) for v in (*realize.iter_values, realize.predicate)):
            return False
        if not all(
            region.buffer.scope().startswith(("shared", "warp")) for region in realize.block.writes
        ):
            return False
    return True


def _with_annotations(state: ScheduleState, sref: StmtSRef, annotations: dict[str, Any]) -> None:
    stmt = state.stmt(sref)
    if isinstance(stmt, For):
        state.replace(sref, stmt.with_fields(annotations=annotations))
        return
    block = stmt.block.with_fields(annotations=annotations)
    state.replace(sref, stmt.with_fields(block=block), {stmt.block: block})


def _annotations(state: ScheduleState, sref: StmtSRef) -> dict[str, Any]:
    stmt = state.stmt(sref)
    return dict(stmt.annotations if isinstance(stmt, For) else stmt.block.annotations)


def annotate(state: ScheduleState, sref: StmtSRef, key: str, value: Any) -> None:
    """Set an annotation of a loop or block."""
    _with_annotations(state, sref, {**_annotations(state, sref), key: value})


def unannotate(state: ScheduleState, sref: StmtSRef, key: str) -> None:
    """Remove an annotation of a loop or block."""
    found = _annotations(state, sref)
    if key not in found:
        names = ", ".join(found) or "none"
        raise refuse_at(
            state, "unannotate", f"there is no annotation '{key}'", sref, f"annotations: {names}"
        )
    del found[key]
    _with_annotations(state, sref, found)

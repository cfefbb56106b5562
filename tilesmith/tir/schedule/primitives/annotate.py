"""Primitives that set how a loop runs (parallel, vectorized, unrolled, bound), and annotations."""

from __future__ import annotations

import difflib
from typing import Any

from tilesmith.ir import Range, Var, structural_equal
from tilesmith.ir.operators import is_const
from tilesmith.ir.queries import mentions, variables
from tilesmith.tir.expr import IterVar
from tilesmith.tir.schedule.blocks import has_affine_binding, scope_of
from tilesmith.tir.schedule.cursor import BlockCursor, Cursor, LoopCursor
from tilesmith.tir.schedule.errors import refuse
from tilesmith.tir.schedule.flags import is_covered
from tilesmith.tir.schedule.nests import iterator_values
from tilesmith.tir.schedule.parameters import AnnotationValue
from tilesmith.tir.schedule.primitive import primitive
from tilesmith.tir.stmt import For, ForKind

__all__ = ["annotate", "bind", "parallel", "unannotate", "unroll", "vectorize"]

THREAD_AXES = tuple(
    f"{kind}.{axis}" for kind in ("blockIdx", "threadIdx", "vthread") for axis in "xyz"
) + ("vthread",)


def _check_independent(cursor: LoopCursor, thread: str = "", as_lanes: bool = False) -> None:
    """Check that the iterations of a loop may run in any order: it drives data-parallel iterators
    only.

    A loop bound to ``threadIdx`` may drive a reduction: lowering combines across threads.
    """
    if not cursor.state.enable_check:
        return
    loop = cursor.stmt
    name = loop.loop_var.name
    is_single = is_const(loop.extent, 1)
    for block_cursor in cursor.blocks_below():
        realize = block_cursor.stmt
        block = realize.block
        if block.iter_vars:
            _check_own_elements(block_cursor)
            if not has_affine_binding(block_cursor, cursor) and (
                as_lanes or not _is_repeated(cursor, block_cursor)
            ):
                reason = f"the binding of block '{block.name_hint}' is not affine"
                raise refuse(reason, block_cursor)
        uses_loop = False
        for iterator, value in zip(block.iter_vars, iterator_values(block_cursor)):
            if not mentions(value, {loop.loop_var}):
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
            raise refuse(reason, cursor, advice)
        if block.iter_vars and not uses_loop and not is_single:
            _check_private(cursor, block_cursor)


def _is_repeated(cursor: LoopCursor, block_cursor: BlockCursor) -> bool:
    """Return whether the iterations of a loop redundantly compute the same elements: the outputs of
    the block are used inside the loop only, and each use reads elements that its own iteration has
    written.
    """
    inside = set(cursor.blocks_below())
    scope = scope_of(block_cursor)
    allocated = scope.block.alloc_buffers
    written = [region.buffer for region in block_cursor.block.writes]
    if any(buffer not in allocated for buffer in written):
        return False
    for other in scope.blocks_below():
        block = other.block
        reads = any(region.buffer in written for region in block.reads)
        writes = any(region.buffer in written for region in block.writes)
        if (reads or writes) and other not in inside:
            return False
        if other != block_cursor and (writes or (reads and not is_covered(other))):
            return False
    return True


def _check_private(cursor: LoopCursor, block_cursor: BlockCursor) -> None:
    """Check that the outputs of a block that every iteration of a loop recomputes are used in that
    iteration only.
    """
    inside = cursor.blocks_below()
    scope = scope_of(cursor)
    allocated = scope.block.alloc_buffers
    name = cursor.stmt.loop_var.name
    for region in block_cursor.block.writes:
        others = [other for other in scope.blocks_below() if other not in inside]
        used = [r.buffer for s in others for r in (*s.block.reads, *s.block.writes)]
        if region.buffer not in allocated or region.buffer in used:
            reason = (
                f"every iteration of loop '{name}' writes the same elements of "
                f"'{region.buffer.name}'"
            )
            raise refuse(reason, cursor)


def _check_own_elements(cursor: BlockCursor) -> None:
    """Check that different values of the data-parallel iterators write different elements, and that
    the block reads only the element of its output that it writes.
    """
    block = cursor.block
    name = block.name_hint
    kinds = {iterator.var: iterator.iter_type for iterator in block.iter_vars}
    for variable, kind in kinds.items():
        if kind not in (IterVar.DataPar, IterVar.CommReduce):
            reason = f"iterator '{variable.name}' of block '{name}' must keep its order"
            advice = (
                "its iterations may depend on each other; T.axis.spatial declares that they do not"
            )
            raise refuse(reason, cursor, advice)
    for region in block.writes:
        used = set(variables([part.min for part in region.region]))
        for variable in variables(region.region):
            if kinds.get(variable) == IterVar.CommReduce:
                reason = (
                    f"reduction iterator '{variable.name}' of block '{name}' indexes the output"
                )
                raise refuse(reason, cursor)
        for iterator in block.iter_vars:
            is_parallel = iterator.iter_type == IterVar.DataPar
            if is_parallel and iterator.var not in used and not is_const(iterator.domain.extent, 1):
                reason = (
                    f"block '{name}' writes the same elements of '{region.buffer.name}' "
                    f"for different '{iterator.var.name}'"
                )
                raise refuse(reason, cursor)
        for read in block.reads:
            if read.buffer is region.buffer and not structural_equal(read, region):
                reason = (
                    f"block '{name}' reads other elements of '{read.buffer.name}' than it writes"
                )
                raise refuse(reason, cursor)


def _with_kind(cursor: LoopCursor, kind: ForKind, binding: Any = None) -> None:
    loop = cursor.stmt
    if loop.kind is kind and binding is None:
        return
    cursor.replace(loop.with_fields(kind=kind, thread_binding=binding))


def _check_unbound(cursor: LoopCursor) -> None:
    """Check that no threads run the iterations of a loop already."""
    binding = cursor.stmt.thread_binding
    if binding is not None:
        raise refuse(
            f"loop '{cursor.stmt.loop_var.name}' is bound to {binding.thread_tag} already",
            cursor,
            "split the loop before it is bound, and take the part that each thread runs",
        )


@primitive()
def parallel(loop: LoopCursor) -> None:
    """Run the iterations of a loop in parallel.

    Refuses loops that are bound to threads, carry a reduction or dependence, or whose iterations
    write one element.
    """
    _check_unbound(loop)
    _check_independent(loop)
    _with_kind(loop, ForKind.PARALLEL)


@primitive()
def vectorize(loop: LoopCursor) -> None:
    """Run the iterations of a loop as lanes of vectors. Refuses as ``parallel`` does."""
    _check_unbound(loop)
    _check_independent(loop, as_lanes=True)
    stmt = loop.stmt
    for name, value in (("start", stmt.min), ("extent", stmt.extent)):
        if variables(value):
            raise refuse(f"the {name} of loop '{stmt.loop_var.name}' is not constant", loop)
    _with_kind(loop, ForKind.VECTORIZED)


@primitive()
def unroll(loop: LoopCursor) -> None:
    """Unroll a loop. Refuses loops that are bound to threads."""
    _check_unbound(loop)
    _with_kind(loop, ForKind.UNROLLED)


_TOGETHER = (
    "the threads may fill shared memory together if each runs every loop on the way equally often"
)


@primitive()
def bind(loop: LoopCursor, thread_axis: str) -> None:
    """Bind a loop to a thread axis ("blockIdx.x", "threadIdx.y", "vthread.x", ...)."""
    if thread_axis not in THREAD_AXES:
        near = difflib.get_close_matches(str(thread_axis), THREAD_AXES, n=1)
        raise refuse(
            f"'{thread_axis}' is not a thread axis",
            loop,
            (f"did you mean '{near[0]}'? " if near else "")
            + f"thread axes: {', '.join(THREAD_AXES)}",
        )
    stmt = loop.stmt
    for ancestor in loop.ancestors():
        other = ancestor.stmt
        if isinstance(other, For) and other.thread_binding is not None:
            if other.thread_binding.thread_tag == thread_axis and not _fills_shared_memory(
                loop, other.loop_var
            ):
                raise refuse(
                    f"an outer loop is bound to {thread_axis} already",
                    loop,
                    f"take another axis, or split the loop that is bound; {_TOGETHER}",
                )
        if isinstance(other, For) and mentions(stmt.extent, {other.loop_var}):
            raise refuse("the extent depends on an outer loop", loop)
    _check_bound_inside(loop, thread_axis)
    _check_independent(loop, thread_axis)
    variable = Var(thread_axis, stmt.loop_var.dtype)
    domain = Range.from_min_extent(stmt.min, stmt.extent)
    axis = IterVar(domain, variable, IterVar.ThreadIndex, thread_axis)
    _with_kind(loop, ForKind.THREAD_BINDING, axis)


def _check_bound_inside(cursor: LoopCursor, thread_axis: str) -> None:
    """Check that no inner loop is bound to the same axis, except to divide the filling of shared
    memory among the threads.
    """
    variable = cursor.stmt.loop_var
    inside = list(cursor.children())
    while inside:
        inner = inside.pop()
        inside += inner.children()
        if not isinstance(inner, LoopCursor):
            continue
        stmt = inner.stmt
        if stmt.thread_binding is None:
            continue
        if stmt.thread_binding.thread_tag == thread_axis and not _fills_shared_memory(
            inner, variable
        ):
            reason = f"loop '{stmt.loop_var.name}' inside is bound to {thread_axis} already"
            raise refuse(reason, inner, f"take another axis; {_TOGETHER}")


def _fills_shared_memory(cursor: LoopCursor, outer: Var) -> bool:
    """Return whether the blocks below a loop write the same shared memory in each iteration of an
    outer loop, so that the threads of the outer loop may divide the work. All of them have to come
    by: no loop on the way may take longer for some of them.
    """
    for ancestor in cursor.ancestors():
        stmt = ancestor.stmt
        if isinstance(stmt, For):
            if stmt.loop_var is outer:
                break
            if mentions(stmt.min, {outer}) or mentions(stmt.extent, {outer}):
                return False
    for below in cursor.blocks_below():
        realize = below.stmt
        if any(mentions(v, {outer}) for v in (*iterator_values(below), realize.predicate)):
            return False
        if not all(
            region.buffer.scope().startswith(("shared", "warp")) for region in realize.block.writes
        ):
            return False
    return True


def _with_annotations(cursor: Cursor, annotations: dict[str, Any]) -> None:
    stmt = cursor.stmt
    if isinstance(stmt, For):
        cursor.replace(stmt.with_fields(annotations=annotations))
        return
    block = stmt.block.with_fields(annotations=annotations)
    cursor.replace(stmt.with_fields(block=block), {stmt.block: block})


def _annotations(cursor: Cursor) -> dict[str, Any]:
    stmt = cursor.stmt
    return dict(stmt.annotations if isinstance(stmt, For) else stmt.block.annotations)


@primitive()
def annotate(block_or_loop: Cursor, ann_key: str, ann_val: AnnotationValue) -> None:
    """Set an annotation of a block or loop."""
    _with_annotations(block_or_loop, {**_annotations(block_or_loop), ann_key: ann_val})


@primitive()
def unannotate(block_or_loop: Cursor, ann_key: str) -> None:
    """Remove an annotation."""
    found = _annotations(block_or_loop)
    if ann_key not in found:
        names = ", ".join(found) or "none"
        raise refuse(f"there is no annotation '{ann_key}'", block_or_loop, f"annotations: {names}")
    del found[ann_key]
    _with_annotations(block_or_loop, found)

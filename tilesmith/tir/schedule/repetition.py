"""Finds loops that repeat a block, and the order that a repeated reduction needs.

A loop *repeats* a block if several of its iterations run the block for the same values of its
iterators, those aside on which the places of its results do not depend, as the loop of a consumer
under which compute_at has put the block:

    for i0 in range(3):                              for r, i0 in T.grid(2, 3):
        for r in range(2):                               B[0] = 0 if r == 0
            B[0] = 0 if r == 0                           B[0] += A[r]
            B[0] += A[r]                             B[0] is A[0] + 3 * A[1]
    B[0] is A[0] + A[1]

Outside of the reduction loops, each repetition starts anew. Inside of one, the updates of
a later iteration are counted repeatedly. So a loop that repeats a reduction and a loop that drives
it must keep their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tilesmith.arith import IterMapLevel, detect_iter_map
from tilesmith.ir import Var
from tilesmith.ir.operators import is_const
from tilesmith.ir.queries import nodes, variables
from tilesmith.tir.expr import IterVar
from tilesmith.tir.schedule.cursor import BlockCursor, LoopCursor
from tilesmith.tir.schedule.nests import iterator_values, loop_range
from tilesmith.tir.stmt import Block, BlockRealize, For

__all__ = [
    "ReductionLoops",
    "has_own_memory",
    "has_start",
    "reduction_loops",
    "repeats_updates",
    "runs_once",
    "without_idle_iterators",
]


def has_start(block: Block) -> bool:
    """Return whether a block, or one inside of it, initialises the result of its reduction."""
    if all(iterator.iter_type != IterVar.CommReduce for iterator in block.iter_vars):
        return False
    return block.init is not None or any(
        inner.init is not None for inner in nodes(block.body, Block)
    )


def runs_once(realize: BlockRealize, loops: Sequence[For]) -> bool:
    """Return whether loops certainly run a block at most once for the same values of its iterators,
    while the other loops stand still.
    """
    values = realize.iter_values
    left = _not_plain(realize, loops)
    used = set(variables(values))
    if not left or any(loop.loop_var not in used for loop in left):
        return not left
    ranges = {loop.loop_var: loop_range(loop) for loop in left}
    driven = [value for value in values if any(v in ranges for v in variables(value))]
    # Iterations that a condition leaves out repeat nothing; with it, the digits may be fewer.
    return any(
        detect_iter_map(driven, ranges, condition, IterMapLevel.Bijective).indices
        for condition in (True, realize.predicate)
    )


def _not_plain(realize: BlockRealize, loops: Sequence[For]) -> list[For]:
    """Return the loops of several iterations of which no iterator is the variable: that of the
    others tells the iteration.
    """
    plain = {value for value in realize.iter_values if isinstance(value, Var)}
    return [loop for loop in loops if loop.loop_var not in plain and not is_const(loop.extent, 1)]


class ReductionLoops(NamedTuple):
    """The roles of loops around a reduction block, each from the outermost to the innermost.

    Loops of one iteration have no role. ``driving``: drive a reduction iterator. ``both``: those of
    them that drive a data-parallel iterator as well. ``repeating``: drive no reduction iterator,
    and may repeat the block. ``is_ordered``: whether the driving loops themselves may repeat it.
    """

    driving: list[LoopCursor]
    both: list[LoopCursor]
    repeating: list[LoopCursor]
    is_ordered: bool


def _with_plain_values(cursor: BlockCursor) -> BlockRealize:
    """Return the realization of a block, values of lets written out in those of its iterators,
    without the iterators that do not matter.
    """
    realize: BlockRealize = cursor.stmt
    values = tuple(iterator_values(cursor))
    return without_idle_iterators(realize.with_fields(iter_values=values))


def without_idle_iterators(realize: BlockRealize) -> BlockRealize:
    """Return the realization of a reduction block without the data-parallel iterators that no place
    of its results depends on: for each of their values, the block updates the same elements.
    """
    block = realize.block
    used = set(variables(block.writes))
    kept = [
        (iterator, value)
        for iterator, value in zip(block.iter_vars, realize.iter_values)
        if iterator.iter_type != IterVar.DataPar or iterator.var in used
    ]
    if len(kept) == len(block.iter_vars):
        return realize
    iterators, values = [one for one, _ in kept], [value for _, value in kept]
    return realize.with_fields(
        iter_values=tuple(values), block=block.with_fields(iter_vars=tuple(iterators))
    )


def _driving_variables(realize: BlockRealize) -> tuple[set[Var], set[Var]]:
    """Return the variables that drive reduction iterators, and those that drive other iterators."""
    reduced: set[Var] = set()
    parallel: set[Var] = set()
    for iterator, value in zip(realize.block.iter_vars, realize.iter_values):
        is_reduction = iterator.iter_type == IterVar.CommReduce
        (reduced if is_reduction else parallel).update(variables(value))
    return reduced, parallel


def reduction_loops(cursor: BlockCursor, loops: Sequence[LoopCursor]) -> ReductionLoops:
    """Return the roles of loops around a block, as if those outside of them stood still."""
    realize = _with_plain_values(cursor)
    reduced, parallel = _driving_variables(realize)
    loops = [loop for loop in loops if not is_const(loop.stmt.extent, 1)]
    driving = [loop for loop in loops if loop.stmt.loop_var in reduced]
    both = [loop for loop in driving if loop.stmt.loop_var in parallel]
    others = [loop for loop in loops if loop.stmt.loop_var in parallel - reduced]
    idle = [loop for loop in loops if loop.stmt.loop_var not in parallel | reduced]
    others_repeat = is_ordered = False
    if not runs_once(realize, [loop.stmt for loop in (*driving, *others)]):
        others_repeat = not runs_once(realize, [loop.stmt for loop in others])
        is_ordered = not runs_once(realize, [loop.stmt for loop in driving])
        if not others_repeat and not is_ordered:
            others_repeat = is_ordered = True  # only all of them together may repeat it
    repeating = {loop for loop in idle if not has_own_memory(loop.stmt, realize.block)}
    if others_repeat:
        suspects = _not_plain(realize, [loop.stmt for loop in others])
        repeating.update([loop for loop in others if any(loop.stmt is one for one in suspects)])
    return ReductionLoops(driving, both, [loop for loop in loops if loop in repeating], is_ordered)


def has_own_memory(loop: For, block: Block) -> bool:
    """Return whether each iteration of a loop is a thread with memory of its own for what a block
    writes: then it repeats nothing.
    """
    binding = loop.thread_binding
    if binding is None or not binding.thread_tag.startswith(("threadIdx", "vthread")):
        return False
    scopes = [region.buffer.scope() for region in block.writes]
    return not any(scope.startswith(("global", "shared")) for scope in scopes)


def repeats_updates(cursor: BlockCursor) -> str:
    """Return the reason why a loop repeats the updates of a reduction without its start; "" if none
    does.
    """
    loops = cursor.loops()
    reduced, _ = _driving_variables(_with_plain_values(cursor))
    driving = (
        loop
        for loop in loops
        if loop.stmt.loop_var in reduced and not is_const(loop.stmt.extent, 1)
    )
    outermost = next(driving, None)
    if outermost is None:
        return ""
    inside = loops[loops.index(outermost) + 1 :]
    # Loops outside of the reduction do not matter: they repeat it as a whole.
    for loop in reduction_loops(cursor, inside).repeating:
        name, outer = loop.stmt.loop_var.name, outermost.stmt.loop_var.name
        return f"loop '{name}' repeats its updates inside of its reduction loop '{outer}'"
    return ""

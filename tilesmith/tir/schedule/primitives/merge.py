"""Defines merge, which merges adjacent loop nests into one.

An iteration of the merged loops runs what all of the nests did in it, one after the other. So what
one nest does in an iteration must not depend on what another one did in other iterations: buffers
that both use, and one writes, are divided among the iterations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.arith import Analyzer, eval_set
from tilesmith.ir import PrimExpr, Range, Var, const
from tilesmith.ir.operators import is_const
from tilesmith.ir.queries import nodes
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.functor import Substitution
from tilesmith.tir.schedule.cursor import BlockCursor, LoopCursor
from tilesmith.tir.schedule.errors import refuse
from tilesmith.tir.schedule.nests import analyzer_for, loop_range, parent_of
from tilesmith.tir.schedule.primitive import primitive
from tilesmith.tir.schedule.primitives.copies import bound_region
from tilesmith.tir.schedule.primitives.domains import scale_of
from tilesmith.tir.schedule.primitives.loops import check_plain
from tilesmith.tir.schedule.state import child_statements
from tilesmith.tir.stmt import For, SeqStmt, Stmt, stmt_seq

__all__ = ["merge"]


@primitive()
def merge(*loops: LoopCursor) -> LoopCursor:
    """Merge several consecutive loops into one whose body runs theirs in order.

    Refuses loops of different kinds or extents, and nests of which one uses in an iteration
    what another one writes in other iterations.
    """
    if len(loops) < 2:
        raise refuse("at least two loops are needed")
    levels = _levels(loops)
    for level in levels:
        _check_same_loops(level)
    outer = levels[0]
    around = parent_of(outer[0]).stmt
    siblings = child_statements(around)
    positions = [next(k for k, s in enumerate(siblings) if s is o.stmt) for o in outer]
    consecutive = positions == list(range(positions[0], positions[0] + len(outer)))
    if not consecutive or not _in_one_sequence(around, [cursor.stmt for cursor in outer]):
        reason = "the loops are not directly consecutive"
        raise refuse(reason, outer[0])
    _check_dependences(levels)
    _merge_nests(levels)
    return loops[0]


def _in_one_sequence(around: Stmt, loops: Sequence[Stmt]) -> bool:
    """Return whether no statement, as a condition or a declaration, is around some loops only."""
    return any(
        all(any(part is loop for part in sequence.seq) for loop in loops)
        for sequence in nodes(around, SeqStmt)
    )


def _levels(cursors: Sequence[LoopCursor]) -> list[list[LoopCursor]]:
    """Return the loops to merge, and their ancestors up to the common one, outermost first."""
    levels = [list(cursors)]
    while True:
        parents = [cursor.parent() for cursor in levels[0]]
        if all(parent == parents[0] for parent in parents):
            return levels
        above: list[LoopCursor] = []
        for cursor, parent in zip(levels[0], parents):
            if len(set(parents)) < len(parents) or not isinstance(parent, LoopCursor):
                raise refuse("the loops are not in adjacent nests at the same depth", cursor)
            if parent.stmt.body is not cursor.stmt:
                reason = f"loop '{parent.stmt.loop_var.name}' holds other statements too"
                raise refuse(reason, cursor)
            above.append(parent)
        levels.insert(0, above)


def _check_same_loops(cursors: Sequence[LoopCursor]) -> None:
    """Check that loops have one kind and extent."""
    loops: list[For] = [check_plain(cursor) for cursor in cursors]
    analyzer = analyzer_for(cursors[0])
    for loop, cursor in zip(loops[1:], cursors[1:]):
        same = loop.kind is loops[0].kind
        if not same or not analyzer.can_prove_equal(loop.extent, loops[0].extent):
            raise refuse("the loops differ in kind or extent", cursor)


def _merge_nests(levels: list[list[LoopCursor]]) -> None:
    """Append the bodies of the innermost loops to the first nest, and remove the other nests."""
    kept: list[For] = [level[0].stmt for level in levels]
    bodies, reuse = [kept[-1].body], {}
    for number in range(1, len(levels[0])):
        nest: list[For] = [level[number].stmt for level in levels]
        replace = Substitution({own.loop_var: one.loop_var for own, one in zip(nest, kept)})
        bodies.append(replace.visit(nest[-1].body))
        reuse.update(replace.reuse)
    merged: Any = stmt_seq(*bodies)
    for loop in reversed(kept):
        merged = loop.with_fields(body=merged)
    for cursor in levels[0][1:]:
        _remove(cursor)
    levels[0][0].replace(merged, reuse)


def _remove(cursor: LoopCursor) -> None:
    cursor.replace(stmt_seq(), {})


def _check_dependences(levels: list[list[LoopCursor]]) -> None:
    """Check that no iteration of a nest uses elements that another nest writes in other
    iterations.
    """
    nests = [list(cursor.blocks_below()) for cursor in levels[0]]
    for buffer, users in _shared_buffers(nests):
        for level in levels:
            if is_const(level[0].stmt.extent, 1):
                continue
            parts = [
                part
                for number, cursor in users
                for part in _touched(buffer, level, number, cursor, levels[0][number])
            ]
            if not _is_divided(buffer, level[0].stmt, parts):
                name = level[0].stmt.loop_var.name
                reason = (
                    f"a block of one loop uses what a block of another one writes, and iterations "
                    f"of '{name}' do not keep to their own part of '{buffer.name}'"
                )
                raise refuse(reason, users[-1][1])


def _shared_buffers(
    nests: Sequence[Sequence[BlockCursor]],
) -> list[tuple[Buffer, list[tuple[int, BlockCursor]]]]:
    """Return the buffers that several nests use and at least one writes, each with its users and
    their nests.
    """
    users: dict[Buffer, dict[tuple[int, BlockCursor], bool]] = {}
    for number, nest in enumerate(nests):
        for cursor in nest:
            block = cursor.block
            for region in (*block.reads, *block.writes):
                users.setdefault(region.buffer, {}).setdefault((number, cursor), False)
            for region in block.writes:
                users[region.buffer][number, cursor] = True
    return [
        (buffer, list(found))
        for buffer, found in users.items()
        if any(found.values()) and len({number for number, _ in found}) > 1
    ]


_Ends = tuple[PrimExpr, PrimExpr] | None  # the first and last index in one dimension, if known


def _is_divided(buffer: Buffer, loop: For, parts: list[list[_Ends]]) -> bool:
    """Return whether the iterations of one of the merged loops access disjoint parts of a buffer:
    in some dimension they stay within ``[v * c + d, v * c + d + c)``.
    """
    variable = loop.loop_var
    analyzer = Analyzer()
    analyzer.bind(variable, loop_range(loop))
    for axis in range(len(buffer.shape)):
        ends = [end for part in parts if (end := part[axis]) is not None]
        if len(ends) < len(parts):
            continue
        scale = scale_of(analyzer, ends[0][0], variable)
        if scale is None:
            continue
        factor, offset = scale
        low = variable * factor + offset
        if all(
            analyzer.can_prove(one >= low) and analyzer.can_prove(other < low + factor)
            for one, other in ends
        ):
            return True
    return False


def _touched(
    buffer: Buffer, level: list[LoopCursor], number: int, cursor: BlockCursor, outermost: LoopCursor
) -> list[list[_Ends]]:
    """Return, by region of a block and by dimension, the first and last index in an iteration of
    its merged loop, in terms of the variable of the first loop.
    """
    own, common = level[number].stmt.loop_var, level[0].stmt.loop_var
    others: dict[Var, Range] = {}
    for ancestor in cursor.ancestors():
        loop = ancestor.stmt
        if not isinstance(loop, For):
            break
        if loop.loop_var is not own:
            others[loop.loop_var] = loop_range(loop)
        if ancestor == outermost:
            break
    rename = Substitution({own: common})
    realize = cursor.stmt
    found = []
    for region in (*realize.block.reads, *realize.block.writes):
        if region.buffer is not buffer:
            continue
        ends: list[_Ends] = []
        for part in bound_region(realize, region):
            last = part.min + part.extent - const(1, part.min.dtype)
            below, above = eval_set(part.min, others), eval_set(last, others)
            if not (below.has_lower_bound() and above.has_upper_bound()):
                ends.append(None)
                continue
            ends.append((rename.visit(below.min_value), rename.visit(above.max_value)))
        found.append(ends)
    return found

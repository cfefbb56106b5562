"""merge: nests beside each other become one nest, iteration by iteration.

An iteration of the merged loops runs what all of the nests did in it, one after the other. So what
one nest does in an iteration must not depend on what another one did in other iterations: buffers
that both use, and one writes, are divided among the iterations.
"""

from __future__ import annotations

from typing import Any

from tilesmith.arith import Analyzer, eval_set
from tilesmith.ir import PrimExpr, Range, Var, const
from tilesmith.ir.operators import is_const
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.schedule.errors import refuse
from tilesmith.tir.schedule.primitives.common import (
    Replace,
    analyzer_for,
    loop_range,
    refuse_at,
)
from tilesmith.tir.schedule.primitives.copies import bound_region
from tilesmith.tir.schedule.primitives.domains import scale_of
from tilesmith.tir.schedule.primitives.loops import check_plain
from tilesmith.tir.schedule.state import ScheduleState, StmtSRef, child_statements
from tilesmith.tir.stmt import BlockRealize, For, stmt_seq

__all__ = ["merge"]


def merge(state: ScheduleState, srefs: list[StmtSRef]) -> StmtSRef:
    """Merge loops of sibling nests into one; see ``Schedule.merge``."""
    if len(srefs) < 2:
        raise refuse("merge", "at least two loops are needed")
    levels = _levels(state, srefs)
    for level in levels:
        _check_same_loops(state, level)
    outer = levels[0]
    siblings = child_statements(state.stmt(state.parent(outer[0])))
    positions = [next(k for k, s in enumerate(siblings) if s is state.stmt(o)) for o in outer]
    if positions != list(range(positions[0], positions[0] + len(outer))):
        reason = "the loops do not stand right one after the other"
        raise refuse_at(state, "merge", reason, outer[0])
    _check_dependences(state, levels)
    _merge_nests(state, levels)
    return srefs[0]


def _levels(state: ScheduleState, srefs: list[StmtSRef]) -> list[list[StmtSRef]]:
    """The loops to merge and those around them up to where the nests part, outermost first."""
    levels = [list(srefs)]
    while True:
        parents = [state.parent(sref) for sref in levels[0]]
        if all(parent is parents[0] for parent in parents):
            return levels
        for sref, parent in zip(levels[0], parents):
            above = None if parent is None else state.stmt(parent)
            if len(set(parents)) < len(parents) or not isinstance(above, For):
                raise refuse_at(state, "merge", "the loops do not stand side by side", sref)
            if above.body is not state.stmt(sref):
                reason = f"loop '{above.loop_var.name}' holds other statements too"
                raise refuse_at(state, "merge", reason, sref)
        levels.insert(0, parents)  # type: ignore[arg-type]


def _check_same_loops(state: ScheduleState, srefs: list[StmtSRef]) -> None:
    """Loops of one kind and extent."""
    loops: list[For] = [check_plain(state, "merge", sref) for sref in srefs]
    analyzer = analyzer_for(state, srefs[0])
    for loop, sref in zip(loops[1:], srefs[1:]):
        same = loop.kind is loops[0].kind
        if not same or not analyzer.can_prove_equal(loop.extent, loops[0].extent):
            raise refuse_at(state, "merge", "the loops differ in kind or extent", sref)


def _merge_nests(state: ScheduleState, levels: list[list[StmtSRef]]) -> None:
    """Put what the innermost loops hold into the first of them, and drop the other nests."""
    kept: list[For] = [state.stmt(level[0]) for level in levels]
    bodies, reuse = [kept[-1].body], {}
    for number in range(1, len(levels[0])):
        nest: list[For] = [state.stmt(level[number]) for level in levels]
        replace = Replace({own.loop_var: one.loop_var for own, one in zip(nest, kept)})
        bodies.append(replace.visit(nest[-1].body))
        reuse.update(replace.reuse)
    merged: Any = stmt_seq(*bodies)
    for loop in reversed(kept):
        merged = loop.with_fields(body=merged)
    for sref in levels[0][1:]:
        _remove(state, sref)
    state.replace(levels[0][0], merged, reuse)


def _remove(state: ScheduleState, sref: StmtSRef) -> None:
    state.replace(sref, stmt_seq(), {})


def _check_dependences(state: ScheduleState, levels: list[list[StmtSRef]]) -> None:
    """No iteration of a nest may use what another nest writes in other iterations."""
    nests = [list(state.blocks_below(sref)) for sref in levels[0]]
    for buffer, users in _shared_buffers(state, nests):
        for level in levels:
            if is_const(state.stmt(level[0]).extent, 1):
                continue
            parts = [
                part
                for number, sref in users
                for part in _touched(state, buffer, level, number, sref, levels[0][number])
            ]
            if not _is_divided(buffer, state.stmt(level[0]), parts):
                name = state.stmt(level[0]).loop_var.name
                reason = (
                    f"a block of one loop uses what a block of another one writes, and iterations "
                    f"of '{name}' do not keep to their own part of '{buffer.name}'"
                )
                raise refuse_at(state, "merge", reason, users[-1][1])


def _shared_buffers(
    state: ScheduleState, nests: list[list[StmtSRef]]
) -> list[tuple[Buffer, list[tuple[int, StmtSRef]]]]:
    """The buffers that several nests use and one writes, each with its users and their nests."""
    users: dict[Buffer, dict[tuple[int, StmtSRef], bool]] = {}
    for number, nest in enumerate(nests):
        for sref in nest:
            block = state.stmt(sref).block
            for region in (*block.reads, *block.writes):
                users.setdefault(region.buffer, {}).setdefault((number, sref), False)
            for region in block.writes:
                users[region.buffer][number, sref] = True
    return [
        (buffer, list(found))
        for buffer, found in users.items()
        if any(found.values()) and len({number for number, _ in found}) > 1
    ]


_Ends = tuple[PrimExpr, PrimExpr] | None  # the first and last index in one dimension, if known


def _is_divided(buffer: Buffer, loop: For, parts: list[list[_Ends]]) -> bool:
    """Whether iterations of one of the merged loops touch parts of a buffer that are apart: in some
    dimension they stay within ``[v * c + d, v * c + d + c)``."""
    variable = loop.loop_var
    analyzer = Analyzer()
    analyzer.bind(variable, loop_range(loop))
    for axis in range(len(buffer.shape)):
        ends = [part[axis] for part in parts]
        if any(end is None for end in ends):
            continue
        scale = scale_of(analyzer, ends[0][0], variable)  # type: ignore[index]
        if scale is None:
            continue
        factor, offset = scale
        low = variable * factor + offset
        if all(
            analyzer.can_prove(one >= low) and analyzer.can_prove(other < low + factor)
            for one, other in ends  # type: ignore[misc]
        ):
            return True
    return False


def _touched(
    state: ScheduleState,
    buffer: Buffer,
    level: list[StmtSRef],
    number: int,
    sref: StmtSRef,
    outermost: StmtSRef,
) -> list[list[_Ends]]:
    """By region of a block and by dimension, the first and last index in an iteration of its merged
    loop, in terms of the variable of the first one."""
    own, common = state.stmt(level[number]).loop_var, state.stmt(level[0]).loop_var
    others: dict[Var, Range] = {}
    for ancestor in state.ancestors(sref):
        loop: For = state.stmt(ancestor)
        if loop.loop_var is not own:
            others[loop.loop_var] = loop_range(loop)
        if ancestor is outermost:
            break
    rename = Replace({own: common})
    realize: BlockRealize = state.stmt(sref)
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

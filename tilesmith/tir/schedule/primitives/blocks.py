"""Finding blocks, and what is known about them: dependences, completeness, affine bindings.

Definitions. A block is *dominant* in its scope if it is the only one there that writes its output
buffers. A *complete* block is dominant, has data-parallel iterators only, and reads nothing that it
writes. A *reduction* block is dominant, has an ``init``, data-parallel and reduction iterators, and
its output indices do not use the latter. A binding is *affine* if the values of the iterators are
independent quasi-affine combinations of the loops around the block.
"""

from __future__ import annotations

from tilesmith.arith import find_iter_map
from tilesmith.arith.pattern import conjuncts
from tilesmith.ir import GlobalVar, PrimExpr, const
from tilesmith.ir.operators import all_of, is_const
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import IterVar
from tilesmith.tir.schedule.errors import refuse
from tilesmith.tir.schedule.primitives.common import (
    analyzer_for,
    clauses,
    domain_of_loops,
    loop_range,
    program_of,
    refuse_at,
    variables_in,
)
from tilesmith.tir.schedule.state import ScheduleState, StmtSRef
from tilesmith.tir.stmt import Block, BlockRealize, For

__all__ = [
    "check_complete_or_reduction",
    "consumers_of",
    "get_block",
    "get_consumers",
    "get_output_blocks",
    "get_producers",
    "has_affine_binding",
    "producers_of",
    "scope_blocks",
    "scope_of",
]


NOT_AFFINE = "its binding is not affine"


def get_block(state: ScheduleState, name: str, variable: GlobalVar) -> StmtSRef:
    """The only block of that name in a function."""
    found = state.find_blocks(name, variable)
    if len(found) == 1:
        return found[0]
    function = state.function_state(variable).function
    if found:
        raise refuse(
            "get_block",
            f"{len(found)} blocks of '{variable.name_hint}' are called '{name}'",
            function,
            None,
            "give each block a name of its own, or take it by get_child_blocks",
        )
    import difflib

    names = [
        stmt.block.name_hint  # type: ignore[attr-defined]
        for stmt in state.function_state(variable).stmt_of.values()
        if isinstance(stmt, BlockRealize)
    ]
    near = difflib.get_close_matches(name, names, n=1)
    advice = f"did you mean '{near[0]}'?" if near else "blocks: " + ", ".join(sorted(set(names)))
    raise refuse(
        "get_block", f"'{variable.name_hint}' has no block '{name}'", function, None, advice
    )


def scope_of(state: ScheduleState, sref: StmtSRef, primitive: str) -> StmtSRef:
    """The block around a loop or block."""
    scope = state.scope(sref)
    if scope is None:
        raise refuse_at(state, primitive, "the root block cannot be moved or changed so", sref)
    return scope


def scope_blocks(state: ScheduleState, scope: StmtSRef) -> list[StmtSRef]:
    """The blocks right inside of a scope in order of the program."""
    return state.blocks_below(scope)


def read_buffers(block: Block) -> list[Buffer]:
    """The buffers that a block reads."""
    return [region.buffer for region in block.reads]


def written_buffers(block: Block) -> list[Buffer]:
    """The buffers that a block writes."""
    return [region.buffer for region in block.writes]


def producers_of(state: ScheduleState, sref: StmtSRef, scope: StmtSRef) -> list[StmtSRef]:
    """The blocks of a scope before this one that write what it reads."""
    reads = {id(buffer) for buffer in read_buffers(state.stmt(sref).block)}
    found = []
    for other in scope_blocks(state, scope):
        if other is sref:
            break
        if any(id(buffer) in reads for buffer in written_buffers(state.stmt(other).block)):
            found.append(other)
    return found


def consumers_of(state: ScheduleState, sref: StmtSRef, scope: StmtSRef) -> list[StmtSRef]:
    """The blocks of a scope after this one that read what it writes."""
    writes = {id(buffer) for buffer in written_buffers(state.stmt(sref).block)}
    found, after = [], False
    for other in scope_blocks(state, scope):
        if other is sref:
            after = True
        elif after and any(
            id(buffer) in writes for buffer in read_buffers(state.stmt(other).block)
        ):
            found.append(other)
    return found


def get_producers(state: ScheduleState, sref: StmtSRef) -> list[StmtSRef]:
    """The producers of a block in its scope."""
    return producers_of(state, sref, scope_of(state, sref, "get_producers"))


def get_consumers(state: ScheduleState, sref: StmtSRef) -> list[StmtSRef]:
    """The consumers of a block in its scope."""
    return consumers_of(state, sref, scope_of(state, sref, "get_consumers"))


def get_output_blocks(state: ScheduleState, scope: StmtSRef) -> list[StmtSRef]:
    """The blocks inside of a scope that write buffers from outside of it."""
    inside = {id(buffer) for buffer in state.stmt(scope).block.alloc_buffers}
    return [
        sref
        for sref in scope_blocks(state, scope)
        if any(id(buffer) not in inside for buffer in written_buffers(state.stmt(sref).block))
    ]


def is_output_block(state: ScheduleState, sref: StmtSRef, scope: StmtSRef) -> bool:
    """Whether a block writes a buffer from outside of its scope."""
    inside = {id(buffer) for buffer in state.stmt(scope).block.alloc_buffers}
    return any(id(buffer) not in inside for buffer in written_buffers(state.stmt(sref).block))


def is_dominant(state: ScheduleState, sref: StmtSRef, scope: StmtSRef) -> bool:
    """Whether no other block of the scope writes the outputs of this one."""
    outputs = {id(buffer) for buffer in written_buffers(state.stmt(sref).block)}
    for other in scope_blocks(state, scope):
        if other is not sref:
            if any(id(buffer) in outputs for buffer in written_buffers(state.stmt(other).block)):
                return False
    return True


def why_not_complete(state: ScheduleState, sref: StmtSRef, scope: StmtSRef) -> str:
    """Empty for a complete block, else the reason why it is none."""
    block = state.stmt(sref).block
    for iterator in block.iter_vars:
        if iterator.iter_type != IterVar.DataPar:
            return f"iterator '{iterator.var.name}' is not data-parallel"
    written = {id(buffer) for buffer in written_buffers(block)}
    for buffer in read_buffers(block):
        if id(buffer) in written:
            return f"it reads and writes buffer '{buffer.name}'"
    if not is_dominant(state, sref, scope):
        return "another block of the scope writes the same buffer"
    return ""


def why_not_reduction(state: ScheduleState, sref: StmtSRef, scope: StmtSRef) -> str:
    """Empty for a reduction block, else the reason why it is none."""
    block = state.stmt(sref).block
    if block.init is None:
        return "it has no T.init()"
    reduction = set()
    for iterator in block.iter_vars:
        if iterator.iter_type == IterVar.CommReduce:
            reduction.add(iterator.var)
        elif iterator.iter_type != IterVar.DataPar:
            return f"iterator '{iterator.var.name}' is neither data-parallel nor a reduction"
    for region in block.writes:
        for variable in variables_in(*region.region):
            if variable in reduction:
                return (
                    f"reduction iterator '{variable.name}' indexes the output "
                    f"'{region.buffer.name}'"
                )
    if not is_dominant(state, sref, scope):
        return "another block of the scope writes the same buffer"
    return "" if has_affine_binding(state, sref) else NOT_AFFINE


def check_complete_or_reduction(
    state: ScheduleState, sref: StmtSRef, scope: StmtSRef, primitive: str
) -> None:
    """Refuse a block that is neither complete nor a reduction."""
    first = why_not_complete(state, sref, scope)
    if not first:
        return
    second = why_not_reduction(state, sref, scope)
    if second:
        name = state.stmt(sref).block.name_hint
        raise refuse_at(
            state,
            primitive,
            f"block '{name}' is neither complete ({first}) nor a reduction block ({second})",
            sref,
        )


def has_affine_binding(state: ScheduleState, sref: StmtSRef, top: StmtSRef | None = None) -> bool:
    """Whether the iterators of a block are independent affine functions of the loops around it.

    ``top``: it is enough if they are so where the loops outside of this one are constants.
    """
    realize: BlockRealize = state.stmt(sref)
    loops = state.loops(sref)
    if not realize.iter_values:
        return True
    if _trivially_affine(state, realize, loops):
        return True
    if top is not None and has_affine_binding(state, sref):
        return True
    domain = domain_of_loops(state, loops)
    predicate = realize.predicate
    if top is not None and top in loops:
        domain = domain_of_loops(state, loops[loops.index(top) :])
        # what asks about the loops outside only is a constant here
        parts = [
            part
            for part in conjuncts(predicate)
            if any(variable in domain for variable in variables_in(part))
        ]
        predicate = all_of(*parts)
    values = list(realize.iter_values)
    if find_iter_map(values, domain, predicate).indices:
        return True
    # What is independent without the condition is so for the iterations that it leaves.
    return bool(find_iter_map(values, domain).indices)


def _trivially_affine(state: ScheduleState, realize: BlockRealize, loops: list[StmtSRef]) -> bool:
    """The frequent case: each iterator is bound to a loop of its own, or to a constant."""
    free = {state.stmt(sref).loop_var for sref in loops}
    for value in realize.iter_values:
        if value in free:
            free.discard(value)
        elif not isinstance(value, type(const(0))):
            return False
    return True


def check_covers_domain(state: ScheduleState, primitive: str, sref: StmtSRef) -> None:
    """The condition of a block only cuts off iterations outside of its iterators' ranges.

    A condition that leaves out values of the iterators would be lost with the loops.
    """
    clause = own_condition(state, sref)
    if clause is not None:
        name = state.stmt(sref).block.name_hint
        reason = f"block '{name}' runs under a condition of its own: {clause}"
        raise refuse_at(state, primitive, reason, sref)


def own_condition(state: ScheduleState, sref: StmtSRef) -> PrimExpr | None:
    """A condition of a block that leaves out values of its iterators; None if there is none."""
    realize: BlockRealize = state.stmt(sref)
    if is_const(realize.predicate, 1):
        return None
    analyzer = analyzer_for(state, sref)
    within = []
    for iterator, value in zip(realize.block.iter_vars, realize.iter_values):
        within += [value >= iterator.dom.min, value < iterator.dom.min + iterator.dom.extent]
    for clause in clauses(realize.predicate):
        with analyzer.constraint_scope(all_of(*within) if within else const(True, "bool")):
            if not analyzer.can_prove(clause):
                return clause
    return None


def check_inputs_stay(
    state: ScheduleState, primitive: str, sref: StmtSRef, scope: StmtSRef
) -> None:
    """No producer of a block that shares a loop with it overwrites what it has written: then the
    block finds its inputs at no other place."""
    loops = set(state.loops(sref))
    name = state.stmt(sref).block.name_hint
    for producer in producers_of(state, sref, scope):
        block: Block = state.stmt(producer).block
        ordered = any(
            i.iter_type not in (IterVar.DataPar, IterVar.CommReduce) for i in block.iter_vars
        )
        if ordered and loops.intersection(state.loops(producer)):
            reason = (
                f"block '{name}' reads what '{block.name_hint}' writes, which holds for the same "
                "iteration only"
            )
            raise refuse_at(state, primitive, reason, producer)


def check_inputs_last(
    state: ScheduleState, primitive: str, sref: StmtSRef, scope: StmtSRef, later: list[StmtSRef]
) -> None:
    """What a block reads is still the same when some later blocks run."""
    check_inputs_stay(state, primitive, sref, scope)
    blocks = scope_blocks(state, scope)
    block: Block = state.stmt(sref).block
    reads = {id(buffer) for buffer in read_buffers(block)}
    end = max([blocks.index(other) for other in later], default=0)
    for other in blocks[blocks.index(sref) + 1 : end + 1]:
        passed: Block = state.stmt(other).block
        if any(id(buffer) in reads for buffer in written_buffers(passed)):
            reason = (
                f"block '{passed.name_hint}' writes what it reads, "
                f"and block '{block.name_hint}' would pass it"
            )
            raise refuse_at(state, primitive, reason, other)


def ranges_between(state: ScheduleState, sref: StmtSRef, outer: StmtSRef) -> dict:
    """The ranges of the loops around ``sref`` that are strictly inside of ``outer``."""
    ranges = {}
    for ancestor in state.ancestors(sref):
        if ancestor is outer:
            break
        stmt = state.stmt(ancestor)
        if isinstance(stmt, For):
            ranges[stmt.loop_var] = loop_range(stmt)
    return ranges


__all__ += [
    "check_covers_domain",
    "check_inputs_last",
    "check_inputs_stay",
    "own_condition",
    "program_of",
    "ranges_between",
]

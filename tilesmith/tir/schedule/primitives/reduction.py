"""Defines decompose_reduction, which splits a reduction into its start and its updates."""

from __future__ import annotations

from collections.abc import Sequence

from tilesmith.ir import PrimExpr, Var, const
from tilesmith.ir.operators import all_of, is_const
from tilesmith.ir.queries import conjuncts, mentions, variables
from tilesmith.tir.analysis import get_block_access_region
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferRegion, IterVar
from tilesmith.tir.functor import Substitution
from tilesmith.tir.queries import loads, uses_variable
from tilesmith.tir.schedule.blocks import check_reduction_starts, scope_of, why_not_reduction
from tilesmith.tir.schedule.cursor import BlockCursor, LoopCursor
from tilesmith.tir.schedule.errors import refuse
from tilesmith.tir.schedule.nests import (
    iterator_values,
    without_views,
)
from tilesmith.tir.schedule.primitive import primitive
from tilesmith.tir.schedule.repetition import (
    has_own_memory,
    runs_once,
    without_idle_iterators,
)
from tilesmith.tir.stmt import (
    Block,
    BlockRealize,
    For,
    Stmt,
    stmt_seq,
)

__all__ = ["add_allocation", "decompose_reduction", "with_block"]


@primitive()
def decompose_reduction(block: BlockCursor, loop: LoopCursor) -> BlockCursor:
    """Split a reduction block into an initialisation, inserted before ``loop``, and an update.

    Gives the block of the initialisation.
    """
    realize = block.stmt
    node = realize.block
    scope = scope_of(block)
    reason = why_not_reduction(block, scope)
    if reason:
        raise refuse(
            f"block '{node.name_hint}' is not a reduction block: {reason}",
            block,
            "only a block with T.init() can be split into an initialisation and an update",
        )
    loops = block.loops()
    if loop not in loops:
        raise refuse(f"the loop is not an ancestor of block '{node.name_hint}'", loop)
    inside = loops[loops.index(loop) :]
    bound = realize.with_fields(iter_values=iterator_values(block))
    check_reduction_starts(block)
    _check_no_repetition(without_idle_iterators(bound), inside)
    _check_no_outer_reduction(bound, loops[: loops.index(loop)], loop)
    _check_start_is_known(block, loop)
    init_nest, init_block = _init_nest(bound, inside)
    reads = [*node.writes, *[one for one in node.reads if not _is_of_init(one.buffer, node)]]
    update = Block(
        node.iter_vars, reads, node.writes, node.name_hint + "_update", node.body, None,
        node.alloc_buffers, node.match_buffers, node.annotations, node.span,
    )  # fmt: skip
    replaced = with_block(loop.stmt, realize, realize.with_fields(block=update))
    loop.replace(stmt_seq(init_nest, replaced), {node: update})
    return loop.block_of(init_block)


def _is_of_init(buffer: Buffer, block: Block) -> bool:
    """Return whether only the initialisation of a block reads a buffer."""
    if block.init is None or any(match.source.buffer is buffer for match in block.match_buffers):
        return False
    pointers = {buffer.data}
    return uses_variable(block.init, pointers) and not uses_variable(block.body, pointers)


def _check_start_is_known(block: BlockCursor, loop: LoopCursor) -> None:
    """Check that what a reduction starts from is computed before the chosen loop."""
    init = block.block.init
    read = [] if init is None else [load.buffer for load in loads(init)]
    for other in loop.blocks_below():
        written = [region.buffer for region in other.block.writes]
        if other != block and any(buffer in read for buffer in written):
            raise refuse(
                f"the init of block '{block.block.name_hint}' reads what block "
                f"'{other.block.name_hint}' writes inside of loop '{loop.stmt.loop_var.name}'",
                loop,
                "choose a loop inside of which only the reduction stands",
            )


def with_block(stmt: Stmt, old: BlockRealize, new: BlockRealize) -> Stmt:
    """Return a statement with one block replaced."""
    if stmt is old:
        return new
    if isinstance(stmt, BlockRealize):
        return stmt
    return stmt.map_children(
        lambda child: with_block(child, old, new) if isinstance(child, Stmt) else child
    )


def _check_no_repetition(realize: BlockRealize, inside: Sequence[LoopCursor]) -> None:
    """Check that no loop from the chosen one inwards merely repeats the block: its results would
    accumulate repeatedly.
    """
    driving = set(variables(realize.iter_values))
    inside = [one for one in inside if not has_own_memory(one.stmt, realize.block)]
    for cursor in inside:
        loop = cursor.stmt
        if loop.loop_var not in driving and not is_const(loop.extent, 1):
            raise refuse(
                f"loop '{loop.loop_var.name}' repeats block '{realize.block.name_hint}', which "
                "has to be initialised each time",
                cursor,
                "decompose at a loop inside of it",
            )
    if not runs_once(realize, [cursor.stmt for cursor in inside]):
        raise refuse(
            f"block '{realize.block.name_hint}' may run several times for the same values of its "
            f"iterators, and has to be initialised each time",
            inside[0],
            "decompose at a loop further in",
        )


def _check_no_outer_reduction(
    realize: BlockRealize, outer: Sequence[LoopCursor], loop_cursor: LoopCursor
) -> None:
    """Check that no loop outside the chosen one drives a reduction: the result would be initialised
    repeatedly.
    """
    for cursor in outer:
        variable = cursor.stmt.loop_var
        for iterator, value in zip(realize.block.iter_vars, realize.iter_values):
            if iterator.iter_type == IterVar.CommReduce and mentions(value, {variable}):
                raise refuse(
                    f"loop '{variable.name}' carries the reduction iterator "
                    f"'{iterator.var.name}' and is outside of "
                    f"loop '{loop_cursor.stmt.loop_var.name}'",
                    cursor,
                    "decompose at this loop or further out",
                )


def _reads_of(block: Block) -> tuple[BufferRegion, ...]:
    """Return the regions that an initialisation reads: its start values and tables of indices."""
    if next(loads(block.body), None) is None:
        return ()
    return tuple(get_block_access_region(block, {})[0])


def _init_predicate(predicate: PrimExpr, gone: list[For]) -> PrimExpr:
    """Return the part of a block's predicate that applies to its initialisation, which lacks some
    loops.

    A condition on a loop that is gone speaks of the reduction only: the rest is kept. A loop of one
    iteration says nothing, also next to one that stays.
    """
    single = Substitution({loop.loop_var: loop.min for loop in gone if is_const(loop.extent, 1)})
    dropped = {loop.loop_var for loop in gone}
    kept = [
        clause
        for clause in conjuncts(single.visit(predicate))
        if not dropped.intersection(variables(clause))
    ]
    return all_of(*kept) if kept else const(True, "bool")


def _init_nest(realize: BlockRealize, inside: Sequence[LoopCursor]) -> tuple[Stmt, Block]:
    """Return the initialisation block under copies of the loops that its iterators need."""
    block = realize.block
    assert block.init is not None  # it is a reduction block
    renamed: dict[Var, PrimExpr] = {}
    iterators, values = [], []
    for iterator, value in zip(block.iter_vars, realize.iter_values):
        if iterator.iter_type != IterVar.CommReduce:
            new = IterVar(
                iterator.dom,
                Var(iterator.var.name + "_init", iterator.var.dtype),
                iterator.iter_type,
            )
            renamed[iterator.var] = new.var
            iterators.append(new)
            values.append(value)
    needed = set(variables(values))
    nest: list[tuple[For, Var]] = []
    loop_mapping: dict[Var, PrimExpr] = {}
    for cursor in inside:
        loop = cursor.stmt
        if loop.loop_var in needed:
            variable = Var(loop.loop_var.name + "_init", loop.loop_var.dtype)
            nest.append((loop, variable))
            loop_mapping[loop.loop_var] = variable
    dropped = {cursor.stmt.loop_var for cursor in inside} - set(loop_mapping)
    rename, relocate = Substitution(renamed), Substitution(loop_mapping)
    init_block = Block(
        tuple(iterators),
        (),
        [rename.visit(region) for region in block.writes],
        block.name_hint + "_init",
        rename.visit(without_views(block, block.init)),
        annotations=block.annotations,
        span=block.span,
    )
    init_block = init_block.with_fields(reads=_reads_of(init_block))
    gone = [loop for loop in [s.stmt for s in inside] if loop.loop_var in dropped]
    predicate = relocate.visit(_init_predicate(realize.predicate, gone))
    body: Stmt = BlockRealize([relocate.visit(value) for value in values], predicate, init_block)
    for loop, variable in reversed(nest):
        # A thread that updates elements sets them before: the binding to threads stays.
        body = loop.with_fields(
            loop_var=variable,
            min=relocate.visit(loop.min),
            extent=relocate.visit(loop.extent),
            body=body,
        )
    return body, init_block


def add_allocation(scope: BlockCursor, buffers: list[Buffer]) -> None:
    """Let a block allocate further buffers."""
    realize = scope.stmt
    block = realize.block.with_fields(alloc_buffers=(*realize.block.alloc_buffers, *buffers))
    scope.replace(realize.with_fields(block=block), {realize.block: block})

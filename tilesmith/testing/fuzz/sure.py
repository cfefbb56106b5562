"""Says which calls of primitives no program may refuse: a refusal is as wrong as a wrong result,
but nothing that runs shows it.

Each rule is about *plain* blocks: one store, alone under serial loops from 0, one loop for each
iterator, in the outermost scope; nothing else writes what they write.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Add, IntImm, Max, Min
from tilesmith.ir.operators import is_const
from tilesmith.ir.queries import mentions, nodes, variables
from tilesmith.tir import BufferLoad, BufferStore, For, ForKind, IterVar, PrimFunc, Schedule
from tilesmith.tir.schedule.primitive import PRIMITIVES
from tilesmith.tir.stmt import Block, BlockRealize, DeclBuffer, LetStmt

__all__ = ["is_sure", "only_looks", "reduces_on_threads"]


def only_looks(method: str) -> bool:
    """Return whether a method changes nothing."""
    return method == "get_sref" or PRIMITIVES.get(method).only_looks


def is_sure(sch: Schedule, method: str, args: tuple[Any, ...], more: dict[str, Any]) -> bool:
    """Return whether nothing may refuse a call: a query about what the program has (a block by its
    name, where only one has it), or a change of a plain block or loop.
    """
    if method in _RULES:
        return _RULES[method](sch, args, more)
    if method != "get_block":
        return only_looks(method)
    names = [one.name_hint for one in nodes(sch.mod["main"].body, Block)]
    return names.count(args[0]) == 1


def _split(sch: Schedule, args: tuple[Any, ...], more: dict[str, Any]) -> bool:
    loop: For = sch.get(args[0])
    is_plain = loop.kind is ForKind.SERIAL and not loop.annotations and not more
    numbers = [factor for factor in args[1] if factor is not None]
    is_known = all(isinstance(factor, int) and factor > 0 for factor in numbers)
    return (
        is_plain
        and is_const(loop.min, 0)
        and isinstance(loop.extent, IntImm)
        and is_known
        and len(numbers) == len(args[1]) - 1
    )


def _is_plain(sch: Schedule, cursor: Any) -> bool:
    """Return whether a block is plain, as the module's docstring says."""
    around = list(cursor.ancestors())
    if not around or not isinstance(around[-1].stmt, BlockRealize):
        return False
    if len(around) > 1 and len(around[-2].blocks_below()) != 1:
        return False  # other blocks stand in its loops
    nest = [one.stmt for one in around[:-1]]
    realize: BlockRealize = cursor.stmt
    block = realize.block
    return (
        all(isinstance(loop, For) and _is_simple(loop) for loop in nest)
        and not mentions([loop.extent for loop in nest], {loop.loop_var for loop in nest})
        and {id(loop.loop_var) for loop in nest} == {id(value) for value in realize.iter_values}
        and len(nest) == len(realize.iter_values)
        and is_const(realize.predicate, 1)
        and not (block.match_buffers or block.alloc_buffers or block.annotations)
        and isinstance(block.body, BufferStore)
        and len(block.writes) == 1
        and _is_only_writer(sch, block, block.writes[0].buffer)
    )


def _is_simple(loop: For) -> bool:
    return (
        loop.kind is ForKind.SERIAL
        and loop.thread_binding is None
        and not loop.annotations
        and is_const(loop.min, 0)
    )


def _is_only_writer(sch: Schedule, block: Block, buffer: Any) -> bool:
    """Return whether only a block accesses a buffer for writing, under its own name."""
    body = sch.mod["main"].body
    regions = [
        region
        for one in nodes(body, Block) if one is not block
        for region in (*one.writes, *[match.source for match in one.match_buffers])
    ]  # fmt: skip
    return not any(region.buffer.data is buffer.data for region in regions)


def _cache(sch: Schedule, args: tuple[Any, ...], more: dict[str, Any]) -> bool:
    """Copies of what a plain block reads or writes, where no other block is named, and nobody has
    the pointer of it."""
    if more or not _is_plain(sch, sch.cursor(args[0])):
        return False
    block: Block = sch.get(args[0])
    read = {region.buffer.data for region in block.reads}
    written = {region.buffer.data for region in block.writes}
    body = sch.mod["main"].body
    views = {one.buffer.data for one in nodes(body, DeclBuffer)}
    return not (read & written or views & (read | written) or mentions(body, read | written))


def _rfactor(sch: Schedule, args: tuple[Any, ...], more: dict[str, Any]) -> bool:
    """Partial sums (minima, maxima) of a plain block over one of its reduction loops."""
    cursor = sch.cursor(args[0])
    blocks = list(cursor.blocks_below())
    if len(blocks) != 1 or not _is_plain(sch, blocks[0]):
        return False
    realize: BlockRealize = blocks[0].stmt
    block, loop = realize.block, cursor.stmt
    store, init = block.body, block.init
    if not isinstance(store, BufferStore) or not isinstance(init, BufferStore):
        return False
    if not isinstance(store.value, (Add, Min, Max)):
        return False
    old, new = store.value.a, store.value.b
    pairs = zip(block.iter_vars, realize.iter_values)
    driven = [iterator for iterator, value in pairs if value is loop.loop_var]
    reduced = {one.var for one in block.iter_vars if one.iter_type == IterVar.CommReduce}
    return (
        [one.iter_type for one in driven] == [IterVar.CommReduce]
        and 0 <= args[1] <= len(store.indices)
        and isinstance(old, BufferLoad)
        and old.buffer is store.buffer
        and not mentions(new, {old.buffer.data})
        and not mentions(store.indices, reduced)
        and next(nodes(init.value, BufferLoad), None) is None
        and all(isinstance(one.domain.extent, IntImm) for one in block.iter_vars)
    )


def reduces_on_threads(function: PrimFunc) -> bool:
    """Return whether loops over threads drive the reduction of a block: else no pass may refuse a
    reduction because of threads.
    """
    threads = {
        loop.loop_var for loop in nodes(function.body, For) if loop.thread_binding is not None
    }
    lets = {let.var: let.value for let in nodes(function.body, LetStmt)}
    for realize in nodes(function.body, BlockRealize):
        for iterator, value in zip(realize.block.iter_vars, realize.iter_values):
            if iterator.iter_type != IterVar.DataPar:
                used = set(variables(value))
                while more := {var for one in used & lets.keys() for var in variables(lets[one])}:
                    if more <= used:
                        break
                    used |= more
                if used & threads:
                    return True
    return False


_RULES = {
    "split": _split, "cache_read": _cache, "cache_write": _cache, "rfactor": _rfactor,
}  # fmt: skip
"""Method → whether a call of it is sure to work."""

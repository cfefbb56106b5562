"""Joins long reductions that were split into blocks: on a GPU, threads split them already.

topi reduces long rows in blocks, for the accuracy of sums one after the other:

    block[i, b] = sum of f(i, b * 512 + k) over k
    total[i] = sum of block[i, b] over b                total[i] = sum of f(i, k) over all k
"""

from __future__ import annotations

from collections.abc import Mapping

from tilesmith.arith import Analyzer
from tilesmith.ir import Add, IntImm, Max, Min, Mul, PrimExpr, Range, Var, const
from tilesmith.schedule_rules.gpu import facts
from tilesmith.tir import Block, BufferLoad, BufferRegion, BufferStore, IterVar
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import ir_transform, substitute
from tilesmith.tir.queries import buffers
from tilesmith.tir.stmt import BlockRealize, For, LetStmt, SeqStmt, Stmt, stmt_seq

__all__ = ["joined_sums"]


def joined_sums(func: PrimFunc) -> PrimFunc:
    """Return the function with each reduction of reductions joined into one."""
    while (found := _joined_once(func)) is not None:
        func = found
    return func


def _joined_once(func: PrimFunc) -> PrimFunc | None:
    realize = func.body
    if not isinstance(realize, BlockRealize) or not isinstance(realize.block.body, SeqStmt):
        return None
    root = realize.block
    assert isinstance(root.body, SeqStmt)
    nests = list(root.body.seq)
    leaves = [_leaf(nest) for nest in nests]
    for place, inner in enumerate(leaves):
        made = {region.buffer for region in inner.writes} if inner else set()
        if not made <= set(root.alloc_buffers):
            continue
        readers = [n for n, nest in enumerate(nests) if n != place and made & set(buffers(nest))]
        outer = leaves[readers[0]] if len(readers) == 1 else None
        if inner is None or outer is None:
            continue
        joined = _joined(nests[readers[0]], outer, inner)
        if joined is not None:
            nests[readers[0]] = joined
            del nests[place]
            kept = [buffer for buffer in root.alloc_buffers if buffer not in made]
            block = root.with_fields(body=stmt_seq(*nests), alloc_buffers=tuple(kept))
            return func.with_body(realize.with_fields(block=block))
    return None


def _leaf(nest: Stmt) -> Block | None:
    """Return the block of a nest of loops around one block that reduces."""
    while isinstance(nest, For):
        nest = nest.body
    block = nest.block if isinstance(nest, BlockRealize) else None
    return block if block is not None and facts.is_reduction(block) else None


def _terms(block: Block) -> list[tuple[type, Buffer, PrimExpr]] | None:
    """Return what is added to each result: the kind of the sum, the result, the term."""
    values, body = [], block.body
    while isinstance(body, LetStmt):
        values.append(body.value)
        body = body.body
    if isinstance(body, BufferStore):
        values = values or [body.value]
    found = []
    for value in values:
        if not isinstance(value, (Add, Mul, Max, Min)) or not isinstance(value.a, BufferLoad):
            return None
        found.append((type(value), value.a.buffer, value.b))
    written = [region.buffer for region in block.writes]
    return found if [buffer for _, buffer, _ in found] == written else None


def _joined(nest: Stmt, outer: Block, inner: Block) -> Stmt | None:
    """Return the nest of the reduction of all terms, None if the blocks are not such a pair."""
    (last, *more), (within, *others) = facts.reduced(outer), facts.reduced(inner)
    terms, parts = _terms(outer), _terms(inner)
    if more or others or terms is None or parts is None:
        return None
    if len(facts.spatial(inner)) != len(facts.spatial(outer)) + 1:
        return None
    *spatial, number = facts.spatial(inner)
    count, width = _size(last), _size(within)
    if 0 in (count, width) or count != _size(number):
        return None
    if [kind for kind, _, _ in terms] != [kind for kind, _, _ in parts]:
        return None
    for (_, _, term), (_, made, _) in zip(terms, parts):
        own = [*[one.var for one in facts.spatial(outer)], last.var]
        if not isinstance(term, BufferLoad) or term.buffer is not made:
            return None
        if not all(a is b for a, b in zip(term.indices, own)):
            return None
    values: dict[Var, PrimExpr] = {
        one.var: other.var for one, other in zip(spatial, facts.spatial(outer))
    }
    values |= {number.var: last.var // width, within.var: last.var % width}
    return _rebuilt(nest, outer, inner, last, width * count, values)


def _size(iterator: IterVar) -> int:
    """Return the extent of an iterator, 0 if it is not a constant."""
    extent = iterator.domain.extent
    return extent.value if isinstance(extent, IntImm) else 0


def _rebuilt(
    nest: Stmt,
    outer: Block,
    inner: Block,
    last: IterVar,
    extent: int,
    values: Mapping[Var, PrimExpr],
) -> Stmt:
    """Return the nest of ``outer`` over ``extent`` terms of ``inner``."""
    analyzer = Analyzer()
    domain = Range.from_min_extent(0, extent)
    analyzer.bind(last.var, domain)

    def simpler(node: BufferLoad) -> BufferLoad:
        return BufferLoad(node.buffer, [analyzer.simplify(index) for index in node.indices])

    terms = {
        buffer: ir_transform(substitute(term, values), None, simpler, ["tir.BufferLoad"])
        for _, buffer, term in _terms(inner) or ()
    }
    body = ir_transform(outer.body, None, lambda load: terms.get(load.buffer), ["tir.BufferLoad"])
    reads = []
    for region in inner.reads:
        ranges = [
            Range.from_min_extent(
                analyzer.simplify(substitute(one.min, values)),
                analyzer.simplify(substitute(one.extent, values)),
            )
            for one in region.region
        ]
        reads.append(BufferRegion(region.buffer, ranges))
    iterators = [
        one.with_fields(dom=domain) if one.var is last.var else one for one in outer.iter_vars
    ]
    block = outer.with_fields(iter_vars=tuple(iterators), reads=tuple(reads), body=body)
    place = [one.var is last.var for one in outer.iter_vars].index(True)
    return _with_block(nest, block, place, extent)


def _with_block(nest: Stmt, block: Block, place: int, extent: int) -> Stmt:
    """Return the loops around another block; that of the iterator at ``place`` has ``extent``."""
    loops = []
    while isinstance(nest, For):
        loops.append(nest)
        nest = nest.body
    assert isinstance(nest, BlockRealize)
    value = nest.iter_values[place]
    made: Stmt = nest.with_fields(block=block)
    for loop in reversed(loops):
        is_longer = loop.loop_var is value
        size = const(extent, loop.extent.dtype) if is_longer else loop.extent
        made = loop.with_fields(extent=size, body=made)
    return made

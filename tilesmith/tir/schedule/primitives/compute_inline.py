"""Defines compute_inline and reverse_compute_inline, which inline a block into its consumers or its
producer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilesmith.arith import Analyzer, eval_set
from tilesmith.ir import IntImm, Let, PrimExpr, Range, Var, const, structural_equal
from tilesmith.ir.operators import all_of, equal, is_const
from tilesmith.ir.queries import conjuncts, nodes, variables
from tilesmith.support.recursion import deep_recursion
from tilesmith.tir.analysis import get_block_access_region
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad, BufferRegion, IterVar
from tilesmith.tir.functor import Substitution
from tilesmith.tir.queries import buffers as buffers_used
from tilesmith.tir.queries import is_used_as_pointer, loads, stores
from tilesmith.tir.schedule.blocks import (
    check_accessed_by_name,
    check_complete_or_reduction,
    check_covers_domain,
    check_in_sight,
    check_inputs_last,
    check_inputs_stay,
    consumers_of,
    is_output_block,
    producers_of,
    read_buffers,
    scope_of,
    why_not_complete,
)
from tilesmith.tir.schedule.cursor import BlockCursor
from tilesmith.tir.schedule.errors import refuse
from tilesmith.tir.schedule.nests import Rebuild, analyzer_for, remove_block, simplified
from tilesmith.tir.schedule.primitive import primitive
from tilesmith.tir.schedule.primitives.inverse import inverse_of
from tilesmith.tir.shared_values import bind_shared
from tilesmith.tir.stmt import Block, BlockRealize, BufferStore, IfThenElse, MatchBufferRegion, Stmt

__all__ = [
    "check_plain_access",
    "compute_inline",
    "drop_allocation",
    "reverse_compute_inline",
    "with_regions",
]


@primitive()
def compute_inline(block: BlockCursor) -> None:
    """Substitute the value of a block into the expressions that read it, and remove the block."""
    scope = scope_of(block)
    store = _single_store(block, scope)
    node = block.block
    if is_output_block(block, scope):
        raise refuse(
            f"block '{node.name_hint}' is an output block of its scope",
            block,
            "its result is needed outside; reverse_compute_inline moves it into its producer",
        )
    mapping = _producer_indices(block, store)
    consumers = consumers_of(block, scope)
    _check_nothing_else(block, scope, consumers, store.buffer)
    inliner = _Inliner(block.block, store.buffer, store.value, mapping)
    check_inputs_last(block, scope, consumers)
    check_in_sight(block, consumers)
    for consumer in consumers:
        check_plain_access(consumer, store.buffer)
    for consumer in consumers:
        realize = consumer.stmt
        inliner.reuse = {}
        with deep_recursion():
            new = inliner.visit(realize)
        if new is not realize:
            consumer.replace(new, inliner.reuse)
    remove_block(block)
    drop_allocation(scope, store.buffer)


def _check_nothing_else(
    cursor: BlockCursor, scope: BlockCursor, consumers: Sequence[BlockCursor], buffer: Buffer
) -> None:
    """Check that only the consumers use the buffer that will be removed."""
    for other in scope.blocks_below():
        block = other.block
        if other != cursor and other not in consumers and buffer in read_buffers(block):
            name = cursor.block.name_hint
            reason = f"block '{block.name_hint}' reads '{buffer.name}' before '{name}' writes it"
            raise refuse(reason, other)


def _single_store(
    cursor: BlockCursor, scope: BlockCursor, is_consumer: bool = False
) -> BufferStore:
    """Return the only store of a complete block without further conditions."""
    realize = cursor.stmt
    block = realize.block
    reason = why_not_complete(cursor, scope)
    if reason:
        raise refuse(
            f"block '{block.name_hint}' is not a complete block: {reason}",
            cursor,
            "only a block that computes each element once, independently, can be inlined",
        )
    body = block.body
    if isinstance(body, IfThenElse) and is_consumer and body.else_case is None:
        body = body.then_case
    if not isinstance(body, BufferStore):
        raise refuse(f"block '{block.name_hint}' is more than one store", cursor)
    if block.alloc_buffers or block.match_buffers or block.init is not None:
        raise refuse(f"block '{block.name_hint}' has buffers of its own or an init", cursor)
    # A condition of the realisation only cuts off superfluous iterations of split loops: the
    # iterators still cover their whole domains, and these are what is inlined.
    return body


def _producer_indices(cursor: BlockCursor, store: BufferStore) -> list[Any]:
    """Return the indices of the store, which must be different iterators or constants, and the
    values of unit iterators that are not among them.
    """
    block = cursor.block
    own = {iterator.var: iterator for iterator in block.iter_vars}
    seen: set[Var] = set()
    for index in store.indices:
        if is_const(index):
            continue
        if not isinstance(index, Var) or index not in own or index in seen:
            raise refuse(
                f"block '{block.name_hint}' does not write '{store.buffer.name}' at its "
                "plain iterators",
                cursor,
            )
        seen.add(index)
    used = set(variables(store.value)) & set(own)
    free = used - seen
    unit = {v for v in free if is_const(own[v].domain.extent, 1)}
    if free - unit:
        name = sorted(v.name for v in free - unit)[0]
        raise refuse(f"the value depends on '{name}', which is not an index", cursor)
    indices: list[Any] = list(store.indices)
    return [*indices, {v: own[v].domain.min for v in unit}]


class _Inliner(Rebuild):
    """Replaces loads of a buffer by the value that is stored to it."""

    def __init__(
        self, producer: Block, buffer: Buffer, value: PrimExpr, indices: list[Any]
    ) -> None:
        super().__init__()
        self.producer = producer
        self.buffer = buffer
        self.value = value
        self.indices = indices[:-1]
        self.fixed = indices[-1]
        self.has_names = any(True for _ in nodes(value, Let))
        self.kept: list[BufferLoad] = []
        self.copies: dict[tuple[Any, ...], PrimExpr] | None = None  # by plain indices

    def visit_BufferStore(self, store: BufferStore) -> BufferStore:
        """Return a store; where it would become exponentially large, what is read several times
        gets a name.
        """
        self.copies = {}
        new: BufferStore = self.children(store)
        self.copies = None
        if new is store:
            return store
        value = bind_shared(new.value, self.has_names)
        names = [let.var for let in nodes(value, Let)]
        if len(set(names)) != len(names):  # each copy has names of its own
            return self.children(store)
        return new if value is new.value else new.with_fields(value=value)

    def visit_BufferLoad(self, load: BufferLoad) -> PrimExpr:
        """Return the stored value at the load's indices."""
        load = self.children(load)
        if load.buffer is not self.buffer:
            return load
        mapping = dict(self.fixed)
        mapping.update(
            {v: index for v, index in zip(self.indices, load.indices) if isinstance(v, Var)}
        )
        if self.copies is None:
            return _Copy(mapping).visit(self.value)
        key = tuple([i.value if isinstance(i, IntImm) else id(i) for i in load.indices])
        if key not in self.copies:
            self.copies[key] = _Copy(mapping).visit(self.value)
            self.kept.append(load)  # with its indices, whose ids must not be used again
        return self.copies[key]

    def visit_BlockRealize(self, realize: BlockRealize) -> BlockRealize:
        """Rewrite a block and detect its regions anew; blocks inside of it come first."""
        new = self.children(realize)
        is_declared = any(region.buffer is self.buffer for region in realize.block.reads)
        if is_declared or new.block is not realize.block:
            new = with_regions(new, self.producer)
            self.reuse[realize.block] = new.block
        return new


class _Copy(Substitution):
    """Copies an expression with variables replaced; its lets bind variables of their own. What
    occurs several times in it is one expression in the copy, too.
    """

    def __init__(self, mapping: Mapping[Var, PrimExpr]) -> None:
        super().__init__(mapping)
        self.made: dict[int, Any] = {}

    def visit(self, node: Any) -> Any:
        """Return the copy of a part, which is made once for each set of names."""
        found = self.made.get(id(node))
        if found is None:
            found = self.made[id(node)] = super().visit(node)
        return found

    def visit_Let(self, expr: Let) -> Let:
        """Rename the variable of a let."""
        value = self.visit(expr.value)
        variable = Var(expr.var.name, expr.var.type_annotation)
        self.mapping = {**self.mapping, expr.var: variable}
        self.made = {}
        return Let(variable, value, self.visit(expr.body))


def check_plain_access(cursor: BlockCursor, buffer: Buffer) -> None:
    """Check that a consumer reads the buffer by plain loads only."""
    check_accessed_by_name([cursor], buffer)
    matches = nodes(cursor.stmt, MatchBufferRegion)
    if is_used_as_pointer(cursor.stmt, buffer) or any(m.source.buffer is buffer for m in matches):
        raise refuse(f"buffer '{buffer.name}' is used as a pointer or matched region", cursor)


def with_regions(realize: BlockRealize, *merged: Block) -> BlockRealize:
    """Return a block with its regions detected anew; reads of a reduction's own result are left
    out.

    Accesses through pointers stay as declared; those of blocks ``merged`` into it count for the
    whole buffer.
    """
    block = realize.block
    declared = [region for one in (block, *merged) for region in (*one.reads, *one.writes)]
    buffers = [*buffers_used(block), *[region.buffer for region in declared]]
    reads, writes, opaque = get_block_access_region(
        block, {buffer.data: buffer for buffer in buffers}
    )
    for everything in opaque:
        for found, kind in ((reads, "reads"), (writes, "writes")):
            found += _by_pointer(everything, kind, found, block, merged)
    if block.init is not None:
        written = {id(region.buffer) for region in writes}
        reads = [region for region in reads if id(region.buffer) not in written]
    return realize.with_fields(block=block.with_fields(reads=tuple(reads), writes=tuple(writes)))


def _by_pointer(
    everything: BufferRegion,
    kind: str,
    found: list[BufferRegion],
    block: Block,
    merged: tuple[Block, ...],
) -> list[BufferRegion]:
    """Return the declared regions of buffers that a block uses through pointers."""
    buffer = everything.buffer
    own = [region for region in getattr(block, kind) if region.buffer is buffer]
    known = [region for region in found if region.buffer is buffer]
    is_merged = any(region.buffer is buffer for one in merged for region in getattr(one, kind))
    if not own and not is_merged:
        return []
    found[:] = [region for region in found if region.buffer is not buffer]
    return [everything] if known or is_merged else own


def drop_allocation(scope: BlockCursor, buffer: Buffer) -> None:
    """Remove the allocation of a buffer from its block."""
    realize = scope.stmt
    kept = tuple([other for other in realize.block.alloc_buffers if other is not buffer])
    if len(kept) != len(realize.block.alloc_buffers):
        block = realize.block.with_fields(alloc_buffers=kept)
        scope.replace(realize.with_fields(block=block), {realize.block: block})


# --- reverse -------------------------------------------------------------------------------------


@primitive()
def reverse_compute_inline(block: BlockCursor) -> None:
    """Substitute a consumer's expression into its only producer, and remove the consumer."""
    scope = scope_of(block)
    name = block.block.name_hint
    store = _single_store(block, scope, is_consumer=True)
    check_covers_domain(block)
    check_inputs_stay(block, scope)
    producers = producers_of(block, scope)
    if len(producers) != 1:
        raise refuse(
            f"block '{name}' has {len(producers)} producers, it needs one",
            block,
            "it is put into the one block that computes what it reads; compute_inline is the other "
            "direction",
        )
    (producer,) = producers
    check_complete_or_reduction(producer, scope)
    check_in_sight(block, [producer])
    node = producer.block
    _check_final(producer)
    buffer = node.writes[0].buffer
    if is_output_block(producer, scope):
        raise refuse(f"buffer '{buffer.name}' is an output of the scope", producer)
    for other in scope.blocks_below():
        if other not in (block, producer) and buffer in [r.buffer for r in other.block.reads]:
            raise refuse(f"'{buffer.name}' has another consumer", other)
    check_plain_access(producer, buffer)
    inverse = _inverse_indices(block, producer, buffer)
    realize = producer.stmt
    inliner = _ReverseInliner(block, buffer, store, inverse, node)
    new = with_regions(inliner.children(realize), block.block)
    new = _narrowed(new, inliner.domains, producer)
    producer.replace(new, {realize.block: new.block})
    remove_block(block)
    drop_allocation(scope, buffer)


def _check_final(producer: BlockCursor) -> None:
    """Check that a producer writes one buffer, each element once."""
    block = producer.block
    if len(block.writes) != 1:
        raise refuse(f"block '{block.name_hint}' writes several buffers", producer)
    if block.init is not None:
        raise refuse(
            f"block '{block.name_hint}' is a reduction: its value is final only after "
            "the last iteration",
            producer,
            "use reverse_compute_at",
        )
    if producer.children():
        raise refuse(
            f"block '{block.name_hint}' has blocks inside, which may write parts that are not "
            "final",
            producer,
        )


class _Inverse:
    """The consumer's iterators as functions of the indices at which it reads the producer."""

    def __init__(
        self,
        placeholders: list[Var],
        values: dict[Var, PrimExpr],
        partial: bool,
        places: list[PrimExpr],
    ) -> None:
        self.placeholders = placeholders
        self.values = values
        self.partial = partial
        self.places = places  # hold for elements that the consumer reads


def _check_all_made(cursor: BlockCursor, producer: BlockCursor, load: BufferLoad) -> None:
    """Check that the producer computes the element for each instance of the consumer; other
    instances would never run.
    """
    block = producer.block
    ranges = {iterator.var: iterator.domain for iterator in block.iter_vars}
    analyzer = Analyzer()
    for iterator in cursor.block.iter_vars:
        analyzer.bind(iterator.var, iterator.domain)
    for store in stores(block.body, load.buffer):
        for index, written in zip(load.indices, store.indices):
            covered = eval_set(written, ranges)
            is_bounded = covered.has_lower_bound() and covered.has_upper_bound()
            if not (
                is_bounded
                and analyzer.can_prove(index >= covered.min_value)
                and analyzer.can_prove(index <= covered.max_value)
            ):
                name = cursor.block.name_hint
                raise refuse(
                    f"block '{name}' runs for more than the elements of '{load.buffer.name}' "
                    f"that '{block.name_hint}' makes",
                    cursor,
                    "inline the producer instead (compute_inline)",
                )


def _inverse_indices(cursor: BlockCursor, producer: BlockCursor, buffer: Buffer) -> _Inverse:
    realize = cursor.stmt
    block = realize.block
    first, *others = loads(block.body, buffer)
    for load in others:
        if not all(structural_equal(a, b) for a, b in zip(load.indices, first.indices)):
            raise refuse(
                f"'{buffer.name}' is read at several different places",
                cursor,
                "only a block that reads one element per written element can be inlined",
            )
    _check_all_made(cursor, producer, first)
    domain = {iterator.var: iterator.domain for iterator in block.iter_vars}
    placeholders, values = inverse_of(first.indices, domain)
    needed = {v for v in domain if not is_const(domain[v].extent, 1)}
    if needed - set(values):
        name = sorted(v.name for v in needed - set(values))[0]
        raise refuse(f"iterator '{name}' does not follow from the indices of the read", cursor)
    for variable in domain:
        values.setdefault(variable, domain[variable].min)
    partial = not _reads_all(buffer, first, domain)
    back = Substitution(values)
    places = [
        equal(back.visit(index), placeholder)
        for placeholder, index in zip(placeholders, first.indices)
    ]
    return _Inverse(placeholders, values, partial, places)


def _reads_all(buffer: Buffer, load: BufferLoad, domain: dict[Var, Range]) -> bool:
    """Return whether the consumer reads every element that the producer writes."""
    analyzer = Analyzer()
    for index, size in zip(load.indices, buffer.shape):
        if isinstance(index, Var) and index in domain:
            if not analyzer.can_prove_equal(domain[index].extent, size):
                return False
        elif not is_const(size, 1):
            product = const(1, size.dtype)
            for taken in domain.values():
                product = product * taken.extent
            whole = const(1, size.dtype)
            for extent in buffer.shape:
                whole = whole * extent
            return analyzer.can_prove_equal(product, whole)
    return True


class _ReverseInliner(Rebuild):
    """Replaces the producer's store by the consumer's store of the same element."""

    def __init__(
        self,
        cursor: BlockCursor,
        buffer: Buffer,
        store: BufferStore,
        inverse: _Inverse,
        producer: Block,
    ) -> None:
        super().__init__()
        self.producer = producer
        self.domains: dict[Var, Range] = {}  # of iterators of which the consumer reads a part only
        self.buffer = buffer
        self.store = store
        self.inverse = inverse
        self.consumer = cursor.block
        self.analyzer = Analyzer()

    def visit_Block(self, block: Block) -> Block:
        """Bind the ranges of the producer's iterators, which help to drop conditions."""
        for iterator in block.iter_vars:
            self.analyzer.bind(iterator.var, iterator.domain)
        return super().visit_Block(block)

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        """Return the consumer's store with this store's value in place of its load."""
        if store.buffer is not self.buffer:
            return store
        at = Substitution(dict(zip(self.inverse.placeholders, store.indices)))
        iterators = {v: at.visit(value) for v, value in self.inverse.values.items()}
        analyzer = self.analyzer
        value = _LoadReplacer(self.buffer, store.value, iterators).visit(self.store.value)
        rename = _LoadReplacer(self.buffer, store.value, iterators)
        indices = [simplified(analyzer, rename.visit(index)) for index in self.store.indices]
        new: Stmt = self.store.with_fields(value=value, indices=tuple(indices))
        conditions = [at.visit(place) for place in self.inverse.places]
        if self.inverse.partial:
            for iterator in self.consumer.iter_vars:
                if iterator.iter_type == IterVar.DataPar:
                    where, domain = iterators[iterator.var], iterator.domain
                    if self.narrows(store, where, domain):
                        self.domains[where] = domain  # type: ignore[index]
                    else:
                        conditions += [where >= domain.min, where < domain.min + domain.extent]
        conditions = [c for c in conditions if not analyzer.can_prove(c)]
        if conditions:
            new = IfThenElse(all_of(*conditions), new)
        if isinstance(self.consumer.body, IfThenElse):
            guard = _LoadReplacer(self.buffer, store.value, iterators).visit(
                self.consumer.body.condition
            )
            new = IfThenElse(guard, new)
        return new

    def narrows(self, store: BufferStore, where: PrimExpr, domain: Range) -> bool:
        """Return whether a whole block may leave out the values of an iterator outside of a
        domain, which lies in the iterator's own."""
        if store is not self.producer.body:
            return False
        prove = self.analyzer.can_prove
        return any(
            iterator.var is where
            and where not in self.domains
            and prove(iterator.domain.min <= domain.min)
            and prove(domain.min + domain.extent <= iterator.domain.min + iterator.domain.extent)
            for iterator in self.producer.iter_vars
        )


def _narrowed(
    realize: BlockRealize, domains: Mapping[Var, Range], cursor: BlockCursor
) -> BlockRealize:
    """Return a block whose iterators have smaller domains: its predicate leaves out the rest."""
    if not domains:
        return realize
    analyzer = analyzer_for(cursor)
    iterators, conditions = [], conjuncts(realize.predicate)
    for iterator, value in zip(realize.block.iter_vars, realize.iter_values):
        domain = domains.get(iterator.var)
        if domain is not None:
            bounds = [value >= domain.min, value < domain.min + domain.extent]
            conditions += [analyzer.simplify(c) for c in bounds if not analyzer.can_prove(c)]
            iterator = IterVar(domain, iterator.var, iterator.iter_type)
        iterators.append(iterator)
    predicate = all_of(*conditions) if conditions else const(True, "bool")
    block = realize.block.with_fields(iter_vars=tuple(iterators))
    return realize.with_fields(predicate=predicate, block=block)


class _LoadReplacer(Substitution):
    def __init__(self, buffer: Buffer, value: PrimExpr, mapping: dict[Var, PrimExpr]) -> None:
        super().__init__(mapping)
        self.buffer = buffer
        self.value = value

    def visit_BufferLoad(self, load: BufferLoad) -> PrimExpr:
        return self.value if load.buffer is self.buffer else self.children(load)

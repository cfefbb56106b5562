"""Handles padding: the elements that a new layout adds to a buffer.

A block that writes the whole buffer writes the padding too. Otherwise a block of its own writes it,
after what writes the rest; of a parameter that is only read, it is assumed to hold the value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tilesmith.arith import Analyzer
from tilesmith.ir import Call, PrimExpr, Range, Var, const, structural_equal
from tilesmith.ir.operators import cast, is_const, logical_not, logical_or
from tilesmith.support.errors import InternalError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad, BufferRegion, IterVar
from tilesmith.tir.functor import Substitution
from tilesmith.tir.index_map import IndexMap
from tilesmith.tir.op import if_then_else
from tilesmith.tir.schedule.cursor import BlockCursor, Cursor
from tilesmith.tir.schedule.primitives.copies import insert_nest, statement_number
from tilesmith.tir.stmt import (
    Block,
    BlockRealize,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    Stmt,
    stmt_list,
    stmt_seq,
)

__all__ = ["Padding", "WholeWriter"]


class Padding(NamedTuple):
    """The elements of ``buffer`` that the old buffer lacks, and their value.

    ``inverse`` maps new indices to old ones; ``condition``, over the same variables, holds for
    padding; ``value`` gives what it holds.
    """

    buffer: Buffer
    inverse: IndexMap
    condition: PrimExpr
    value: IndexMap

    def holds_at(self, indices: list[Any]) -> PrimExpr:
        """Return whether an element is padding."""
        return Substitution(dict(zip(self.inverse.initial_indices, indices))).visit(self.condition)

    def value_at(self, indices: list[Any]) -> PrimExpr:
        """Return the padding value of an element."""
        places = dict(zip(self.value.initial_indices, indices))
        return cast(self.buffer.dtype, Substitution(places).visit(self.value.final_indices[0]))

    def fill(self, owner: BlockCursor, writers: Sequence[Cursor]) -> None:
        """Return a block that writes the padding, for insertion after the writer of the other
        elements.
        """
        loops, iterators = self._axes()
        indices: list[Any] = [iterator.var for iterator in iterators]
        block = Block(
            iterators,
            [],
            [BufferRegion.from_point(self.buffer, indices)],
            f"buffer_{self.buffer.name}_padding",
            BufferStore(self.buffer, self.value_at(indices), indices),
        )
        nest = self._nest(loops, block, self.holds_at(list(loops)))
        if writers:
            last = max(writers, key=lambda writer: statement_number(owner, writer))
            insert_nest(owner, nest, last, before=False)
        else:
            self._put_first(owner, nest)

    def assume(self, owner: BlockCursor) -> None:
        """Return a block that states which values callers have stored in the padding."""
        loops, iterators = self._axes()
        indices: list[Any] = [iterator.var for iterator in iterators]
        load = BufferLoad(self.buffer, indices)
        is_value = load == self.value_at(indices)
        fact = logical_or(logical_not(self.holds_at(indices)), is_value)
        block = Block(
            iterators,
            [BufferRegion.from_point(self.buffer, indices)],
            [],
            f"buffer_{self.buffer.name}_assumptions",
            Evaluate(Call("bool", "tir.assume", (fact,))),
        )
        self._put_first(owner, self._nest(loops, block, const(True, "bool")))

    def _axes(self) -> tuple[list[Var], list[IterVar]]:
        loops = [Var(f"axis{k}", size.dtype) for k, size in enumerate(self.buffer.shape)]
        return loops, [spatial(f"v_axis{k}", size) for k, size in enumerate(self.buffer.shape)]

    def _nest(self, loops: list[Var], block: Block, predicate: PrimExpr) -> Stmt:
        nest: Stmt = BlockRealize(tuple(loops), predicate, block)
        for variable, size in zip(reversed(loops), reversed(self.buffer.shape)):
            nest = For(variable, const(0, size.dtype), size, ForKind.SERIAL, nest)
        return nest

    def _put_first(self, owner: BlockCursor, nest: Stmt) -> None:
        realize = owner.stmt
        new = realize.block.with_fields(body=stmt_seq(nest, *stmt_list(realize.block.body)))
        owner.replace(realize.with_fields(block=new), {realize.block: new})


def spatial(name: str, extent: PrimExpr) -> IterVar:
    """Return a data-parallel iterator that starts at 0."""
    zero = const(0, extent.dtype)
    return IterVar(Range.from_min_extent(zero, extent), Var(name, extent.dtype), IterVar.DataPar)


class WholeWriter:
    """A block directly below its own loops that writes each element of a buffer once (or
    accumulates it); its iterators are ``i, j, …`` for the dimensions in order, then those of a
    reduction.
    """

    def __init__(self, cursor: BlockCursor, dimensions: int) -> None:
        self.cursor = cursor
        self.dimensions = dimensions
        self.loops = cursor.loops()

    @staticmethod
    def find(cursor: BlockCursor, buffer: Buffer) -> WholeWriter | None:
        """Return the block if it has this form, else None."""
        realize = cursor.stmt
        block, loops = realize.block, [loop.stmt for loop in cursor.loops()]
        store = block.body
        if not isinstance(store, BufferStore) or store.buffer is not buffer:
            return None
        blocks = [around for around in cursor.ancestors() if isinstance(around, BlockCursor)]
        if len(blocks) > 1 and any(region.buffer is not buffer for region in block.reads):
            return None  # the blocks around declare what it reads for the present elements only
        if not is_const(realize.predicate, 1) or len(loops) != len(realize.iter_values):
            return None
        for loop, inner in zip(loops, [*loops[1:], realize]):
            plain = loop.kind == ForKind.SERIAL and not loop.annotations
            if loop.body is not inner or not is_const(loop.min, 0) or not plain:
                return None
        for loop, iterator, value in zip(loops, block.iter_vars, realize.iter_values):
            if value is not loop.loop_var or not structural_equal(
                iterator.domain.extent, loop.extent
            ):
                return None
            if not is_const(iterator.domain.min, 0):
                return None
        kinds = [iterator.iter_type for iterator in block.iter_vars]
        count = len(buffer.shape)
        if kinds[:count] != [IterVar.DataPar] * count or IterVar.DataPar in kinds[count:]:
            return None
        for iterator, index, size in zip(block.iter_vars, store.indices, buffer.shape):
            if index is not iterator.var or not structural_equal(iterator.domain.extent, size):
                return None
        return WholeWriter(cursor, count)

    def write_padding_too(self, padding: Padding, mapping: IndexMap) -> None:
        """Extend the block to the new dimensions, and store the padding value where the condition
        of the padding holds.
        """
        realize = self.cursor.stmt
        block = realize.block
        names = self._names(mapping)
        iterators = [spatial("v_" + name, size) for name, size in zip(names, padding.buffer.shape)]
        indices: list[Any] = [iterator.var for iterator in iterators]
        analyzer = Analyzer()
        for iterator in iterators:
            analyzer.bind(iterator.var, iterator.domain)
        old = list(padding.inverse.map_indices(indices))
        old_variables = [iterator.var for iterator in block.iter_vars[: self.dimensions]]
        replace = _AtOwnIndices(dict(zip(old_variables, old)), padding.buffer, indices)
        condition = analyzer.simplify(padding.holds_at(indices))
        value = padding.value_at(indices)

        def guarded(stmt: Stmt) -> Stmt:
            store = replace.visit(stmt)
            if not isinstance(store, BufferStore):
                raise InternalError(f"a block of one store was found, its body is {stmt}")
            return store.with_fields(value=if_then_else(condition, value, store.value))

        kept = block.iter_vars[self.dimensions :]
        made = block.with_fields(
            iter_vars=(*iterators, *kept),
            reads=tuple([replace.visit(region) for region in block.reads]),
            writes=(BufferRegion.from_point(padding.buffer, indices),),
            body=guarded(block.body),
            init=None if block.init is None else guarded(block.init),
        )
        variables = [Var(name, size.dtype) for name, size in zip(names, padding.buffer.shape)]
        inner = [loop.stmt for loop in self.loops[self.dimensions :]]
        values = (*variables, *[loop.loop_var for loop in inner])
        nest: Stmt = BlockRealize(values, const(True, "bool"), made)
        for loop in reversed(inner):
            nest = loop.with_fields(body=nest)
        for variable, size in zip(reversed(variables), reversed(padding.buffer.shape)):
            nest = For(variable, const(0, size.dtype), size, ForKind.SERIAL, nest)
        self.loops[0].replace(nest, {block: made})

    def _names(self, mapping: IndexMap) -> list[str]:
        """Return loop names; an unchanged dimension keeps the name of its loop."""
        loops = [loop.stmt.loop_var.name for loop in self.loops]
        kept = dict(zip(mapping.initial_indices, loops))
        return [
            kept[index] if isinstance(index, Var) and index in kept else f"axis{number}"
            for number, index in enumerate(mapping.final_indices)
        ]


class _AtOwnIndices(Substitution):
    """Replaces variables, and moves accesses of the buffer to the given indices."""

    def __init__(self, mapping: dict[Var, PrimExpr], buffer: Buffer, indices: list[Any]) -> None:
        super().__init__(mapping)
        self.buffer = buffer
        self.indices = tuple(indices)

    def visit_BufferLoad(self, load: BufferLoad) -> BufferLoad:
        """Rewrite a read of the previous value."""
        if load.buffer is self.buffer:
            return load.with_fields(indices=self.indices)
        return self.children(load)

    def visit_BufferStore(self, store: BufferStore) -> BufferStore:
        """Rewrite the store of the block."""
        store = self.children(store)
        return store.with_fields(indices=self.indices) if store.buffer is self.buffer else store

"""Defines pad_einsum, which pads the extents of a sum of products, through padded copies of its
buffers.

Rows and columns that are added hold zeros, so they add nothing to any sum; what they compute
themselves is cut off when the result is copied back.

    C[127, 127] = A[127, 127] @ B[127, 127]     A_pad[128, 128] = A, else 0
                                                B_pad[128, 128] = B, else 0
                                                C_pad = A_pad @ B_pad
                                                C[127, 127] = C_pad[0:127, 0:127]
"""

from __future__ import annotations

from collections.abc import Sequence

from tilesmith.arith import Analyzer
from tilesmith.ir import (
    Add,
    Cast,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    Range,
    Sub,
    Var,
    const,
    is_const,
)
from tilesmith.ir.intrinsics import ceildiv, if_then_else
from tilesmith.ir.operators import all_of
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad, BufferRegion, IterVar
from tilesmith.tir.functor import substitute
from tilesmith.tir.schedule.blocks import check_complete_or_reduction, scope_of
from tilesmith.tir.schedule.cursor import BlockCursor
from tilesmith.tir.schedule.errors import refuse
from tilesmith.tir.schedule.primitive import primitive
from tilesmith.tir.schedule.primitives.cache import buffer_with
from tilesmith.tir.schedule.primitives.reduction import add_allocation
from tilesmith.tir.stmt import Block, BlockRealize, BufferStore, For, ForKind, Stmt, stmt_seq

__all__ = ["pad_einsum"]


@primitive()
def pad_einsum(block: BlockCursor, padding: list[int]) -> None:
    """Round the extent of each iterator of an einsum up to a multiple of its factor.

    ``padding``: one factor for each iterator, 1 leaves it. What the block reads is copied into
    padded buffers with zeros around, what it writes is cut out of a padded one:

      C[127, 127] = A[127, 127] @ B[127, 127]
    pad_einsum(C, [16, 16, 16])
      A_pad[128, 128] = A, else 0;  B_pad[128, 128] = B, else 0
      C_pad[128, 128] = A_pad @ B_pad;  C = C_pad[0:127, 0:127]

    Refuses blocks whose iterators are not loops of their own (pad before splitting), indices
    that are not single iterators, and reductions that zeros would change.
    """
    einsum = _Einsum(block, padding)
    scope = scope_of(block)
    check_complete_or_reduction(block, scope)
    einsum.check_zeros_add_nothing()
    copies = einsum.buffers()
    if not any(not is_same for is_same in einsum.unchanged.values()):
        return
    before = [einsum.copy(old, new, True) for old, new in copies if old is not einsum.output]
    after = [einsum.copy(new, old, False) for old, new in copies if old is einsum.output]
    nest, node = einsum.padded(dict(copies))
    einsum.loops[0].replace(stmt_seq(*before, nest, *after), {einsum.block: node})
    copies.sort(key=lambda pair: pair[0] is einsum.output)  # inputs first
    add_allocation(scope, [new for _, new in copies])


class _Einsum:
    """A block under its own loops whose indices are single iterators or constants."""

    def __init__(self, cursor: BlockCursor, padding: Sequence[int]) -> None:
        self.cursor = cursor
        self.realize = cursor.stmt
        self.block = self.realize.block
        self.analyzer = Analyzer()
        self.loops = cursor.loops()
        self.check_nest()
        iterators = self.block.iter_vars
        if len(padding) != len(iterators):
            raise self.refuse(
                f"block '{self.block.name_hint}' has {len(iterators)} iterators, "
                f"{len(padding)} factors are given"
            )
        self.extents: dict[Var, PrimExpr] = {}  # after padding
        self.unchanged: dict[Var, bool] = {}
        for iterator, factor in zip(iterators, padding):
            if factor < 1:
                raise self.refuse(f"the factor {factor} is not positive")
            extent = iterator.domain.extent
            size = const(int(factor), extent.dtype)
            new = self.analyzer.simplify(ceildiv(extent, size) * size)
            self.extents[iterator.var] = new
            self.unchanged[iterator.var] = self.analyzer.can_prove_equal(new, extent)
        self.accesses = self.find_accesses()

    def refuse(self, reason: str, advice: str = "") -> Exception:
        return refuse(reason, self.cursor, advice)

    def check_nest(self) -> None:
        """Check that each iterator is bound to one of the loops, and that these contain nothing
        else.
        """
        name = self.block.name_hint
        if self.block.match_buffers:
            view = self.block.match_buffers[0].buffer.name
            raise self.refuse(f"block '{name}' uses the view '{view}', which is its own")
        stmts = [loop.stmt for loop in self.loops]
        for outer, inner in zip(stmts, [*stmts[1:], self.realize]):
            if outer.body is not inner:
                raise self.refuse(f"the loops around block '{name}' hold other statements too")
        free = {stmt.loop_var: stmt for stmt in stmts}
        for iterator, value in zip(self.block.iter_vars, self.realize.iter_values):
            loop = free.pop(value, None) if isinstance(value, Var) else None
            if loop is None or not (
                is_const(loop.min, 0)
                and is_const(iterator.domain.min, 0)
                and self.analyzer.can_prove_equal(loop.extent, iterator.domain.extent)
            ):
                raise self.refuse(
                    f"iterator '{iterator.var.name}' is bound to {value}, not to a loop of its own",
                    "pad before the loops are split or fused",
                )
        if free or not self.loops or not is_const(self.realize.predicate, 1):
            raise self.refuse(f"block '{name}' is not plainly bound to its loops")

    # The computation.

    def find_accesses(self) -> dict[Buffer, tuple[PrimExpr, ...]]:
        """Find the indices of each buffer, which must be equal in all accesses to it."""
        body = self.block.body
        if not isinstance(body, BufferStore):
            raise self.refuse(f"block '{self.block.name_hint}' is more than one store")
        self.store = body
        self.output = body.buffer
        found: dict[Buffer, tuple[PrimExpr, ...]] = {}

        def note(buffer: Buffer, indices: tuple[PrimExpr, ...]) -> None:
            for index in indices:
                if index not in self.extents and not is_const(index):
                    raise self.refuse(
                        f"'{buffer.name}' is indexed by {index}",
                        "indices must be single iterators or constants (an einsum); reindex makes "
                        "them so",
                    )
            known = found.setdefault(buffer, indices)
            if any(a is not b and not _same_const(a, b) for a, b in zip(known, indices)):
                raise self.refuse(f"'{buffer.name}' is accessed at two places")

        def walk(expr: PrimExpr) -> None:
            if isinstance(expr, BufferLoad):
                note(expr.buffer, expr.indices)
            elif isinstance(expr, (Add, Sub, Mul, Min, Max)):
                walk(expr.a)
                walk(expr.b)
            elif isinstance(expr, Cast):
                walk(expr.value)
            elif not is_const(expr):
                raise self.refuse(f"{expr} is not part of a sum of products")

        note(body.buffer, body.indices)
        walk(body.value)
        init = self.block.init
        if init is not None and not (
            isinstance(init, BufferStore) and init.buffer is body.buffer and is_const(init.value)
        ):
            raise self.refuse("the init is not a store of a constant")
        return found

    def check_zeros_add_nothing(self) -> None:
        """Check that the terms of a padded reduction are zero in the padding, and that the padding
        of other iterators has places of its own.
        """
        padded = {
            iterator.var
            for iterator in self.block.iter_vars
            if iterator.iter_type == IterVar.CommReduce and not self.unchanged[iterator.var]
        }
        value = self.store.value
        for iterator in self.block.iter_vars:
            variable = iterator.var
            is_placed = any(index is variable for index in self.store.indices)
            if not (self.unchanged[variable] or variable in padded or is_placed):
                raise self.refuse(
                    f"no place of '{self.output.name}' depends on iterator '{variable.name}': the "
                    "padding would write the same elements again"
                )
        for variable in padded:
            terms = [value.a, value.b] if isinstance(value, Add) else []
            own = [t for t in terms if isinstance(t, BufferLoad) and t.buffer is self.output]
            rest = [t for t in terms if not any(t is one for one in own)]
            if len(own) != 1 or len(rest) != 1 or not self.vanishes(rest[0], variable):
                raise self.refuse(
                    f"padding '{variable.name}' with zeros would change the reduction {value}",
                    "a padded reduction must add products all of whose factors it indexes",
                )

    def vanishes(self, expr: PrimExpr, variable: Var) -> bool:
        """Return whether a term is zero where ``variable`` is in the padding, whatever the other
        operands are.

        0 * x is not zero for an infinite x, so both factors have to vanish for floats.
        """
        if isinstance(expr, BufferLoad):
            return any(index is variable for index in expr.indices)
        if isinstance(expr, Cast):
            return self.vanishes(expr.value, variable)
        if isinstance(expr, Mul):
            parts = [self.vanishes(part, variable) for part in (expr.a, expr.b)]
            finite = expr.dtype.is_integer or any(is_const(part) for part in (expr.a, expr.b))
            return any(parts) if finite else all(parts)
        if isinstance(expr, (Add, Sub)):
            return self.vanishes(expr.a, variable) and self.vanishes(expr.b, variable)
        return is_const(expr, 0)

    # The copies.

    def buffers(self) -> list[tuple[Buffer, Buffer]]:
        """Return the buffers that need padded copies, each with its copy."""
        made = []
        for buffer, indices in self.accesses.items():
            shape = list(buffer.shape)
            grows = False
            for number, index in enumerate(indices):
                if not isinstance(index, Var) or self.unchanged.get(index, True):
                    continue
                old = next(i.domain.extent for i in self.block.iter_vars if i.var is index)
                if not self.analyzer.can_prove_equal(
                    old.astype(shape[number].dtype), shape[number]
                ):
                    raise self.refuse(
                        f"iterator '{index.name}' covers {old} of the {shape[number]} elements in "
                        f"dimension {number} of '{buffer.name}'"
                    )
                shape[number] = self.extents[index].astype(shape[number].dtype)
                grows = True
            if grows:
                offset = const(0, buffer.elem_offset.dtype)
                name = f"{buffer.name}_pad"
                new = buffer_with(buffer, name, shape=tuple(shape), strides=(), elem_offset=offset)
                made.append((buffer, new))
        return made

    def copy(self, source: Buffer, target: Buffer, fills: bool) -> Stmt:
        """Return a nest that copies into the padded buffer with zeros around the data, or back out
        of it.
        """
        shape = target.shape
        loops = [Var(f"i{k}", size.dtype) for k, size in enumerate(shape)]
        iterators = [
            IterVar(Range.from_min_extent(const(0, size.dtype), size), Var(f"v{k}", size.dtype), 0)
            for k, size in enumerate(shape)
        ]
        indices = [iterator.var for iterator in iterators]
        value: PrimExpr = BufferLoad(source, indices)
        if fills:
            inside = [
                index < size
                for index, size, own in zip(indices, source.shape, shape)
                if not self.analyzer.can_prove_equal(size, own)
            ]
            value = if_then_else(all_of(*inside), value, const(0, source.dtype))
        block = Block(
            iterators,
            [BufferRegion.from_point(source, indices)],
            [BufferRegion.from_point(target, indices)],
            target.name if fills else source.name,
            BufferStore(target, value, indices),
        )
        nest: Stmt = BlockRealize(loops, const(True, "bool"), block)
        for variable, size in zip(reversed(loops), reversed(shape)):
            nest = For(variable, const(0, size.dtype), size, ForKind.SERIAL, nest)
        return nest

    def padded(self, copies: dict[Buffer, Buffer]) -> tuple[Stmt, Block]:
        """Return the nest with its new extents, which accesses the copies."""
        block = substitute(self.block, {}, buffers=copies)
        iterators = []
        for iterator in block.iter_vars:
            extent = self.extents[iterator.var]
            iterators.append(
                iterator.with_fields(dom=Range.from_min_extent(iterator.domain.min, extent))
            )
        block = block.with_fields(iter_vars=tuple(iterators))
        body: Stmt = self.realize.with_fields(block=block)
        new_extent = dict(zip(self.realize.iter_values, self.extents.values()))
        for cursor in reversed(self.loops):
            loop = cursor.stmt
            extent = new_extent[loop.loop_var].astype(loop.loop_var.dtype)
            body = loop.with_fields(extent=extent, body=body)
        return body, block


def _same_const(a: PrimExpr, b: PrimExpr) -> bool:
    return isinstance(a, IntImm) and isinstance(b, IntImm) and a.value == b.value

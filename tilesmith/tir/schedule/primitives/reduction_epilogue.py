"""Defines fuse_reduction_epilogue, which initialises a reduction with the value that its epilogue
adds.

    C = sum over k of A * B                     with T.init():
    D = C + bias                                    D = bias
                                                D = D + A * B

In general: where the epilogue combines the result with an addend by the reduction's own operator,
the addend can be combined with the first value instead.
"""

from __future__ import annotations

from collections.abc import Callable

from tilesmith.arith import Analyzer
from tilesmith.ir import Add, BinaryOp, Max, Min, Mul, PrimExpr, Sub, Var, is_const
from tilesmith.ir import operators as ops
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.functor import Substitution
from tilesmith.tir.queries import loads
from tilesmith.tir.schedule.blocks import (
    check_covers_domain,
    check_in_sight,
    consumers_of,
    is_output_block,
    scope_of,
    why_not_complete,
    why_not_reduction,
)
from tilesmith.tir.schedule.cursor import BlockCursor
from tilesmith.tir.schedule.errors import refuse
from tilesmith.tir.schedule.nests import Rebuild, remove_block
from tilesmith.tir.schedule.primitive import primitive
from tilesmith.tir.schedule.primitives.compute_inline import drop_allocation, with_regions
from tilesmith.tir.stmt import BlockRealize, BufferStore

__all__ = ["fuse_reduction_epilogue"]

PRIMITIVE = "fuse_reduction_epilogue"
COMBINERS: dict[type[BinaryOp], Callable[..., PrimExpr]] = {
    Add: ops.add,
    Mul: ops.multiply,
    Min: ops.minimum,
    Max: ops.maximum,
}


@primitive()
def fuse_reduction_epilogue(reduction_block: BlockCursor, epilogue_block: BlockCursor) -> None:
    """Initialise a reduction with the value that its epilogue adds to the result, and remove the
    epilogue.

      C = sum of A * B;  D = C + bias
    fuse_reduction_epilogue(C, D)
      with T.init(): D = bias
      D = D + A * B

    The epilogue must combine the result by the reduction's own operator with something that
    does not depend on it, and be the only one that reads the result.
    """
    fusion = _Fusion(reduction_block, epilogue_block)
    new = with_regions(fusion.fused())
    scope, buffer = fusion.scope, fusion.partial
    reduction_block.replace(new, {fusion.block: new.block})
    remove_block(epilogue_block)
    drop_allocation(scope, buffer)


class _Retarget(Rebuild):
    """Redirects loads of the partial result to the epilogue's output."""

    def __init__(self, old: Buffer, load: BufferLoad) -> None:
        super().__init__()
        self.old = old
        self.load = load

    def visit_BufferLoad(self, load: BufferLoad) -> BufferLoad:
        return self.load if load.buffer is self.old else self.children(load)


class _Fusion:
    """A reduction and its epilogue, checked."""

    def __init__(self, cursor: BlockCursor, epilogue: BlockCursor) -> None:
        self.cursor = cursor
        self.epilogue = epilogue
        self.realize = cursor.stmt
        self.block = self.realize.block
        self.after = epilogue.block
        self.scope = scope_of(cursor)
        self.check_blocks()
        self.update, self.init = self.reduction_stores()
        self.partial = self.update.buffer
        self.check_between()
        self.combiner = self.find_combiner()
        self.operator, self.addend = self.find_addend()
        self.mapping = self.iterators()

    def refuse(self, reason: str, advice: str = "", first: bool = False) -> Exception:
        culprit = self.cursor if first else self.epilogue
        return refuse(reason, culprit, advice)

    def check_blocks(self) -> None:
        name, other = self.block.name_hint, self.after.name_hint
        if self.epilogue.scope() != self.scope:
            raise self.refuse(f"blocks '{name}' and '{other}' are not in the same block scope")
        reason = why_not_reduction(self.cursor, self.scope)
        if reason:
            raise self.refuse(f"block '{name}' is not a reduction block: {reason}", first=True)
        reason = why_not_complete(self.epilogue, self.scope)
        if reason:
            raise self.refuse(f"block '{other}' is not a complete block: {reason}")
        if is_output_block(self.cursor, self.scope):
            raise self.refuse(f"block '{name}' is an output block of its scope", first=True)
        if consumers_of(self.cursor, self.scope) != [self.epilogue]:
            raise self.refuse(f"block '{other}' is not the only one that reads what '{name}' makes")
        check_covers_domain(self.epilogue)
        check_in_sight(self.epilogue, [self.cursor])

    def reduction_stores(self) -> tuple[BufferStore, BufferStore]:
        update, init = self.block.body, self.block.init
        if not isinstance(update, BufferStore) or not isinstance(init, BufferStore):
            name = self.block.name_hint
            raise self.refuse(f"block '{name}' is more than one store and its init", first=True)
        if init.buffer is not update.buffer:
            raise self.refuse("the init writes another buffer than the update", first=True)
        return update, init

    def check_between(self) -> None:
        """Check that no block between the two accesses a buffer that the fused block uses earlier
        or later than before.
        """
        blocks = self.scope.blocks_below()
        start, end = blocks.index(self.cursor), blocks.index(self.epilogue)
        outputs = [region.buffer for region in self.after.writes]
        inputs = [region.buffer for region in self.after.reads]
        for cursor in blocks[start:end]:
            block = cursor.block
            for region in (*block.reads, *block.writes):
                is_own = cursor == self.cursor and region.buffer is self.partial
                is_written = any(region is one for one in block.writes)
                clash = any(region.buffer is one for one in outputs) or (
                    is_written and any(region.buffer is one for one in inputs)
                )
                if clash and not is_own:
                    raise self.refuse(
                        f"block '{block.name_hint}' uses '{region.buffer.name}' before the epilogue"
                    )

    def find_combiner(self) -> type[BinaryOp]:
        value = self.update.value
        if isinstance(value, BinaryOp) and type(value) in COMBINERS:
            for part in (value.a, value.b):
                if isinstance(part, BufferLoad) and part.buffer is self.partial:
                    return type(value)
        raise self.refuse(f"{value} does not combine the result with a new term", first=True)

    def find_addend(self) -> tuple[type[BinaryOp], PrimExpr]:
        """Return the operator of the epilogue and its other operand."""
        store = self.after.body
        advice = (
            f"the epilogue must be D[...] = C[...] combined by {self.combiner.__name__} with "
            "something else; for others use reverse_compute_at"
        )
        if not isinstance(store, BufferStore) or self.after.alloc_buffers:
            raise self.refuse(f"block '{self.after.name_hint}' is more than one store", advice)
        self.store = store
        if store.buffer.dtype is not self.partial.dtype:
            raise self.refuse(
                f"'{store.buffer.name}' is {store.buffer.dtype}, the reduction adds in "
                f"{self.partial.dtype}"
            )
        value = store.value
        takes = (Add, Sub) if self.combiner is Add else (self.combiner,)
        if isinstance(value, takes):
            pairs = [(value.a, value.b)]
            if not isinstance(value, Sub):
                pairs.append((value.b, value.a))
            for one, other in pairs:
                if isinstance(one, BufferLoad) and one.buffer is self.partial:
                    if next(loads(other, self.partial), None) is None:
                        self.load = one
                        return type(value), other
        raise self.refuse(f"the epilogue computes {value}", advice)

    def iterators(self) -> dict[Var, PrimExpr]:
        """Return the epilogue's iterators in terms of the reduction's."""
        mapping: dict[Var, PrimExpr] = {}
        analyzer = Analyzer()
        domains = {iterator.var: iterator.domain for iterator in self.after.iter_vars}
        for index, size, own in zip(self.load.indices, self.partial.shape, self.update.indices):
            if is_const(index) and is_const(size, 1):
                continue
            if not isinstance(index, Var) or index not in domains or index in mapping:
                raise self.refuse(f"the epilogue reads '{self.partial.name}' at {index}")
            dom = domains[index]
            if not (
                analyzer.can_prove_equal(dom.min, 0)
                and analyzer.can_prove_equal(dom.extent.astype(size.dtype), size)
            ):
                raise self.refuse(f"the epilogue does not read all of '{self.partial.name}'")
            mapping[index] = own
        for variable, dom in domains.items():
            if variable not in mapping:
                if not is_const(dom.extent, 1):
                    raise self.refuse(f"iterator '{variable.name}' repeats the result")
                mapping[variable] = dom.min
        return mapping

    def fused(self) -> BlockRealize:
        """Return the reduction that writes the epilogue's output."""
        replace = Substitution(self.mapping)
        target = self.store.buffer
        indices = [replace.visit(index) for index in self.store.indices]
        first, addend = self.init.value, replace.visit(self.addend)
        if self.operator is Sub:
            start = first - addend
        elif is_const(first, 0) and self.operator is Add:
            start = addend
        else:
            start = COMBINERS[self.operator](first, addend)
        value = _Retarget(self.partial, BufferLoad(target, indices)).visit(self.update.value)
        block = self.block.with_fields(
            body=BufferStore(target, value, indices), init=BufferStore(target, start, indices)
        )
        return self.realize.with_fields(block=block)

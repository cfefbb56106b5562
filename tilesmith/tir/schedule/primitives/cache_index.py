"""Defines cache_index, which precomputes indices before the block and stores them in buffers."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import (
    And,
    Call,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Mod,
    Or,
    PrimExpr,
    Range,
    Select,
    Var,
    Visitor,
    const,
    structural_equal,
)
from tilesmith.ir.intrinsics import effect_of
from tilesmith.ir.op import CallEffectKind
from tilesmith.ir.operators import is_const
from tilesmith.ir.queries import any_node, calls, is_call, variables
from tilesmith.tir.analysis import side_effect
from tilesmith.tir.buffer import Buffer, decl_buffer
from tilesmith.tir.expr import BufferLoad, BufferRegion, IterVar
from tilesmith.tir.functor import substitute
from tilesmith.tir.queries import loads, stores
from tilesmith.tir.schedule.blocks import scope_of
from tilesmith.tir.schedule.cursor import BlockCursor
from tilesmith.tir.schedule.nests import Rebuild
from tilesmith.tir.schedule.parameters import StorageScope
from tilesmith.tir.schedule.primitive import primitive
from tilesmith.tir.schedule.primitives.compute_inline import with_regions
from tilesmith.tir.schedule.primitives.copies import check_outside_init, insert_nest, nest_of
from tilesmith.tir.schedule.primitives.reduction import add_allocation
from tilesmith.tir.stmt import Block, BlockRealize, BufferStore, For

__all__ = ["cache_index"]


@primitive()
def cache_index(
    block: BlockCursor, storage_scope: StorageScope, cse_thresh: int = 0
) -> list[BlockCursor]:
    """Precompute the indices at which a block accesses its buffers, and store them in buffers.

        B[vi, vj] = A[vi // 4 + vj // 4, vj // 2]
      cache_index(block, "global")
        index_var_0[vi, vj] = vi // 4 + vj // 4    # a block before
        index_var_1[vj] = vj // 2                  # another one
        B[vi, vj] = A[index_var_0[vi, vj], index_var_1[vj]]

    What is computed from elements of buffers that nothing in the scope writes counts, too, with its
    checks, where the block reads it in any case. ``cse_thresh`` above 1: only what occurs so many
    times, parts of indices included. Gives the blocks that compute, none where no index is
    computed.
    """
    scope = scope_of(block)
    check_outside_init(scope, [block])
    realize = block.stmt
    written = [store.buffer for store in stores(scope.stmt)]
    finder = _Computations(realize.block, cse_thresh, written)
    finder.is_certain &= _always_runs(block)
    finder.visit(realize.block.body)
    if realize.block.init is not None:
        finder.visit(realize.block.init)
    chosen = finder.chosen()
    if not chosen:
        return []
    tables: list[tuple[PrimExpr, BufferLoad]] = []
    stages: list[tuple[BlockRealize, list[tuple[Var, PrimExpr]]]] = []
    buffers: list[Buffer] = []
    for number, expr in enumerate(chosen):
        used = set(variables(expr))
        iterators = [i for i in realize.block.iter_vars if i.var in used]
        shape = [iterator.domain.extent for iterator in iterators]
        buffer = decl_buffer(shape, expr.dtype, f"index_var_{number}", scope=storage_scope)
        buffers.append(buffer)
        places = [_from_zero(iterator.var, iterator.domain) for iterator in iterators]
        tables.append((expr, BufferLoad(buffer, places)))
        stages.append(_stage(expr, buffer, iterators, f"index_{number}"))
    rewrite = _UseTables(tables)
    new = with_regions(rewrite.children(realize))
    block.replace(new, {realize.block: new.block})
    for stage, loops in stages:
        insert_nest(scope, nest_of(stage, loops), block, before=True)
    add_allocation(scope, buffers)
    return [scope.block_of(stage.block) for stage, _ in stages]


def _from_zero(variable: Var, domain: Range) -> PrimExpr:
    return variable if is_const(domain.min, 0) else variable - domain.min


def _stage(
    expr: PrimExpr, buffer: Buffer, iterators: list[IterVar], name: str
) -> tuple[BlockRealize, list[tuple[Var, PrimExpr]]]:
    """Return the block that fills a table with the values of an expression."""
    loops: list[tuple[Var, PrimExpr]] = []
    own, values, mapping, places = [], [], {}, []
    for number, iterator in enumerate(iterators):
        variable = Var(f"v{number}", iterator.var.dtype)
        mapping[iterator.var] = variable
        own.append(IterVar(iterator.dom, variable, IterVar.DataPar))
        loops.append((Var(f"ax{number}", variable.dtype), iterator.domain.extent))
        low = iterator.domain.min
        values.append(loops[-1][0] if is_const(low, 0) else low + loops[-1][0])
        places.append(_from_zero(variable, iterator.domain))
    value = substitute(expr, mapping)
    writes = [BufferRegion.from_point(buffer, places)]
    block = Block(own, [], writes, name, BufferStore(buffer, value, places))
    return with_regions(BlockRealize(values, const(True, "bool"), block)), loops


class _Computations(Visitor):
    """Collects the computations in the indices of a block that depend on its iterators only, and on
    memory other than what is ``written``.

    ``threshold`` above 1: a computation counts if it occurs so often, as a whole or as a part.
    """

    def __init__(self, block: Block, threshold: int, written: list[Buffer]) -> None:
        self.iterators = {iterator.var for iterator in block.iter_vars}
        self.threshold = threshold
        self.written = written
        self.is_certain = isinstance(block.body, BufferStore)
        self.counts: list[tuple[PrimExpr, int]] = []
        self.is_index = False

    def visit_BufferLoad(self, load: BufferLoad) -> None:
        self._indices(load)

    def visit_BufferStore(self, store: BufferStore) -> None:
        self._indices(store)
        self.visit(store.value)

    def _indices(self, access: Any) -> None:
        outer = self.is_index
        self.is_index = True
        for index in access.indices:
            self.visit(index)
        self.is_index = outer

    def visit_BufferRegion(self, region: Any) -> None:
        pass

    def visit_Block(self, block: Block) -> None:
        """Skip an inner block: its computations depend on its own iterators."""

    def visit_PrimExpr(self, expr: PrimExpr) -> None:
        """Count a computation; with repeated parts requested, look for smaller ones."""
        if not self.is_index or not expr.dtype.is_integer or not self._serves(expr):
            outer = self.is_certain
            self.is_certain &= not _chooses(expr)
            self.visit_children(expr)
            self.is_certain = outer
            return
        for number, (known, count) in enumerate(self.counts):
            if structural_equal(known, expr):
                self.counts[number] = (known, count + 1)
                break
        else:
            self.counts.append((expr, 1))
        if self.threshold > 1:
            self.visit_children(expr)

    def _serves(self, expr: PrimExpr) -> bool:
        if isinstance(expr, Var) or is_const(expr) or not set(variables(expr)) <= self.iterators:
            return False
        if expr.dtype.lanes != 1 or not (_is_pure(expr) or self._reads_same(expr)):
            return False
        return _divides_by_constants(expr) and bool(variables(expr))

    def _reads_same(self, expr: PrimExpr) -> bool:
        """Return whether an expression may be computed before the block, though it reads memory and
        may end the program with an error.
        """
        acts = any(not is_call(call, "tir.checked") and not _is_pure_call(call)
                   for call in calls(expr))  # fmt: skip
        same = not any(load.buffer is one for load in loads(expr) for one in self.written)
        return self.is_certain and same and not acts

    def chosen(self) -> list[PrimExpr]:
        """Return the computations to store, larger ones before their own parts."""
        return [expr for expr, count in self.counts if count >= self.threshold]


def _always_runs(block: BlockCursor) -> bool:
    """Return whether a block runs for all values of its iterators."""
    scope = scope_of(block)
    around = []
    for one in block.ancestors():
        if one == scope:
            break
        around.append(one)
    return is_const(block.stmt.predicate, 1) and all(isinstance(one.stmt, For) for one in around)


def _is_pure(expr: PrimExpr) -> bool:
    return side_effect(expr) <= CallEffectKind.Pure


def _is_pure_call(call: Call) -> bool:
    return effect_of(call) <= CallEffectKind.Pure


def _chooses(expr: PrimExpr) -> bool:
    """Return whether parts of an expression are computed only if a condition holds."""
    return isinstance(expr, And | Or | Select) or is_call(expr, "tir.if_then_else")


def _divides_by_constants(expr: PrimExpr) -> bool:
    """Return whether all divisors are constants; other divisions may be guarded by a condition and
    must stay in place.
    """
    divisions = (FloorDiv, FloorMod, Div, Mod)
    return not any_node(expr, lambda one: isinstance(one, divisions) and not _is_nonzero(one.b))


def _is_nonzero(divisor: PrimExpr) -> bool:
    return isinstance(divisor, IntImm) and divisor.value != 0


class _UseTables(Rebuild):
    """Replaces computations in indices by loads from their tables."""

    def __init__(self, tables: list[tuple[PrimExpr, BufferLoad]]) -> None:
        super().__init__()
        self.tables = tables
        self.is_index = False

    def visit_BufferLoad(self, load: BufferLoad) -> BufferLoad:
        """Rewrite a read."""
        return load.with_fields(indices=self._indices(load))

    def visit_BufferStore(self, store: BufferStore) -> BufferStore:
        """Rewrite a write."""
        return store.with_fields(indices=self._indices(store), value=self.visit(store.value))

    def _indices(self, access: Any) -> tuple[PrimExpr, ...]:
        outer = self.is_index
        self.is_index = True
        indices = tuple([self.visit(index) for index in access.indices])
        self.is_index = outer
        return indices

    def visit_BufferRegion(self, region: BufferRegion) -> BufferRegion:
        """Keep regions; they are detected anew afterwards."""
        return region

    def visit_Block(self, block: Block) -> Block:
        """Rewrite the block itself; blocks inside of it stay as they are."""
        if self.reuse:
            return block
        self.reuse[block] = block
        init = None if block.init is None else self.visit(block.init)
        return block.with_fields(body=self.visit(block.body), init=init)

    def visit_PrimExpr(self, expr: PrimExpr) -> PrimExpr:
        """Return the load that replaces an expression."""
        if self.is_index:
            for known, load in self.tables:
                if structural_equal(known, expr):
                    return load
        return self.children(expr)

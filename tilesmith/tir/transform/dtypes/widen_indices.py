"""Widens the loops and indices of a function to 64 bits where some have 32 bits and others 64.

    for i in range(4):                          for i in range(T.int64(4)):
        B[i] = A[i + 1]                             B[i] = A[i + T.int64(1)]
        C[i] = i                                    C[i] = T.Cast("int32", i)
    for j in range(T.int64(4)): …               for j in range(T.int64(4)): …

Programs that become one (fusion) may have been written with either. Primitives put expressions of
one loop in the place of another loop's, so all loops of a function should count in one dtype.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import (
    Add,
    BinaryOp,
    CompareOp,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Node,
    PrimExpr,
    Range,
    Rewriter,
    Sub,
    Var,
    const,
)
from tilesmith.ir import operators as ops
from tilesmith.ir.queries import any_node, nodes
from tilesmith.tir.expr import BufferLoad, BufferRegion, IterVar
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import Block, BlockRealize, BufferStore, For, Stmt

__all__ = ["widen_mixed_indices"]

_ARITHMETIC = (Add, Sub, Mul, FloorDiv, FloorMod, Min, Max)


def widen_mixed_indices(function: PrimFunc) -> PrimFunc:
    """Return a function whose loops and indices all have 64 bits if some of its loops have; else
    the function itself. The elements that it computes stay the same.
    """
    counted = {loop.loop_var.dtype for loop in nodes(function.body, For)}
    counted |= {
        one.var.dtype for block in nodes(function.body, Block) for one in block.iter_vars
    }  # fmt: skip
    if not {"int32", "int64"} <= {str(dtype) for dtype in counted}:
        return function
    return function.with_body(_Widener().visit(function.body))


def _is_load(node: Node) -> bool:
    return isinstance(node, BufferLoad)


class _Widener(Rewriter):
    def __init__(self) -> None:
        self.variables: dict[Var, Var] = {}  # loops and iterators of 32 bits → those of 64

    def visit_Var(self, node: Any) -> Any:
        wide = self.variables.get(node)
        return node if wide is None else ops.cast(node.dtype, wide)

    def renew(self, variable: Var) -> Var:
        """Return the variable of 64 bits for one of 32; other ones as they are."""
        if variable.dtype != "int32":
            return variable
        made = self.variables[variable] = Var(variable.name, "int64", variable.span)
        return made

    def wide(self, expr: PrimExpr) -> PrimExpr:
        """Return an index in 64 bits."""
        if expr.dtype != "int32":
            return self.visit(expr)
        if isinstance(expr, IntImm):
            return const(expr.value, "int64")
        if isinstance(expr, Var) and expr in self.variables:
            return self.variables[expr]
        if isinstance(expr, _ARITHMETIC) and not any_node(expr, _is_load):  # data may wrap around
            return type(expr)(self.wide(expr.a), self.wide(expr.b))
        return ops.cast("int64", self.visit(expr))

    def wide_range(self, bounds: Range) -> Range:
        return Range.from_min_extent(self.wide(bounds.min), self.wide(bounds.extent))

    def comparison(self, node: BinaryOp) -> PrimExpr:
        left, right = node.a, node.b
        if left.dtype == "int32" and isinstance(node, CompareOp):
            return type(node)(self.wide(left), self.wide(right))
        return self.children(node)

    visit_EQ = visit_NE = visit_LT = visit_LE = visit_GT = visit_GE = comparison

    def visit_BufferLoad(self, load: BufferLoad) -> PrimExpr:
        load = load.with_fields(indices=tuple([self.wide(index) for index in load.indices]))
        return load if load.predicate is None else load.with_fields(
            predicate=self.visit(load.predicate)
        )  # fmt: skip

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        predicate = None if store.predicate is None else self.visit(store.predicate)
        return store.with_fields(
            value=self.visit(store.value),
            indices=tuple([self.wide(index) for index in store.indices]),
            predicate=predicate,
        )

    def visit_BufferRegion(self, region: BufferRegion) -> BufferRegion:
        return region.with_fields(region=tuple([self.wide_range(one) for one in region.region]))

    def visit_For(self, loop: For) -> Stmt:
        if loop.loop_var.dtype != "int32" or loop.thread_binding is not None:
            return self.children(loop)
        low, extent = self.wide(loop.min), self.wide(loop.extent)
        variable = self.renew(loop.loop_var)
        body = self.visit(loop.body)
        return loop.with_fields(loop_var=variable, min=low, extent=extent, body=body)

    def visit_BlockRealize(self, realize: BlockRealize) -> Stmt:
        return realize.with_fields(
            iter_values=tuple([self.wide(value) for value in realize.iter_values]),
            predicate=self.visit(realize.predicate),
            block=self.visit(realize.block),
        )

    def visit_Block(self, block: Block) -> Block:
        iterators = [
            one.with_fields(dom=self.wide_range(one.domain), var=self.renew(one.var))
            for one in block.iter_vars
        ]
        return self.children(block.with_fields(iter_vars=())).with_fields(
            iter_vars=tuple(iterators)
        )

    def visit_IterVar(self, iterator: IterVar) -> IterVar:
        return iterator  # of a thread: it keeps its dtype

"""Changes the dtype of index arithmetic, and gives the operands of an operator one dtype again."""

from __future__ import annotations

from tilesmith.ir import (
    BinaryOp,
    Call,
    Cast,
    IntImm,
    PrimExpr,
    Rewriter,
    Select,
    Var,
    const,
)
from tilesmith.ir.operators import cast
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.expr import ProducerLoad

__all__ = ["IndexDtype", "MatchDtypes", "same_dtype"]


def same_dtype(a: PrimExpr, b: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """Cast both operands to the wider of their dtypes; needed where indices of the old and the new
    dtype meet.
    """
    if a.dtype is b.dtype:
        return a, b
    wide = a.dtype if a.dtype.bits >= b.dtype.bits else b.dtype
    return cast(wide, a), cast(wide, b)


class MatchDtypes(Rewriter):
    """Rewrites expressions and gives operands of one operator a common dtype again."""

    def visit_BinaryOp(self, node: BinaryOp) -> PrimExpr:
        a, b = self.visit(node.a), self.visit(node.b)
        if a is node.a and b is node.b:
            return node
        return type(node)(*same_dtype(a, b))

    def visit_Cast(self, node: Cast) -> PrimExpr:
        value = self.visit(node.value)
        return node if value is node.value else cast(node.dtype, value)

    def visit_Select(self, node: Select) -> PrimExpr:
        condition = self.visit(node.condition)
        a, b = self.visit(node.true_value), self.visit(node.false_value)
        if condition is node.condition and a is node.true_value and b is node.false_value:
            return node
        return type(node)(condition, *same_dtype(a, b))


class IndexDtype(MatchDtypes):
    """Changes the dtype of integers in index arithmetic."""

    def __init__(self, dtype: str) -> None:
        self.dtype = DataType(dtype)
        self.variables: dict[Var, Var] = {}

    def convert(self, expr: PrimExpr) -> PrimExpr:
        """Convert an index or size to the dtype."""
        if expr.dtype is self.dtype or not expr.dtype.is_integer:
            return expr
        converted = self.visit(expr)
        return cast(self.dtype, converted)

    def visit_IntImm(self, node: IntImm) -> PrimExpr:
        return const(node.value, self.dtype) if node.dtype == "int32" else node

    def visit_Var(self, variable: Var) -> PrimExpr:
        return self.variables.get(variable, variable)

    def visit_Call(self, call: Call) -> PrimExpr:
        return call

    def visit_ProducerLoad(self, load: ProducerLoad) -> PrimExpr:
        return load

"""Evaluates the indices of index maps with numpy, for all elements of an array at once."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import (
    Add,
    Cast,
    Dispatcher,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Sub,
    Var,
)  # fmt: skip
from tilesmith.ir.expr import Call, CompareOp, Select
from tilesmith.support.errors import UnsupportedError

__all__ = ["NumpyValue"]


class NumpyValue(Dispatcher[Any]):
    """Evaluates an index expression over arrays of indices."""

    def __init__(self, values: dict[Var, Any]) -> None:
        self.values = values

    def visit_default(self, node: Any) -> Any:
        raise UnsupportedError(f"an index map cannot hold {type(node).__name__} here")

    def visit_Var(self, node: Var) -> Any:
        return self.values[node]

    def visit_IntImm(self, node: IntImm) -> Any:
        return node.value

    def visit_Cast(self, node: Cast) -> Any:
        return self.visit(node.value)

    def visit_Add(self, node: Add) -> Any:
        return self.visit(node.a) + self.visit(node.b)

    def visit_Sub(self, node: Sub) -> Any:
        return self.visit(node.a) - self.visit(node.b)

    def visit_Mul(self, node: Mul) -> Any:
        return self.visit(node.a) * self.visit(node.b)

    def visit_FloorDiv(self, node: FloorDiv) -> Any:
        return self.visit(node.a) // self.visit(node.b)

    def visit_FloorMod(self, node: FloorMod) -> Any:
        return self.visit(node.a) % self.visit(node.b)

    def visit_Min(self, node: Min) -> Any:
        import numpy

        return numpy.minimum(self.visit(node.a), self.visit(node.b))

    def visit_Max(self, node: Max) -> Any:
        import numpy

        return numpy.maximum(self.visit(node.a), self.visit(node.b))

    def visit_CompareOp(self, node: CompareOp) -> Any:
        import operator

        names = {"EQ": "eq", "NE": "ne", "LT": "lt", "LE": "le", "GT": "gt", "GE": "ge"}
        compare = getattr(operator, names[type(node).__name__])
        return compare(self.visit(node.a), self.visit(node.b))

    def visit_Select(self, node: Select) -> Any:
        import numpy

        return numpy.where(
            self.visit(node.condition), self.visit(node.true_value), self.visit(node.false_value)
        )

    def visit_Call(self, node: Call) -> Any:
        name = node.op.name
        if name == "tir.if_then_else":
            return self.visit_Select(Select(*node.args))
        if name in ("tir.shift_left", "tir.shift_right"):
            a, b = [self.visit(arg) for arg in node.args]
            return a << b if name == "tir.shift_left" else a >> b
        if name in ("tir.bitwise_and", "tir.bitwise_or", "tir.bitwise_xor"):
            a, b = [self.visit(arg) for arg in node.args]
            return {"and": a & b, "or": a | b, "xor": a ^ b}[name.removeprefix("tir.bitwise_")]
        raise UnsupportedError(f"an index map cannot hold a call of {name} here")

"""Builds the expressions of recipes as expressions of programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith import tir
from tilesmith.ir import PrimExpr, Var, const
from tilesmith.ir.operators import cast, truncdiv, truncmod
from tilesmith.support.errors import InternalError
from tilesmith.tir import Buffer

__all__ = ["BINARY", "ExpressionBuilder"]

BINARY: dict[str, Callable[[PrimExpr, PrimExpr], PrimExpr]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": tir.Div,
    "floordiv": tir.floordiv,
    "floormod": tir.floormod,
    "truncdiv": truncdiv,
    "truncmod": truncmod,
    "min": tir.Min,
    "max": tir.Max,
    "bitand": lambda a, b: a & b,
    "bitor": lambda a, b: a | b,
    "bitxor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": tir.EQ,
    "ne": tir.NE,
    "land": tir.And,
    "lor": tir.Or,
}


class ExpressionBuilder:
    """Builds expressions, given buffers by name, the values of axes, and the sizes."""

    def __init__(
        self, buffers: dict[str, Buffer], axes: dict[int, PrimExpr], sizes: Any, index: str
    ) -> None:
        self.buffers = buffers
        self.axes = axes
        self.sizes = sizes
        self.index = index
        self.lets: list[Var] = []
        self.tables: list[tuple[Buffer, list[Any]]] = []  # constant memory that expressions read
        self.fixed: dict[str, int] = {}  # leading indices that are part of a view, by tensor

    def make(self, expr: list[Any]) -> PrimExpr:
        """Return the expression that a nested list stands for."""
        kind, *parts = expr
        operator = BINARY.get(kind)
        if operator is not None:
            return operator(self.make(parts[0]), self.make(parts[1]))
        method = getattr(self, "make_" + kind, None)
        if method is None:
            raise InternalError(f"a recipe has no operator '{kind}'")
        return method(*parts)

    def make_const(self, dtype: str, value: Any) -> PrimExpr:
        return const(value, dtype)

    def make_int(self, value: int) -> PrimExpr:
        return const(value, self.index)

    def make_axis(self, number: int) -> PrimExpr:
        return self.axes[number]

    def make_scalar(self, number: int) -> PrimExpr:
        """Return a parameter of the program (``scalars``)."""
        scalar: PrimExpr = self.sizes.scalars[number]
        return scalar

    def make_size(self, size: Any) -> PrimExpr:
        return self.sizes.expr(size)

    def make_load(self, name: str, *indices: Any) -> PrimExpr:
        return tir.BufferLoad(self.buffers[name], self.make_indices(name, indices))

    def make_indices(self, name: str, indices: Any) -> list[PrimExpr]:
        """Return the indices of an access to a tensor; 0 for those that its view contains
        already.
        """
        count = self.fixed.get(name, 0)
        zeros: list[PrimExpr] = [const(0, self.index)] * count
        return zeros + [self.make(index) for index in indices[count:]]

    def make_cast(self, dtype: str, value: Any) -> PrimExpr:
        return cast(dtype, self.make(value))

    def make_index(self, value: Any) -> PrimExpr:
        return cast(self.index, self.make(value))

    def make_select(self, condition: Any, yes: Any, no: Any) -> PrimExpr:
        return tir.Select(self.make(condition), self.make(yes), self.make(no))

    def make_if(self, condition: Any, yes: Any, no: Any) -> PrimExpr:
        return tir.if_then_else(self.make(condition), self.make(yes), self.make(no))

    def make_not(self, condition: Any) -> PrimExpr:
        return tir.Not(self.make(condition))

    def make_neg(self, value: Any) -> PrimExpr:
        return -self.make(value)

    def make_call(self, name: str, *values: Any) -> PrimExpr:
        return getattr(tir, name)(*[self.make(value) for value in values])

    def make_likely(self, condition: Any) -> PrimExpr:
        hint: PrimExpr = tir.likely(self.make(condition))
        return hint

    def make_checked(self, value: Any, condition: Any) -> PrimExpr:
        """Return a value that fails where a condition does not hold."""
        made: PrimExpr = tir.checked(self.make(value), self.make(condition), "not as it should be")
        return made

    def make_table(self, dtype: str, numbers: list[Any], index: Any) -> PrimExpr:
        """Return an element of constant memory, which the builder of the stage has to allocate."""
        table = tir.decl_buffer((len(numbers),), dtype, f"table{len(self.tables)}")
        self.tables.append((table, numbers))
        return tir.BufferLoad(table, [self.make(index)])

    def make_let(self, value: Any, body: Any) -> PrimExpr:
        bound = self.make(value)
        variable = Var("x", bound.dtype)
        self.lets.append(variable)
        made = tir.Let(variable, bound, self.make(body))
        self.lets.pop()
        return made

    def make_var(self) -> PrimExpr:
        return self.lets[-1]

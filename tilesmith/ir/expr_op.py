"""Defines Python's operators as methods of expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilesmith.ir.node import Node
from tilesmith.support.errors import TypeMismatchError

if TYPE_CHECKING:
    from tilesmith.ir.expr import PrimExpr

__all__ = ["ExprOp"]


class ExprOp:
    """Mixin with Python's operators, for scalar expressions and for objects that convert to one
    (``asobject``).
    """

    __slots__ = ()

    __hash__ = object.__hash__

    def __add__(self, other: Any) -> PrimExpr:
        return operators.add(self, other)

    def __radd__(self, other: Any) -> PrimExpr:
        return operators.add(other, self)

    def __sub__(self, other: Any) -> PrimExpr:
        return operators.subtract(self, other)

    def __rsub__(self, other: Any) -> PrimExpr:
        return operators.subtract(other, self)

    def __mul__(self, other: Any) -> PrimExpr:
        return operators.multiply(self, other)

    def __rmul__(self, other: Any) -> PrimExpr:
        return operators.multiply(other, self)

    def __truediv__(self, other: Any) -> PrimExpr:
        return operators.divide(self, other)

    def __rtruediv__(self, other: Any) -> PrimExpr:
        return operators.divide(other, self)

    def __floordiv__(self, other: Any) -> PrimExpr:
        return operators.floordiv(self, other)

    def __rfloordiv__(self, other: Any) -> PrimExpr:
        return operators.floordiv(other, self)

    def __mod__(self, other: Any) -> PrimExpr:
        return operators.floormod(self, other)

    def __rmod__(self, other: Any) -> PrimExpr:
        return operators.floormod(other, self)

    def __neg__(self) -> PrimExpr:
        return operators.negate(self)

    def __lshift__(self, other: Any) -> PrimExpr:
        return operators.shift_left(self, other)

    def __rlshift__(self, other: Any) -> PrimExpr:
        return operators.shift_left(other, self)

    def __rshift__(self, other: Any) -> PrimExpr:
        return operators.shift_right(self, other)

    def __rrshift__(self, other: Any) -> PrimExpr:
        return operators.shift_right(other, self)

    def __and__(self, other: Any) -> PrimExpr:
        return operators.bitwise_and(self, other)

    def __rand__(self, other: Any) -> PrimExpr:
        return operators.bitwise_and(other, self)

    def __or__(self, other: Any) -> PrimExpr:
        return operators.bitwise_or(self, other)

    def __ror__(self, other: Any) -> PrimExpr:
        return operators.bitwise_or(other, self)

    def __xor__(self, other: Any) -> PrimExpr:
        return operators.bitwise_xor(self, other)

    def __rxor__(self, other: Any) -> PrimExpr:
        return operators.bitwise_xor(other, self)

    def __invert__(self) -> PrimExpr:
        return operators.bitwise_not(self)

    def __lt__(self, other: Any) -> PrimExpr:
        return operators.less(self, other)

    def __le__(self, other: Any) -> PrimExpr:
        return operators.less_equal(self, other)

    def __gt__(self, other: Any) -> PrimExpr:
        return operators.greater(self, other)

    def __ge__(self, other: Any) -> PrimExpr:
        return operators.greater_equal(self, other)

    def __eq__(self, other: Any) -> Any:
        if other is None or isinstance(other, (str, tuple, list, dict)):
            return False
        if isinstance(other, Node) and not isinstance(other, ExprOp):
            return NotImplemented
        return operators.equal(self, other)

    def __ne__(self, other: Any) -> Any:
        if other is None or isinstance(other, (str, tuple, list, dict)):
            return True
        if isinstance(other, Node) and not isinstance(other, ExprOp):
            return NotImplemented
        return operators.not_equal(self, other)

    def __bool__(self) -> bool:
        raise TypeMismatchError(
            f"the truth of `{self}` is not known at compile time",
            notes=(
                "use tir.all, tir.any or tir.Not instead of `and`, `or`, `not`, and "
                "`T.if_then_else` or an `if` statement to choose",
            ),
        )

    def equal(self, other: Any) -> PrimExpr:
        """Return the expression ``self == other``."""
        return operators.equal(self, other)

    def astype(self, dtype: str) -> PrimExpr:
        """This value converted to a dtype."""
        return operators.cast(dtype, self)


# Imported last: the methods need the operators, which need the classes of expressions.
from tilesmith.ir import operators  # noqa: E402

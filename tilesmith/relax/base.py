"""Base classes of graph nodes: struct info, expressions, Python operators on them."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Node, Op, RelaxExpr
from tilesmith.support.errors import TypeMismatchError

__all__ = ["Expr", "ExprWithOp", "GraphExpr", "StructInfo"]

Expr = RelaxExpr


class StructInfo(Node, key="relax.StructInfo"):
    """Base of static knowledge about values: kind, shape, dtype."""

    def is_base_of(self, derived: StructInfo) -> bool:
        """Return whether this describes every value that ``derived`` describes."""
        from tilesmith.relax import relations

        return relations.is_base_of(self, derived)


class GraphExpr(RelaxExpr, key="relax.Expr", slots=("_struct_info",)):
    """Base of the expressions of the graph."""

    @property
    def struct_info(self) -> StructInfo:
        """What is statically known about the value."""
        try:
            return self._struct_info
        except AttributeError:
            pass
        found = self._infer_struct_info()
        self._struct_info = found
        return found

    def _infer_struct_info(self) -> StructInfo:
        raise NotImplementedError(type(self).__name__)

    @property
    def checked_type(self) -> StructInfo:
        """The struct info, under its relay name."""
        return self.struct_info


def _operation(name: str, *args: Any) -> Any:
    """Make a call of an elementwise operator; Python numbers take the dtype of the other
    operand.
    """
    from tilesmith.relax.expr import Call, const

    tensor = next(arg for arg in args if isinstance(arg, RelaxExpr))
    converted = []
    for arg in args:
        if not isinstance(arg, RelaxExpr):
            arg = const(arg, _number_dtype(arg, tensor))
        converted.append(arg)
    return Call(Op.get(name), converted)


def _number_dtype(value: Any, tensor: Any) -> Any:
    if not isinstance(value, (bool, int, float)):
        return None
    dtype = getattr(tensor.struct_info, "dtype", None)
    if dtype is None or dtype.is_void:
        return None
    return "float32" if isinstance(value, float) and not dtype.is_float else dtype


class ExprWithOp(GraphExpr, key="relax.ExprWithOp"):
    """Expressions with Python's operators: arithmetic on tensors, calls, indexing of tuples."""

    def __add__(self, other: Any) -> Any:
        return _operation("relax.add", self, other)

    def __radd__(self, other: Any) -> Any:
        return _operation("relax.add", other, self)

    def __sub__(self, other: Any) -> Any:
        return _operation("relax.subtract", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _operation("relax.subtract", other, self)

    def __mul__(self, other: Any) -> Any:
        return _operation("relax.multiply", self, other)

    def __rmul__(self, other: Any) -> Any:
        return _operation("relax.multiply", other, self)

    def __truediv__(self, other: Any) -> Any:
        return _operation("relax.divide", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _operation("relax.divide", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return _operation("relax.floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _operation("relax.floor_divide", other, self)

    def __mod__(self, other: Any) -> Any:
        return _operation("relax.floor_mod", self, other)

    def __rmod__(self, other: Any) -> Any:
        return _operation("relax.floor_mod", other, self)

    def __pow__(self, other: Any) -> Any:
        return _operation("relax.power", self, other)

    def __rpow__(self, other: Any) -> Any:
        return _operation("relax.power", other, self)

    def __neg__(self) -> Any:
        return _operation("relax.negative", self)

    def __lt__(self, other: Any) -> Any:
        return _operation("relax.less", self, other)

    def __gt__(self, other: Any) -> Any:
        return _operation("relax.greater", self, other)

    def __le__(self, other: Any) -> Any:
        return _operation("relax.less_equal", self, other)

    def __ge__(self, other: Any) -> Any:
        return _operation("relax.greater_equal", self, other)

    def astype(self, dtype: Any) -> Any:
        """Return this tensor converted to a dtype."""
        from tilesmith.relax.expr import Call

        return Call(Op.get("relax.astype"), (self,), {"dtype": dtype})

    def __call__(self, *args: Any, attrs: Any = None) -> Any:
        from tilesmith.relax.expr import Call

        return Call(self, args, attrs)

    def __getitem__(self, index: Any) -> Any:
        """Return a field of a tuple."""
        from tilesmith.relax import struct_info as types
        from tilesmith.relax.expr import TupleGetItem

        info = self.struct_info
        if isinstance(info, types.TupleStructInfo):
            if not -len(info.fields) <= int(index) < len(info.fields):
                raise IndexError(f"index {index} of a tuple of {len(info.fields)} fields")
            return TupleGetItem(self, int(index) % len(info.fields))
        if isinstance(info, (types.TensorStructInfo, types.ShapeStructInfo, types.PrimStructInfo)):
            raise TypeMismatchError(
                f"only tuples are indexed, this is {type(info).__name__[:-10].lower()}; take a "
                f"part of a "
                "tensor with relax.op.strided_slice or relax.op.take"
            )
        return TupleGetItem(self, int(index))

"""Base classes of graph nodes: struct info, expressions, Python operators on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir import RelaxExpr
from tilesmith.ir.node import ComparedByStructure
from tilesmith.runtime.ffi import as_opaque
from tilesmith.support.lazy import resolve
from tilesmith.support.registry import Registry

__all__ = ["Expr", "ExprWithOp", "GraphExpr", "StructInfo"]

Expr = RelaxExpr

FUSED_PREFIX = "fused_"
"""The begin of the names of functions that hold several calls."""

SYNTAX: Registry[Callable[..., Any]] = Registry(
    "Python syntax of graph expressions", {"": "tilesmith.relax.expr"}
)
"""What Python's syntax makes of graph expressions: "operator" (``x + y``), "call" (``f(x)``) and
"index" (``x[0]``). ``expr.py`` registers the functions, since it has the nodes that they make."""


VIEWS: Registry[Callable[..., Any]] = Registry(
    "views of struct info", {"": "tilesmith.relax.type_views"}
)
"""Other forms of what is known about a value: "type", as the functional door shows it."""


class StructInfo(ComparedByStructure, key="relax.StructInfo"):
    """Base of static knowledge about values: kind, shape, dtype."""

    def is_base_of(self, derived: StructInfo) -> bool:
        """Return whether this describes every value that ``derived`` describes."""
        return bool(resolve("tilesmith.relax.relations:is_base_of")(self, derived))


class GraphExpr(RelaxExpr, key="relax.Expr", slots=("_struct_info",)):
    """Base of the expressions of the graph."""

    _struct_info: StructInfo

    # The door that an expression came through: "relax" (bindings), "relay" (expressions that nest).
    # It decides which operator `x + y` calls, how the text looks, and what checked_type is.
    dialect: str = "relax"

    # Packed functions get it as what it is, not as a function that they may call.
    __tvm_ffi_object__ = as_opaque

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
    def checked_type(self) -> Any:
        """What is known about the value: its type under the functional door, else its struct
        info.
        """
        info = self.struct_info
        if self.dialect != "relay":
            return info
        return VIEWS["type"](getattr(self, "_struct_info", None) if info is None else info)

    @property
    def _checked_type_(self) -> StructInfo:
        """The struct info, as programs of 2022 ask for it."""
        return self.struct_info

    @property
    def shape_(self) -> RelaxExpr | None:
        """The shape of a tensor where it is known, as programs of 2022 ask for it."""
        return getattr(self.struct_info, "shape", None)


class ExprWithOp(GraphExpr, key="relax.ExprWithOp"):
    """Expressions with Python's operators: arithmetic on tensors, calls, indexing of tuples."""

    def __add__(self, other: Any) -> Any:
        return SYNTAX["operator"]("relax.add", self, other)

    def __radd__(self, other: Any) -> Any:
        return SYNTAX["operator"]("relax.add", other, self)

    def __sub__(self, other: Any) -> Any:
        return SYNTAX["operator"]("relax.subtract", self, other)

    def __rsub__(self, other: Any) -> Any:
        return SYNTAX["operator"]("relax.subtract", other, self)

    def __mul__(self, other: Any) -> Any:
        return SYNTAX["operator"]("relax.multiply", self, other)

    def __rmul__(self, other: Any) -> Any:
        return SYNTAX["operator"]("relax.multiply", other, self)

    def __truediv__(self, other: Any) -> Any:
        return SYNTAX["operator"]("relax.divide", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return SYNTAX["operator"]("relax.divide", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return SYNTAX["operator"]("relax.floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return SYNTAX["operator"]("relax.floor_divide", other, self)

    def __mod__(self, other: Any) -> Any:
        return SYNTAX["operator"]("relax.floor_mod", self, other)

    def __rmod__(self, other: Any) -> Any:
        return SYNTAX["operator"]("relax.floor_mod", other, self)

    def __pow__(self, other: Any) -> Any:
        return SYNTAX["operator"]("relax.power", self, other)

    def __rpow__(self, other: Any) -> Any:
        return SYNTAX["operator"]("relax.power", other, self)

    def __neg__(self) -> Any:
        return SYNTAX["operator"]("relax.negative", self)

    def __lt__(self, other: Any) -> Any:
        return SYNTAX["operator"]("relax.less", self, other)

    def __gt__(self, other: Any) -> Any:
        return SYNTAX["operator"]("relax.greater", self, other)

    def __le__(self, other: Any) -> Any:
        return SYNTAX["operator"]("relax.less_equal", self, other)

    def __ge__(self, other: Any) -> Any:
        return SYNTAX["operator"]("relax.greater_equal", self, other)

    def astext(self, show_meta_data: bool = True, annotate: Any = None) -> str:
        """Return the text of this expression; ``annotate`` gives a comment for an expression."""
        return str(SYNTAX["text"](self, show_meta_data, annotate))

    def astype(self, dtype: Any) -> Any:
        """Return this tensor converted to a dtype."""
        return SYNTAX["astype"](self, dtype)

    def __call__(self, *args: Any, attrs: Any = None) -> Any:
        return SYNTAX["call"](self, args, attrs)

    def __getitem__(self, index: Any) -> Any:
        """Return a field of a tuple."""
        return SYNTAX["index"](self, index)

    # What the program asks of a tensor when it runs

    @property
    def dtype(self) -> Any:
        """The parts of a tensor's dtype, read when the program runs: ``x.dtype.bits``."""
        return _part(self, "dtype")

    @property
    def ndim(self) -> Any:
        """A call that gives the rank of a tensor."""
        return _part(self, "ndim")

    @property
    def shape(self) -> Any:
        """The sizes of a tensor: ``x.shape[0]`` is a call that gives one."""
        return _part(self, "shape")

    @property
    def strides(self) -> Any:
        """The strides of a tensor: ``x.strides[0]`` is a call that gives one."""
        return _part(self, "strides")

    @property
    def byte_offset(self) -> Any:
        """A call that gives where a tensor begins in its memory, in bytes."""
        return _part(self, "byte_offset")

    @property
    def elem_offset(self) -> Any:
        """A call that gives where a tensor begins in its memory, in elements."""
        return _part(self, "elem_offset")


def _part(expr: ExprWithOp, name: str) -> Any:
    return resolve("tilesmith.relax.op.inspect:parts_of")(expr, name)

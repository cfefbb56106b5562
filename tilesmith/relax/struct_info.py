"""Static knowledge about a value of the graph (rank, shape, dtype, fields of a tuple), and the
expressions that it names: variables, scalars, shapes.

A size is a scalar expression of int64. Variables in the sizes of a function's parameters are bound
by the call; a ``MatchCast`` binds the variables that it names first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilesmith.ir import IntImm, PrimExpr, Type, child, const, convert, note
from tilesmith.ir import data as data_field
from tilesmith.relax.base import VIEWS, ExprWithOp, GraphExpr, StructInfo
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import ShapeError, TypeMismatchError
from tilesmith.support.lazy import resolve

__all__ = [
    "FuncStructInfo", "ObjectStructInfo", "PrimStructInfo", "ShapeStructInfo", "StructInfo",
    "TensorStructInfo", "TupleStructInfo",
]  # fmt: skip


class Var(ExprWithOp, key="relax.Var"):
    """A variable of the graph. Two variables are the same only if they are one object."""

    is_atom = True
    is_variable = True

    name_hint: str = note()
    struct_info: StructInfo | None = child(default=None)
    span: Any = note(default=None)
    dialect: str = note(default="relax")

    def __init__(
        self, name_hint: Any, struct_info: Any = None, span: Any = None, dialect: str | None = None
    ) -> None:
        name_hint = getattr(name_hint, "name_hint", name_hint)
        if not isinstance(name_hint, str):
            raise TypeMismatchError(f"the name of a variable is a text, got {name_hint!r}")
        self.name_hint = name_hint
        if isinstance(span, StructInfo):  # Var(name, shape, type), as programs of 2022 write it
            struct_info, span = with_shape(span, struct_info), None
        if dialect is None:  # types are written, or left open, under the functional door
            dialect = "relay" if struct_info is None or isinstance(struct_info, Type) else "relax"
        if struct_info is not None:
            struct_info = as_struct_info(struct_info)
        self.struct_info = struct_info
        self.span = span
        self.dialect = dialect

    @property
    def type_annotation(self) -> Type | None:
        """The type that was written, or None."""
        return None if self.struct_info is None else VIEWS["type"](self.struct_info)

    @property
    def name(self) -> str:
        """The name, a hint."""
        return self.name_hint

    @property
    def vid(self) -> Var:
        """The identity of the variable: the variable itself."""
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name_hint!r})"


class DataflowVar(Var, key="relax.DataflowVar"):
    """A variable that is visible only inside its dataflow block."""


def as_struct_info(value: Any) -> StructInfo:
    """Convert to a struct info, also from the script's proxies (``R.Tensor`` with names)."""
    if isinstance(value, StructInfo):
        return value
    if isinstance(value, Type):
        return resolve("tilesmith.relax.type_views:struct_info_of")(value)  # type: ignore[no-any-return]
    if callable(value):  # R.Object, R.Tensor without arguments
        value = value()
    if hasattr(value, "as_struct_info"):
        return value.as_struct_info()
    if isinstance(value, StructInfo):
        return value
    raise TypeMismatchError(
        f"expected struct info such as R.Tensor((2, 3), 'float32'), got {value!r}"
    )


class ObjectStructInfo(StructInfo, key="relax.ObjectStructInfo"):
    """Any value."""

    span: Any = note(default=None)


class PrimStructInfo(StructInfo, key="relax.PrimStructInfo"):
    """A scalar of a dtype, with its value where that is known."""

    dtype: DataType = data_field()
    value: PrimExpr | None = child(default=None)
    span: Any = note(default=None)

    def __init__(self, dtype: Any = None, value: Any = None, span: Any = None) -> None:
        if value is None and isinstance(dtype, PrimExpr):
            dtype, value = None, dtype
        if value is not None:
            if not isinstance(value, PrimExpr):
                value = const(value, dtype or ("int64" if isinstance(value, int) else None))
            if dtype is not None and value.dtype != DataType(dtype):
                raise TypeMismatchError(f"Prim of {dtype} with a value of {value.dtype}")
            dtype = value.dtype
        if dtype is None:
            raise TypeMismatchError("PrimStructInfo needs a dtype or a value")
        self.dtype = DataType(dtype)
        self.value = value
        self.span = span


class PrimValue(GraphExpr, key="relax.PrimValue"):
    """A scalar as a value of the graph; Python integers become int64."""

    value: PrimExpr = child()
    span: Any = note(default=None)

    def __init__(self, value: Any, span: Any = None) -> None:
        if isinstance(value, int) and not isinstance(value, bool):
            value = const(value, "int64")
        elif isinstance(value, float):
            value = const(value, "float64")
        self.value = convert(value)
        self.span = span

    def _infer_struct_info(self) -> StructInfo:
        return PrimStructInfo(self.value.dtype, self.value)


class ShapeExpr(ExprWithOp, key="relax.ShapeExpr"):
    """A shape: a tuple of int64 sizes."""

    values: tuple[PrimExpr, ...] = child()
    span: Any = note(default=None)

    def __init__(self, values: Any, span: Any = None) -> None:
        if isinstance(values, ShapeExpr):
            values = values.values
        if isinstance(values, (int, PrimExpr)):
            values = (values,)
        self.values = tuple([_size(value) for value in values])
        self.span = span

    def _infer_struct_info(self) -> StructInfo:
        return ShapeStructInfo(self)

    @property
    def concrete(self) -> tuple[int, ...] | None:
        """Return the sizes as Python integers, or None if one is symbolic."""
        found = []
        for value in self.values:
            if not hasattr(value, "value") or not isinstance(value.value, int):
                return None
            found.append(value.value)
        return tuple(found)

    def __getitem__(self, index: Any) -> Any:
        return self.values[index]

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[PrimExpr]:
        return iter(self.values)


def _size(value: Any) -> PrimExpr:
    if isinstance(value, PrimValue):
        value = value.value
    if isinstance(value, str):
        raise ShapeError(
            f"a size is an integer or an expression, got the text '{value}'",
            notes=('a size that is known later is a variable: tir.Var("n", "int64")',),
        )
    value = convert(value)
    if value.dtype == "int64":
        return value
    if not value.dtype.is_integer:
        raise ShapeError(f"a size is an integer, got {value} of dtype {value.dtype}")
    if hasattr(value, "value") and isinstance(value.value, int):
        return const(value.value, "int64")
    raise ShapeError(
        f"sizes of the graph are int64, got `{value}` of {value.dtype}",
        notes=('make the variable with tir.Var(name, "int64")',),
    )


class ShapeStructInfo(StructInfo, key="relax.ShapeStructInfo"):
    """A shape as a value; ``values`` are its sizes or None, ``ndim`` is -1 if the rank is
    unknown.
    """

    shape: ShapeExpr | None = child()
    ndim: int = data_field(default=-1)
    span: Any = note(default=None)

    def __init__(self, values: Any = None, ndim: int = -1, span: Any = None) -> None:
        if values is not None and not isinstance(values, ShapeExpr):
            values = ShapeExpr(values)
        self.shape = values
        self.ndim = _rank(values, ndim)
        self.span = span

    @property
    def values(self) -> tuple[PrimExpr, ...] | None:
        """The sizes, or None."""
        return None if self.shape is None else self.shape.values


def _rank(shape: ShapeExpr | None, ndim: int) -> int:
    if shape is None:
        return int(ndim)
    if ndim not in (-1, len(shape)):
        raise ShapeError(f"the rank {ndim} contradicts a shape of {len(shape)} dimensions")
    return len(shape)


class TensorStructInfo(StructInfo, key="relax.TensorStructInfo"):
    """A tensor. ``shape`` is a ShapeExpr, a variable that holds a shape, or None; ``ndim`` is -1
    where the rank is unknown; the dtype is void where unknown."""

    shape: GraphExpr | None = child()
    dtype: DataType = data_field()
    vdevice: Any = data_field(default=None)
    ndim: int = data_field(default=-1)
    span: Any = note(default=None)

    def __init__(
        self,
        shape: Any = None,
        dtype: Any = "float32",
        vdevice: Any = None,
        ndim: int = -1,
        span: Any = None,
    ) -> None:
        if shape is not None and not isinstance(shape, GraphExpr):
            shape = ShapeExpr(shape)
        if isinstance(shape, ShapeExpr):
            for size in shape.values:
                if isinstance(size, IntImm) and size.value < 0:
                    raise ShapeError(f"a size cannot be negative, got {size.value}")
        self.shape = shape
        self.dtype = DataType("void" if dtype is None else dtype)
        self.vdevice = vdevice
        if shape is not None and not isinstance(shape, ShapeExpr):
            held = shape.struct_info
            if not isinstance(held, ShapeStructInfo):
                raise TypeMismatchError(
                    "the shape of a tensor is a list of sizes or a variable that holds a shape"
                )
            ndim = held.ndim if ndim == -1 else ndim
        self.ndim = _rank(shape, ndim) if isinstance(shape, ShapeExpr) else int(ndim)
        self.span = span

    @property
    def concrete_shape(self) -> tuple[int, ...] | None:
        """The sizes as Python integers, or None if one of them is not a constant."""
        if not isinstance(self.shape, ShapeExpr):
            return None
        return self.shape.concrete


class TupleStructInfo(StructInfo, key="relax.TupleStructInfo"):
    """A tuple of values."""

    fields: tuple[StructInfo, ...] = child()
    span: Any = note(default=None)


class FuncStructInfo(StructInfo, key="relax.FuncStructInfo"):
    """A function; ``params`` is None where its parameters are not known (``derive_func``, a Python
    function of the call, may then tell the result)."""

    structural_binds = ("parameters",)

    parameters: TupleStructInfo | None = child()
    ret: StructInfo = child()
    purity: bool = data_field(default=True)
    span: Any = note(default=None)
    derive_func: Any = note(default=None)

    def __init__(
        self,
        params: Any,
        ret: StructInfo | None = None,
        purity: bool = True,
        span: Any = None,
        derive_func: Any = None,
    ) -> None:
        if params is not None and not isinstance(params, TupleStructInfo):
            params = TupleStructInfo(tuple(params))
        self.parameters = params
        self.ret = ObjectStructInfo() if ret is None else ret
        self.purity = bool(purity)
        self.span = span
        self.derive_func = derive_func

    @property
    def params(self) -> tuple[StructInfo, ...] | None:
        """What is known about the parameters, or None."""
        return None if self.parameters is None else self.parameters.fields

    @staticmethod
    def opaque_func(
        *, ret: Any = None, derive_func: Any = None, purity: bool = False, span: Any = None
    ) -> FuncStructInfo:
        """Return the struct info of a function whose parameters are not known."""
        return FuncStructInfo(None, ret, purity, span, derive_func)


def with_shape(info: StructInfo, shape: Any) -> StructInfo:
    """Return the struct info of a tensor with its shape filled in; any other one as it is."""
    if shape is None or not isinstance(info, TensorStructInfo):
        return info
    return TensorStructInfo(shape, info.dtype, info.vdevice, info.ndim)


def known_struct_info(expr: Any) -> StructInfo:
    """Return the struct info of an expression; Object if nothing is known."""
    info = expr.struct_info
    return info if info is not None else ObjectStructInfo()

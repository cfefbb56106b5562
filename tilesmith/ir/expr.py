"""Defines the nodes of scalar expressions.

Semantics. Signed integers of index arithmetic (int32, int64) do not overflow in a correct program;
constants fold with wrap-around; unsigned and narrower types wrap modulo 2**bits. ``Div``/``Mod``
truncate toward zero, ``FloorDiv``/``FloorMod`` round toward minus infinity; division by zero has no
value and is never folded. ``Select`` evaluates all three operands, the call ``if_then_else`` only
the branch that is taken. ``And``/``Or`` evaluate both sides unless a back end can show that the
second is free of effects. A vector is one node (``Ramp``, ``Broadcast``, ``Shuffle``), never lanes.

Class constructors convert Python scalars to the other operand's dtype, check dtypes and never fold;
Python operators fold (see ``operators``).
"""

from __future__ import annotations

import math
from typing import Any

from tilesmith.ir.base_expr import BaseExpr, RelaxExpr, is_relax_expr
from tilesmith.ir.expr_op import ExprOp
from tilesmith.ir.node import Node, child, data, defines, note
from tilesmith.ir.types import PointerType, PrimType, Type, prim_type
from tilesmith.runtime.dtype import DataType, ScalableLanes
from tilesmith.support.errors import TypeMismatchError
from tilesmith.support.lazy import resolve

__all__ = [
    "EQ", "GE", "GT", "LE", "LT", "NE", "Add", "And", "BaseExpr", "BinaryOp", "Broadcast", "Call",
    "Cast", "CompareOp", "ConstExpr", "Div", "ExprOp", "ExprWithOp", "FloatImm", "FloorDiv",
    "FloorMod", "GlobalVar", "IntImm", "Let", "LogicalOp", "Max", "Min", "Mod", "Mul", "Not", "Or",
    "PrimExpr", "Ramp", "Range", "RelaxExpr", "Select", "Shuffle", "SizeVar", "StringImm", "Sub",
    "Var", "convert", "is_relax_expr",
]  # fmt: skip

_BOOL = DataType("bool")
_INT32 = DataType("int32")
_FLOAT32 = DataType("float32")
_HANDLE = DataType("handle")


class PrimExpr(BaseExpr, ExprOp, key="ir.PrimExpr", slots=("dtype",)):
    """Base of scalar (and vector) expressions; ``dtype`` is the type of the value."""

    dtype: DataType

    __hash__ = object.__hash__


ExprWithOp = PrimExpr


def convert(expr: Any, dtype: str | None = None) -> Any:
    """Convert a Python scalar to a constant: bool, int32 (int64 where needed), float32, string.

    Expressions are returned as they are. Lists and tuples are converted item by item.
    """
    if isinstance(expr, BaseExpr):
        return expr
    if isinstance(expr, bool):
        if dtype is not None and _is_floating(dtype):
            return FloatImm(dtype, float(expr))
        return IntImm(dtype or _BOOL, int(expr))
    if isinstance(expr, int):
        if dtype is not None and _is_floating(dtype):
            return FloatImm(dtype, float(expr))
        if dtype is None:
            dtype = _INT32 if -(2**31) <= expr < 2**31 else DataType("int64")
        return IntImm(dtype, expr)
    if isinstance(expr, float):
        return FloatImm(dtype or _FLOAT32, expr)
    if isinstance(expr, str):
        return StringImm(expr)
    if isinstance(expr, (list, tuple)):
        return tuple([convert(item) for item in expr])
    if hasattr(expr, "asobject"):
        return convert(expr.asobject())
    if hasattr(expr, "item") and getattr(expr, "ndim", None) == 0:  # a numpy scalar
        return convert(expr.item(), dtype or str(expr.dtype))
    raise TypeMismatchError(f"cannot make an expression of {expr!r} ({type(expr).__name__})")


def _is_floating(dtype: str) -> bool:
    return DataType(dtype).is_float


def as_prim_expr(value: Any) -> PrimExpr:
    """Return a scalar expression as it is, or a Python scalar as a constant; see `convert`."""
    converted: PrimExpr = value if isinstance(value, PrimExpr) else convert(value)
    return converted


class Var(PrimExpr, key="tir.Var"):
    """A variable. Two variables are the same only if they are one object; the name is a hint."""

    is_atom = True
    is_variable = True

    name: str = note()
    type_annotation: Type = child()
    span: Any = note(default=None)

    def __init__(self, name: str, dtype: Any = _INT32, span: Any = None) -> None:
        """``dtype`` is a dtype or a type (``PointerType`` for the data of a buffer)."""
        if not isinstance(name, str):
            raise TypeMismatchError(f"the name of a variable is a text, got {name!r}")
        self.name = name
        kind = dtype if isinstance(dtype, Type) else prim_type(DataType(dtype))
        self.type_annotation = kind
        self.dtype = kind.dtype if isinstance(kind, PrimType) else _HANDLE
        self.span = span

    @property
    def name_hint(self) -> str:
        """The name, as some users spell it."""
        return self.name

    @property
    def storage_scope(self) -> str:
        """The storage scope of a pointer variable; ``""`` for any other."""
        type_ = self.type_annotation
        return type_.storage_scope if isinstance(type_, PointerType) else ""


class SizeVar(Var, key="tir.SizeVar"):
    """A variable that is known to be non-negative: the size of a dimension."""


class ConstExpr(PrimExpr, key="tir.ConstExpr", slots=()):
    """Base of the constants: integers, floats, texts."""


class IntImm(ConstExpr, key="tir.IntImm", slots=()):
    """An integer (or boolean) constant; ``value`` is a Python int within the dtype's range."""

    dtype: DataType = data()
    value: int = data()

    def __init__(self, dtype: str, value: int, span: Any = None) -> None:
        dtype = DataType(dtype)
        if value.__class__ is float and not value.is_integer():
            raise TypeMismatchError(f"IntImm needs a whole number, got {value}")
        value = int(value)
        if dtype.is_bool:
            if value not in (0, 1):
                raise TypeMismatchError(f"{value} does not fit into {dtype}")
        elif not dtype.is_integer:
            raise TypeMismatchError(f"IntImm needs an integer dtype, got {dtype}")
        elif dtype.is_uint:
            if value < 0 or value >> dtype.bits:
                raise TypeMismatchError(f"{value} does not fit into {dtype}")
        elif not -(1 << (dtype.bits - 1)) <= value < (1 << (dtype.bits - 1)):
            raise TypeMismatchError(f"{value} does not fit into {dtype}")
        self.dtype = dtype
        self.value = value

    def __hash__(self) -> int:
        return hash(self.value)

    def __bool__(self) -> bool:
        return self.value != 0

    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value

    def __float__(self) -> float:
        return float(self.value)


_LARGEST = {"float16": 65504.0, "float32": 3.4028234663852886e38}


class FloatImm(ConstExpr, key="tir.FloatImm"):
    """A floating-point constant; ``value`` is a Python float, rounded when code is made."""

    dtype: DataType = data()
    value: float = data()

    def __init__(self, dtype: str, value: float, span: Any = None) -> None:
        dtype = DataType(dtype)
        if not dtype.is_float:
            raise TypeMismatchError(f"FloatImm needs a floating-point dtype, got {dtype}")
        self.dtype = dtype
        self.value = value = float(value)
        largest = _LARGEST.get(dtype)
        if largest is not None and largest < abs(value) < math.inf:
            raise TypeMismatchError(f"{value} does not fit into {dtype}")

    def __hash__(self) -> int:
        return hash(self.value)

    def __bool__(self) -> bool:
        return self.value != 0.0

    def __float__(self) -> float:
        return self.value


class StringImm(ConstExpr, key="tir.StringImm"):
    """A text constant, as an argument of a call."""

    value: str = data()

    def __init__(self, value: str, span: Any = None) -> None:
        self.dtype = _HANDLE
        self.value = value

    def __eq__(self, other: Any) -> Any:
        return self.value == (other.value if isinstance(other, StringImm) else other)

    def __ne__(self, other: Any) -> Any:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.value)

    def __str__(self) -> str:
        return self.value


class Cast(PrimExpr, key="tir.Cast"):
    """A value converted to another dtype (C rules: floats truncate toward zero)."""

    dtype: DataType = data()
    value: PrimExpr = child()

    def __init__(self, dtype: str, value: Any, span: Any = None) -> None:
        self.dtype = DataType(dtype)
        self.value = as_prim_expr(value)
        if self.dtype.lanes != self.value.dtype.lanes:
            raise TypeMismatchError(
                f"a cast keeps the number of lanes, got {self.value.dtype} to {self.dtype}"
            )


class BinaryOp(PrimExpr, key="tir.BinaryOp"):
    """Two operands of one dtype."""

    is_comparison = False  # whether the result is boolean
    a: PrimExpr = child()
    b: PrimExpr = child()

    def __init__(self, a: Any, b: Any, span: Any = None) -> None:
        if not isinstance(a, PrimExpr):
            a = convert(a, b.dtype.element) if isinstance(b, PrimExpr) else convert(a)
        if not isinstance(b, PrimExpr):
            b = convert(b, a.dtype.element)
        if a.dtype is not b.dtype:
            raise TypeMismatchError(
                f"{type(self).__name__} needs operands of one dtype, got {a.dtype} and {b.dtype}"
            )
        self.a = a
        self.b = b
        self.dtype = _BOOL.with_lanes(a.dtype.lanes) if self.is_comparison else a.dtype


class Add(BinaryOp, key="tir.Add"):
    """``a + b``."""


class Sub(BinaryOp, key="tir.Sub"):
    """``a - b``."""


class Mul(BinaryOp, key="tir.Mul"):
    """``a * b``."""


class Div(BinaryOp, key="tir.Div"):
    """``a / b``: exact for floats, rounded toward zero for integers."""


class Mod(BinaryOp, key="tir.Mod"):
    """The remainder that goes with ``Div``: it has the sign of ``a``."""


class FloorDiv(BinaryOp, key="tir.FloorDiv"):
    """``a // b`` rounded toward minus infinity."""


class FloorMod(BinaryOp, key="tir.FloorMod"):
    """The remainder that goes with ``FloorDiv``: it has the sign of ``b``."""


class Min(BinaryOp, key="tir.Min"):
    """The smaller of two values."""


class Max(BinaryOp, key="tir.Max"):
    """The larger of two values."""


class CompareOp(BinaryOp, key="tir.CompareOp"):
    """A comparison of two values of one dtype; the result is bool with as many lanes."""

    is_comparison = True


class EQ(CompareOp, key="tir.EQ"):
    """``a == b``. As a Python bool: the value if it folds, else whether both are one object."""

    def __bool__(self) -> bool:
        return operators.truth_of_equality(self)

    def asobject(self) -> EQ:
        """Return the expression: which is this very object."""
        return self


class NE(CompareOp, key="tir.NE"):
    """``a != b``. As a Python bool: the value if it folds, else whether they are two objects."""

    def __bool__(self) -> bool:
        return not operators.truth_of_equality(self)

    def asobject(self) -> NE:
        """Return the expression, which is this very object."""
        return self


class LT(CompareOp, key="tir.LT"):
    """``a < b``."""


class LE(CompareOp, key="tir.LE"):
    """``a <= b``."""


class GT(CompareOp, key="tir.GT"):
    """``a > b``."""


class GE(CompareOp, key="tir.GE"):
    """``a >= b``."""


class LogicalOp(BinaryOp, key="tir.LogicalOp"):
    """Two booleans."""

    def __init__(self, a: Any, b: Any, span: Any = None) -> None:
        BinaryOp.__init__(self, a, b)
        if not self.dtype.is_bool:
            raise TypeMismatchError(f"{type(self).__name__} needs booleans, got {self.dtype}")


class And(LogicalOp, key="tir.And"):
    """``a and b``."""


class Or(LogicalOp, key="tir.Or"):
    """``a or b``."""


class Not(PrimExpr, key="tir.Not"):
    """``not a``."""

    a: PrimExpr = child()

    def __init__(self, a: Any, span: Any = None) -> None:
        self.a = as_prim_expr(a)
        self.dtype = self.a.dtype
        if not self.dtype.is_bool:
            raise TypeMismatchError(f"Not needs a boolean, got {self.dtype}")


class Select(PrimExpr, key="tir.Select"):
    """``condition ? true_value : false_value``. All three are evaluated."""

    condition: PrimExpr = child()
    true_value: PrimExpr = child()
    false_value: PrimExpr = child()

    def __init__(self, condition: Any, true_value: Any, false_value: Any, span: Any = None) -> None:
        self.condition = as_prim_expr(condition)
        if not isinstance(true_value, PrimExpr) and isinstance(false_value, PrimExpr):
            true_value = convert(true_value, false_value.dtype)
        self.true_value = as_prim_expr(true_value)
        if not isinstance(false_value, PrimExpr):
            false_value = convert(false_value, self.true_value.dtype)
        self.false_value = false_value
        self.dtype = self.true_value.dtype
        if self.dtype is not self.false_value.dtype:
            raise TypeMismatchError(
                f"Select needs values of one dtype, got {self.dtype} and {self.false_value.dtype}"
            )
        if not self.condition.dtype.is_bool:
            raise TypeMismatchError(f"Select needs a boolean condition, got {self.condition.dtype}")


def lanes_of(lanes: Any) -> int:
    """Return a number of lanes: an integer, or `T.vscale() * 4` for a scalable vector.

    Raises TypeMismatchError for other expressions: the lanes of a vector are known when it is made.
    """
    if isinstance(lanes, ScalableLanes):
        return lanes
    if isinstance(lanes, IntImm):
        return lanes.value
    if isinstance(lanes, PrimExpr):
        parts = (lanes.a, lanes.b) if isinstance(lanes, Mul) else (lanes, IntImm("int32", 1))
        factors = [part.value for part in parts if isinstance(part, IntImm)]
        calls = [part for part in parts if isinstance(part, Call)]
        if len(factors) == len(calls) == 1 and calls[0].op is Op.get("tir.vscale"):
            return ScalableLanes(factors[0])
        raise TypeMismatchError(
            f"a vector has a constant number of lanes, or a multiple of T.vscale(), not {lanes}"
        )
    return int(lanes)


class Ramp(PrimExpr, key="tir.Ramp"):
    """The vector ``base, base + stride, ...`` of ``lanes`` elements."""

    base: PrimExpr = child()
    stride: PrimExpr = child()
    lanes: int = data()

    def __init__(self, base: Any, stride: Any, lanes: Any, span: Any = None) -> None:
        self.base = as_prim_expr(base)
        self.stride = stride if isinstance(stride, PrimExpr) else convert(stride, self.base.dtype)
        self.lanes = lanes_of(lanes)
        if self.stride.dtype is not self.base.dtype or self.base.dtype.lanes != 1:
            raise TypeMismatchError(
                f"Ramp needs scalars of one dtype, got {self.base.dtype} and {self.stride.dtype}"
            )
        self.dtype = self.base.dtype.with_lanes(self.lanes)


class Broadcast(PrimExpr, key="tir.Broadcast"):
    """A vector of ``lanes`` equal elements."""

    value: PrimExpr = child()
    lanes: int = data()

    def __init__(self, value: Any, lanes: Any, span: Any = None) -> None:
        self.value = as_prim_expr(value)
        self.lanes = lanes_of(lanes)
        if self.value.dtype.lanes != 1:
            raise TypeMismatchError(f"Broadcast needs a scalar, got {self.value.dtype}")
        self.dtype = self.value.dtype.with_lanes(self.lanes)


class Shuffle(PrimExpr, key="tir.Shuffle"):
    """Elements picked by position from the concatenation of vectors."""

    vectors: tuple[PrimExpr, ...] = child()
    indices: tuple[PrimExpr, ...] = child()

    def __init__(self, vectors: Any, indices: Any, span: Any = None) -> None:
        self.vectors = tuple([as_prim_expr(vector) for vector in vectors])
        if len({vector.dtype.element for vector in self.vectors}) != 1:
            raise TypeMismatchError("Shuffle needs one or more vectors of one dtype")
        self.indices = tuple([as_prim_expr(index) for index in indices])
        self.dtype = self.vectors[0].dtype.element.with_lanes(len(self.indices))


class Let(PrimExpr, key="tir.Let"):
    """``body`` with ``var`` bound to ``value``."""

    var: Var = defines(scope="body")
    value: PrimExpr = child()
    body: PrimExpr = child()

    def __init__(self, var: Var, value: Any, body: Any, span: Any = None) -> None:
        self.var = var
        self.value = value if isinstance(value, PrimExpr) else convert(value, var.dtype)
        self.body = as_prim_expr(body)
        self.dtype = self.body.dtype


class Call(PrimExpr, key="tir.Call"):
    """A call of an operator (an ``Op``) or of a function of the module (a ``GlobalVar``).

    ``op`` may be given as a text, ``"tir.exp"``.
    """

    dtype: DataType = data()
    op: Any = child()
    args: tuple[PrimExpr, ...] = child()

    def __init__(self, dtype: str, op: Any, args: Any, span: Any = None) -> None:
        self.dtype = DataType(dtype)
        self.op = Op.get(op) if isinstance(op, str) else op
        args = args if args.__class__ is tuple else tuple(args)
        for arg in args:
            if not isinstance(arg, Node):
                args = tuple([convert(arg) if not isinstance(arg, Node) else arg for arg in args])
                break
        self.args = args


class GlobalVar(RelaxExpr, key="ir.GlobalVar", slots=("_struct_info",)):
    """The name of a function of a module; holds the function's struct info (or type) once
    `describe` has set it.
    """

    name_hint: str = data()
    span: Any = note(default=None)

    def __init__(self, name_hint: str, type_annot: Any = None, span: Any = None) -> None:
        self.name_hint = name_hint
        self.span = span
        self._struct_info = [type_annot]

    @property
    def struct_info(self) -> Any:
        """The struct info of the function, or None while it is not known."""
        return self._struct_info[0]

    def describe(self, struct_info: Any) -> None:
        """Set the struct info of the function, which is neither compared nor saved."""
        self._struct_info[0] = struct_info

    def with_fields(self, **changes: Any) -> GlobalVar:
        fields = {"name_hint": self.name_hint, "span": self.span, **changes}
        return GlobalVar(fields["name_hint"], None, fields["span"])

    def astext(self, show_meta_data: bool = True, annotate: Any = None) -> str:
        """Return the text of the variable."""
        return str(self)

    def __call__(self, *args: Any) -> Any:
        """Return a call of this function; a ``relax.Call`` if an argument is a graph expression."""
        if args and all(isinstance(arg, (PrimExpr, int, float, str)) for arg in args):
            return Call("void", self, args)
        return resolve("tilesmith.relax:Call")(self, args)


class Range(Node, key="ir.Range"):
    """The integers in ``[min, min + extent)``. Make one as ``Range(begin, end)`` or
    ``Range(extent)``.
    """

    min: PrimExpr = child()
    extent: PrimExpr = child()
    span: Any = note(default=None)

    def __init__(self, begin: Any, end: Any = None, span: Any = None) -> None:
        if end is None:
            self.extent = as_prim_expr(begin)
            self.min = IntImm(self.extent.dtype, 0)
        else:
            if not isinstance(begin, PrimExpr) and isinstance(end, PrimExpr):
                begin = convert(begin, end.dtype)
            self.min = as_prim_expr(begin)
            end = end if isinstance(end, PrimExpr) else convert(end, self.min.dtype)
            self.extent = operators.subtract(end, self.min)
        self.span = span

    def __eq__(self, other: object) -> bool:
        """True if minima and extents are structurally equal."""
        if self is other:
            return True
        if not isinstance(other, Range):
            return False
        from tilesmith.ir.structural import structural_equal

        return structural_equal(self, other)

    def __hash__(self) -> int:
        return hash((Range, *[int(v) for v in (self.min, self.extent) if v.__class__ is IntImm]))

    def map_children(self, f: Any) -> Range:
        low, extent = f(self.min), f(self.extent)
        if low is self.min and extent is self.extent:
            return self
        return Range.from_min_extent(low, extent, self.span)

    def with_fields(self, **changes: Any) -> Range:
        return Range.from_min_extent(
            changes.get("min", self.min),
            changes.get("extent", self.extent),
            changes.get("span", self.span),
        )

    @staticmethod
    def from_min_extent(min_value: Any, extent: Any, span: Any = None) -> Range:
        """Return the range that starts at ``min_value`` and has ``extent`` elements."""
        if not isinstance(min_value, PrimExpr):
            min_value = convert(min_value, extent.dtype if isinstance(extent, PrimExpr) else None)
        if isinstance(extent, IntImm) and extent.dtype is not min_value.dtype:
            extent = extent.value
        made = Range.__new__(Range)
        made.min = min_value
        made.extent = extent if isinstance(extent, PrimExpr) else convert(extent, min_value.dtype)
        made.span = span
        return made


# Imported last: the operators need the classes above, and the classes need the operators.
from tilesmith.ir import operators  # noqa: E402
from tilesmith.ir.op import Op  # noqa: E402

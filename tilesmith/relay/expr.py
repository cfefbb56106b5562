"""Expressions of the functional door.

Variables, constants, tuples, calls and choices are the nodes of the graph IR; `Let` and references
are the door's own. Expressions nest, and may share parts: a node with two users is computed once.

    x = relay.var("x", shape=(1, 8))
    y = relay.nn.relu(x) + relay.const(1.0)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tilesmith.ir import GlobalVar, RelaxExpr, RelayRefType, Type, child, defines, note
from tilesmith.relax import base, struct_info
from tilesmith.relax import expr as graph
from tilesmith.relax.expr import Call, Constant, If, Tuple, TupleGetItem
from tilesmith.relax.struct_info import Var
from tilesmith.relax.type_views import TypeStructInfo, type_of
from tilesmith.relay.ty import TensorType
from tilesmith.support.errors import TypeMismatchError
from tilesmith.support.lazy import resolve

__all__ = [
    "Call", "CallWithFields", "Constant", "ConstantWithFields", "Expr", "ExprWithOp", "GlobalVar",
    "If", "IfWithFields", "Let", "LetWithFields", "RefCreate", "RefCreateWithFields", "RefRead",
    "RefReadWithFields", "RefWrite", "RefWriteWithFields", "TempExpr", "Tuple", "TupleGetItem",
    "TupleGetItemWithFields", "TupleWithFields", "TupleWrapper", "Var", "VarWithFields", "bind",
    "branch", "const", "var", "with_lets",
]  # fmt: skip

Expr = RelaxExpr
ExprWithOp = base.ExprWithOp


class RelayExpr(ExprWithOp, key="relay.Expr"):
    """Base of the door's own expressions."""

    dialect = "relay"

    def _infer_struct_info(self) -> struct_info.StructInfo:
        return struct_info.ObjectStructInfo()  # until InferType has looked at it


class Let(RelayExpr, key="relay.Let"):
    """``body`` in which ``var`` stands for ``value``; a function may call itself through it."""

    structural_order = ("var", "value", "body")

    var: Var = defines()
    value: RelaxExpr = child()
    body: RelaxExpr = child()
    span: Any = note(default=None)

    def __init__(self, variable: Any, value: Any, body: Any, span: Any = None) -> None:
        if not isinstance(variable, Var):
            raise TypeMismatchError(f"let binds a variable, not {variable!r}", span=span)
        self.var = variable
        self.value = graph.as_expr(value)
        self.body = graph.as_expr(body)
        self.span = span


def with_lets(bindings: Sequence[tuple[Var, Any]], body: Any) -> Any:
    """Return a body in lets of variables and their values; the first is the outermost."""
    for variable, value in reversed(bindings):
        body = Let(variable, value, body)
    return body


class RefCreate(RelayExpr, key="relay.RefCreate"):
    """A new reference to a value."""

    value: RelaxExpr = child()
    span: Any = note(default=None)

    def _infer_struct_info(self) -> struct_info.StructInfo:
        return TypeStructInfo(RelayRefType(type_of(struct_info.known_struct_info(self.value))))


class RefRead(RelayExpr, key="relay.RefRead"):
    """The value that a reference leads to."""

    ref: RelaxExpr = child()
    span: Any = note(default=None)


class RefWrite(RelayExpr, key="relay.RefWrite"):
    """Lets a reference lead to another value; the result is the empty tuple."""

    ref: RelaxExpr = child()
    value: RelaxExpr = child()
    span: Any = note(default=None)

    def _infer_struct_info(self) -> struct_info.StructInfo:
        return struct_info.TupleStructInfo(())


class TempExpr(RelayExpr, key="relay.TempExpr"):
    """Base of expressions that stand in a program only while a pass works on it."""

    def realize(self) -> Any:
        """Return the expression that this one stands for."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it stands for")


class TupleWrapper:
    """A tuple of a known number of fields, which Python can unpack."""

    def __init__(self, tuple_value: Any, size: int) -> None:
        self.tuple_value = tuple_value
        self.size = size

    def __getitem__(self, index: int) -> TupleGetItem:
        if not -self.size <= index < self.size:
            raise IndexError(f"index {index} of a tuple of {self.size} fields")
        return TupleGetItem(self.tuple_value, index % self.size)

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[TupleGetItem]:
        return iter([TupleGetItem(self.tuple_value, index) for index in range(self.size)])

    def astuple(self) -> Any:
        """Return the tuple as one expression."""
        return self.tuple_value

    asobject = astuple

    def astext(self, show_meta_data: bool = True, annotate: Any = None) -> str:
        """Return the text of the tuple."""
        text: str = self.tuple_value.astext(show_meta_data, annotate)
        return text

    def astype(self, dtype: Any) -> Any:
        """Raise TypeMismatchError: only tensors have a dtype."""
        raise TypeMismatchError("a tuple has no dtype", notes=("convert its fields one by one",))

    def __repr__(self) -> str:
        return f"TupleWrapper({self.tuple_value}, {self.size})"


def var(
    name_hint: str,
    type_annotation: Any = None,
    shape: Any = None,
    dtype: Any = "float32",
    span: Any = None,
) -> Var:
    """Make a variable; a shape and a dtype stand for the type of a tensor."""
    if type_annotation is not None and shape is not None:
        raise TypeMismatchError(f"'{name_hint}' got both a type and a shape", span=span)
    if shape is not None:
        type_annotation = TensorType(shape, dtype)
    elif isinstance(type_annotation, str):
        type_annotation = TensorType((), type_annotation)
    if type_annotation is not None and not isinstance(type_annotation, Type):
        raise TypeMismatchError(
            f"the type of '{name_hint}' has to be a type, got {type_annotation!r}",
            span=span,
            notes=('a tensor is given by its shape: relay.var("x", shape=(1, 8))',),
        )
    return Var(name_hint, type_annotation, span, dialect="relay")


def const(value: Any, dtype: Any = None, span: Any = None) -> Constant:
    """Make a constant of a number, a list, an array or a tensor.

    Without ``dtype`` Python integers become int32 and Python floats float32.
    """
    made = graph.const(value, dtype, "relay")
    return made if span is None else made.with_fields(span=span)


def branch(expr: Any) -> Any:
    """Return a branch of an If as an expression: without the sequence that relax puts around it."""
    if isinstance(expr, graph.SeqExpr) and not expr.blocks:
        return expr.body
    return expr


def bind(expr: Any, binds: Mapping[Any, Any]) -> Any:
    """Return an expression with free variables replaced; of a function, parameters that are bound
    disappear.
    """
    return resolve("tilesmith.relay.rewriting:bind")(expr, binds)


# Copies with other fields.


def _copy(node: Any, changes: dict[str, Any], virtual_device: Any) -> Any:
    if virtual_device is not None:
        raise TypeMismatchError(
            "expressions hold no device", notes=("annotate them: relay.annotation.on_device",)
        )
    changed = {name: value for name, value in changes.items() if value is not None}
    same = all(getattr(node, name) is value for name, value in changed.items())
    return node if same else node.with_fields(**changed)


def ConstantWithFields(
    constant: Constant, data: Any = None, virtual_device: Any = None, span: Any = None
) -> Constant:
    """Return a constant with the given fields replaced."""
    if data is not None and data is not constant.data:
        constant = Constant(data, None, constant.span, constant.dialect)
    copy: Constant = _copy(constant, {"span": span}, virtual_device)
    return copy


def TupleWithFields(
    tup: Tuple, fields: Any = None, virtual_device: Any = None, span: Any = None
) -> Tuple:
    """Return a tuple with the given fields replaced."""
    copy: Tuple = _copy(tup, {"fields": fields, "span": span}, virtual_device)
    return copy


def VarWithFields(
    variable: Var,
    vid: Any = None,
    type_annotation: Any = None,
    virtual_device: Any = None,
    span: Any = None,
) -> Var:
    """Return a variable with the given fields replaced; ``vid`` is another variable or a name."""
    name = None if vid is None or vid is variable else getattr(vid, "name_hint", vid)
    if type_annotation is not None and type_annotation == variable.type_annotation:
        type_annotation = None
    changes = {"name_hint": name, "struct_info": type_annotation, "span": span}
    copy: Var = _copy(variable, changes, virtual_device)
    return copy


def CallWithFields(
    call: Call,
    op: Any = None,
    args: Any = None,
    attrs: Any = None,
    type_args: Any = None,
    virtual_device: Any = None,
    span: Any = None,
) -> Call:
    """Return a call with the given fields replaced."""
    changes = {"op": op, "args": args, "attrs": attrs, "sinfo_args": type_args, "span": span}
    copy: Call = _copy(call, changes, virtual_device)
    return copy


def LetWithFields(
    let: Let,
    variable: Any = None,
    value: Any = None,
    body: Any = None,
    virtual_device: Any = None,
    span: Any = None,
) -> Let:
    """Return a let with the given fields replaced."""
    changes = {"var": variable, "value": value, "body": body, "span": span}
    copy: Let = _copy(let, changes, virtual_device)
    return copy


def IfWithFields(
    if_expr: If,
    cond: Any = None,
    true_branch: Any = None,
    false_branch: Any = None,
    virtual_device: Any = None,
    span: Any = None,
) -> If:
    """Return a choice with the given fields replaced."""
    changes = {"cond": cond, "true_branch": true_branch, "false_branch": false_branch}
    copy: If = _copy(if_expr, {**changes, "span": span}, virtual_device)
    return copy


def TupleGetItemWithFields(
    tuple_get_item: TupleGetItem,
    tuple_value: Any = None,
    index: int | None = None,
    virtual_device: Any = None,
    span: Any = None,
) -> TupleGetItem:
    """Return a projection with the given fields replaced."""
    changes = {"tuple_value": tuple_value, "index": index, "span": span}
    copy: TupleGetItem = _copy(tuple_get_item, changes, virtual_device)
    return copy


def RefCreateWithFields(
    ref_create: RefCreate, value: Any = None, virtual_device: Any = None, span: Any = None
) -> RefCreate:
    """Return the making of a reference with the given fields replaced."""
    copy: RefCreate = _copy(ref_create, {"value": value, "span": span}, virtual_device)
    return copy


def RefReadWithFields(
    ref_read: RefRead, ref: Any = None, virtual_device: Any = None, span: Any = None
) -> RefRead:
    """Return a read with the given fields replaced."""
    copy: RefRead = _copy(ref_read, {"ref": ref, "span": span}, virtual_device)
    return copy


def RefWriteWithFields(
    ref_write: RefWrite,
    ref: Any = None,
    value: Any = None,
    virtual_device: Any = None,
    span: Any = None,
) -> RefWrite:
    """Return a write with the given fields replaced."""
    copy: RefWrite = _copy(ref_write, {"ref": ref, "value": value, "span": span}, virtual_device)
    return copy

"""What importers of users' own formats are made of: questions about expressions, attributes as
text, converters of nodes by table.

    shape = infer_shape(x)
    convert = {"Add": Renamer("add"), "Elu": AttrCvt("leaky_relu", {"slope": ("alpha", 0.01)})}
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from tilesmith.ir import IntImm, IRModule, SourceName, Span
from tilesmith.relax import interpreter
from tilesmith.relax.base import GraphExpr
from tilesmith.relax.frontend.options import fills_spans
from tilesmith.relax.transform import LegalizeOps
from tilesmith.relay import op
from tilesmith.relay.analysis import free_vars
from tilesmith.relay.expr import Constant, Tuple, TupleWrapper, Var, bind, const, var
from tilesmith.relay.frontend.cells import gru_cell, lstm_cell, rnn_cell
from tilesmith.relay.frontend.padding import autopad
from tilesmith.relay.frontend.text_attributes import RequiredAttr, StrAttrsDict
from tilesmith.relay.function import Function
from tilesmith.relay.infer_type import infer_expr, infer_module
from tilesmith.relay.op.view import find_function
from tilesmith.relay.transform.fold_constant import FoldConstantExpr
from tilesmith.relay.translate import to_relax
from tilesmith.relay.ty import TensorType
from tilesmith.relay.walks import functions_of, parts, post_order, with_parts
from tilesmith.runtime.ndarray import NDArray, array
from tilesmith.support.errors import (
    OpAttributeInvalid,
    OpAttributeRequired,
    OpAttributeUnImplemented,
    OpNotImplemented,
    ShapeError,
    TilesmithError,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
)
from tilesmith.support.fallbacks import record_fallback

__all__ = [
    "AttrCvt", "DuplicateFilter", "ExprTable", "Renamer", "RequiredAttr", "StrAttrsDict", "autopad",
    "ensure_scalar_shape", "fold_constant", "get_name", "get_relay_op", "gru_cell",
    "infer_channels", "infer_shape", "infer_type", "infer_value", "infer_value_simulated",
    "lstm_cell", "new_var", "rnn_cell", "set_span", "shape_of", "to_int_list", "try_infer_value",
    "try_resolve_var_to_const", "unbind",
]  # fmt: skip


class DuplicateFilter:
    """A filter of a logger: lets each message through once."""

    def __init__(self) -> None:
        self.messages: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the message is new."""
        is_new = record.msg not in self.messages
        self.messages.add(record.msg)
        return is_new


# Questions about expressions


def get_name(node: Any) -> str | None:
    """Return the name of a variable, None for what has no name."""
    name: str | None = getattr(node, "name_hint", None)
    return name


def infer_type(node: Any, mod: IRModule | None = None) -> Any:
    """Return an expression that knows its type (``checked_type``); ``mod`` has the functions that
    it calls.
    """
    if mod is not None and any(function.ret_type is None for _, function in functions_of(mod)):
        mod = infer_module(mod.shallow_copy())
    return infer_expr(node, mod)


def fold_constant(node: Any, mod: IRModule | None = None) -> Any:
    """Return an expression with what depends on constants alone computed."""
    return FoldConstantExpr(node, mod or IRModule())


def infer_shape(inputs: Any, mod: IRModule | None = None) -> tuple[Any, ...]:
    """Return the sizes of a tensor: integers, and `relay.Any` (or variables) for unknown ones."""
    type_ = infer_type(inputs, mod).checked_type
    if not isinstance(type_, TensorType):
        raise TypeMismatchError(f"a tensor has a shape, an expression of the type {type_} has none")
    return tuple([int(size) if isinstance(size, IntImm) else size for size in type_.shape])


def infer_channels(inputs: Any, transpose: bool = False) -> Any:
    """Return the number of output channels of a convolution's weight."""
    return infer_shape(inputs)[1 if transpose else 0]


def infer_value(input_val: Any, params: Mapping[str, Any], mod: IRModule | None = None) -> Any:
    """Return the value of an expression (an NDArray) for values of its free variables."""
    values = dict(params or {})
    variables = list(free_vars(input_val))
    missing = [one.name_hint for one in variables if one.name_hint not in values]
    if missing:
        raise UnknownNameError(
            f"the value of the variable '{missing[0]}' is not known",
            notes=("params maps the names of variables to their values",),
        )
    given = {one: _value_of(one, values[one.name_hint]) for one in variables}
    module = (mod or IRModule()).shallow_copy()
    module["main"] = Function([], bind(input_val, given))
    program = to_relax(module)
    try:
        found = interpreter.run(program, "main")
    except UnsupportedError as error:  # an operator that only relay has: as loops
        record_fallback("folding", "the value of an expression", error)
        found = interpreter.run(LegalizeOps()(program), "main")
    if isinstance(found, tuple):
        return [array(numpy.asarray(one)) for one in found]
    return array(numpy.asarray(found))


def _value_of(variable: Var, value: Any) -> Constant:
    """Return a value as a constant in the dtype that the variable has, if that is known."""
    dtype = getattr(variable.type_annotation, "dtype", None)
    return const(value.numpy() if hasattr(value, "numpy") else value, dtype)


def infer_value_simulated(input_val: Any, params: Mapping[str, Any]) -> Any:
    """Return the value of an expression; variables without a value are ones."""
    values = dict(params or {})
    for one in free_vars(input_val):
        if one.name_hint not in values:
            sizes = infer_shape(one)
            if not all(isinstance(size, int) for size in sizes):
                raise ShapeError(f"the shape of the variable '{one.name_hint}' is not known")
            dtype: Any = one.checked_type
            values[one.name_hint] = numpy.ones(sizes, dtype.dtype.numpy())
    return infer_value(input_val, values)


def try_infer_value(
    val: Any,
    on_success: Callable[[Any], Any] | None = None,
    on_failure: Callable[[], Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> tuple[Any, bool]:
    """Return the value of an expression (numpy's array, or what ``on_success`` makes of it) and
    True; where it is not known the expression (or what ``on_failure`` gives) and False.
    """
    try:
        value = infer_value(val, parameters or {}).numpy()
    except TilesmithError:  # the question was whether there is a value
        return (on_failure() if on_failure is not None else val), False
    return (on_success(value) if on_success is not None else value), True


def shape_of(x: Any, dtype: str = "int64", start: int | None = None, end: int | None = None) -> Any:
    """Return the sizes of a tensor (those from ``start`` to ``end``) as a vector: a constant where
    they are known.
    """
    sizes = infer_shape(x)[slice(start, end)]
    if all(isinstance(size, int) for size in sizes):
        return const(numpy.asarray(sizes, dtype), dtype)
    found = op.shape_of(x, dtype)
    if start is None and end is None:
        return found
    first, last, _ = slice(start, end).indices(len(infer_shape(x)))
    return op.strided_slice(found, [first], [last])


def ensure_scalar_shape(x: Any) -> Any:
    """Return a tensor of one element as a number (of no axes)."""
    sizes = infer_shape(x)
    if not sizes:
        return x
    if any(isinstance(size, int) and size != 1 for size in sizes):
        raise ShapeError(f"a tensor of the shape {sizes} is no number")
    return op.squeeze(x, list(range(len(sizes))))


def try_resolve_var_to_const(x: Any, graph_params: Mapping[str, Any]) -> Any:
    """Return a weight of one number as a constant, any other expression as it is."""
    if not isinstance(x, Var) or x.name_hint not in graph_params:
        return x
    value = graph_params[x.name_hint]
    value = value.numpy() if hasattr(value, "numpy") else numpy.asarray(value)
    return const(value) if value.size == 1 else x


def to_int_list(np_array: Any) -> list[int]:
    """Return the elements of an array as Python's integers."""
    return [int(one) for one in np_array]


# Expressions


def new_var(
    name_hint: str, type_annotation: Any = None, shape: Any = None, dtype: Any = "float32"
) -> Var:
    """Return a new variable."""
    return var(name_hint, type_annotation, shape, dtype)


def unbind(data: Any, axis: int = 0) -> TupleWrapper:
    """Cut a tensor along an axis into its slices, without that axis."""
    count = infer_shape(data)[axis]
    if not isinstance(count, int):
        raise ShapeError(f"unbind: the size of axis {axis} is not known")
    slices = op.split(data, count, axis)
    return TupleWrapper(Tuple([op.squeeze(one, [axis]) for one in slices]), count)


class ExprTable:
    """The expressions that the names of a model stand for, and the values of its weights."""

    def __init__(self) -> None:
        self.exprs: dict[str, Any] = {}
        self.params: dict[str, NDArray] = {}
        self.const_ctr = 1
        self.in_padding = False
        self.paddings: Any = None

    def new_const(
        self, value: Any, shape: Any = None, dtype: str = "float32", source_name: str | None = None
    ) -> Var:
        """Return a variable for a new weight, whose value joins ``params``."""
        name = source_name or f"_param_{self.const_ctr}"
        self.const_ctr += 1
        held = value.numpy() if hasattr(value, "numpy") else value
        self.params[name] = array(numpy.asarray(held, dtype))
        made = new_var(name, shape=self.params[name].shape if shape is None else shape, dtype=dtype)
        self.exprs[name] = made
        return made

    def get_expr(self, name: str) -> Any:
        """Return what a name stands for; raises UnknownNameError for an unknown one."""
        if name not in self.exprs:
            near = difflib.get_close_matches(str(name), self.exprs, n=1)
            raise UnknownNameError(
                f"no expression has the name '{name}'",
                notes=(f"did you mean '{near[0]}'?",) if near else (),
            )
        return self.exprs[name]

    def set_expr(self, name: str, expr: Any, force_override: bool = False) -> None:
        """Let a name stand for an expression; a name that is taken keeps its own unless
        ``force_override``.
        """
        if not isinstance(expr, GraphExpr):
            raise TypeMismatchError(f"'{name}' has to stand for an expression, got {expr!r}")
        if force_override or name not in self.exprs:
            self.exprs[name] = expr

    def has_expr(self, name: str) -> bool:
        """Return whether a name stands for something."""
        return name in self.exprs

    def set_padding(self, paddings: Any) -> None:
        """Remember a padding, for the operator that follows."""
        self.paddings, self.in_padding = paddings, True

    def clear_padding(self) -> None:
        """Forget the padding."""
        self.in_padding = False


# Converters by table


def get_relay_op(op_name: str) -> Callable[..., Any]:
    """Return the function of an operator; its namespace (``nn``, ``image``, ``vision``) may be left
    out. Raises OpNotImplemented for an unknown one.
    """
    for prefix in ("", "nn.", "image.", "vision.", "contrib."):
        try:
            return find_function(prefix + op_name)
        except UnknownNameError as error:
            first = error
    raise OpNotImplemented(f"relay has no operator '{op_name}'", notes=first.notes)


class Renamer:
    """Converts a node to the operator of another name, with the same operands and attributes."""

    def __init__(self, new_name: str) -> None:
        self._new_name = new_name

    def __call__(self, inputs: Sequence[Any], attrs: Mapping[str, Any], *args: Any) -> Any:
        return get_relay_op(self._new_name)(*inputs, **attrs)


class AttrCvt:
    """Converts a node to an operator whose attributes have other names.

    ``op_name`` is a name, or a function of the attributes that gives it. ``transforms`` maps a name
    to the new one, to (new name, default), or to (new name, default, function of the value). Names
    in ``excludes`` are refused, those in ``disables`` and ``ignores`` dropped; ``extras`` added.
    ``custom_check`` is a function of the attributes that has to hold, and what to say if not.
    """

    def __init__(
        self,
        op_name: str | Callable[[Mapping[str, Any]], str],
        transforms: Mapping[str, Any] | None = None,
        excludes: Sequence[str] | None = None,
        disables: Sequence[str] | None = None,
        ignores: Sequence[str] | None = None,
        extras: Mapping[str, Any] | None = None,
        custom_check: tuple[Callable[[Mapping[str, Any]], bool], str] | None = None,
    ) -> None:
        self._op_name = op_name
        self._transforms = dict(transforms or {})
        self._excludes = tuple(excludes or ())
        self._dropped = {*(disables or ()), *(ignores or ())}
        self._extras = dict(extras or {})
        self._custom_check = custom_check

    def __call__(self, inputs: Sequence[Any], attrs: Mapping[str, Any], *args: Any) -> Any:
        if self._custom_check is not None:
            holds, message = self._custom_check
            if not holds(attrs):
                raise OpAttributeInvalid(f"the attributes do not fit: {message}")
        name = self._op_name(attrs) if callable(self._op_name) else self._op_name
        new: dict[str, Any] = {}
        for key, value in attrs.items():
            if key in self._excludes:
                raise OpAttributeUnImplemented(
                    f"the attribute '{key}' of the operator '{name}' is not supported"
                )
            if key in self._dropped:
                continue
            target, _, change = self._rule(key)
            new[target] = value if change is None else change(value)
        for key in self._transforms:
            target, default, _ = self._rule(key)
            if key not in attrs:
                if default is _REQUIRED:
                    raise OpAttributeRequired(f"the operator '{name}' needs the attribute '{key}'")
                new[target] = default
        return get_relay_op(name)(*inputs, **{**new, **self._extras})

    def _rule(self, key: str) -> tuple[str, Any, Any]:
        found = self._transforms.get(key, key)
        if isinstance(found, str):
            return found, _REQUIRED, None
        return (*found, None)[:3] if len(found) == 2 else tuple(found)


_REQUIRED = RequiredAttr()


# Spans


def set_span(sym: Any, span: Any) -> Any:
    """Return expressions whose new nodes (those without a span) come from a place of the model: a
    Span, or the name of a node. Variables stay, as others refer to them.
    """
    if span is None or not fills_spans():
        return sym
    if isinstance(span, (str, SourceName)):
        span = Span(getattr(span, "name", span), 0, 0, 0, 0)
    if isinstance(sym, (list, tuple)):
        return type(sym)([set_span(one, span) for one in sym])
    if isinstance(sym, TupleWrapper):
        return TupleWrapper(set_span(sym.tuple_value, span), sym.size)
    return _spanned(sym, span)


def _spanned(expr: Any, span: Any) -> Any:
    done: dict[int, Any] = {}

    def is_new(node: Any) -> bool:
        return getattr(node, "span", None) is None

    for node in post_order(expr, is_new):
        if not is_new(node) or isinstance(node, Var) or not isinstance(node, GraphExpr):
            done[id(node)] = node
            continue
        new = with_parts(node, [done[id(part)] for part in parts(node)])
        done[id(node)] = new.with_fields(span=span)
    return done[id(expr)]

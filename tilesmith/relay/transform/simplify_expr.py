"""SimplifyExpr: replaces operators by fewer or simpler ones with the same result.

Most rules are relax's (`relax/transform/simplify.py`): a call is shown to them as the relax
operators that it means, and what they answer is written in relay's operators again. The rules of
this file are about operators that only relay has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.ir import IRModule, Op
from tilesmith.relax.expr import Call as GraphCall
from tilesmith.relax.expr import ShapeExpr
from tilesmith.relax.transform.simplify import holds_all, simplified_once
from tilesmith.relay.expr import Call, Constant, const
from tilesmith.relay.op.view import View, axis_of
from tilesmith.relay.transform.calls import (
    constant_array,
    dtype_of,
    is_call,
    make,
    rewrite_functions,
    scalar,
    shape_of,
    uniform_value,
)
from tilesmith.relay.transform.pass_classes import relay_pass
from tilesmith.relay.ty import TensorType
from tilesmith.support.errors import TilesmithError
from tilesmith.support.fallbacks import record_fallback

__all__ = ["SimplifyExpr"]

Rule = Callable[[Call], Any]
_RULES: dict[str, list[Rule]] = {}

_RESHAPES = ("reshape", "contrib_reverse_reshape", "squeeze", "expand_dims", "nn.batch_flatten")


def _rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for calls of operators; it returns the replacement or None."""

    def register(function: Rule) -> Rule:
        for name in names:
            _RULES.setdefault(name, []).append(function)
        return function

    return register


# Relax's rules.


class _Views:
    """Shows relay's calls to rules of relax."""

    def value(self, expr: Any, op: Op) -> Any:
        """Return the relax call that an expression means, if it is one of this operator."""
        meant = _meaning(expr)
        return meant if isinstance(meant, GraphCall) and meant.op is op else None


def _meaning(expr: Any) -> Any:
    """Return what a call of a relay operator means, None where that is no single relax operator."""
    if not is_call(expr) or not isinstance(expr.op.spec, View):
        return None
    view = expr.op.spec
    return None if view.translate is None else view.translate(expr.attrs, *expr.args)


def _written(made: Any) -> Any:
    """Return a result of relax's rules in relay's operators; None if it has no such form."""
    if not isinstance(made, GraphCall) or not is_call(made) or isinstance(made.op.spec, View):
        return made
    form = _FORMS.get(made.op.name)
    return None if form is None else form(made)


def _sizes_form(made: Any) -> Any:
    sizes = made.args[1]
    values = list(sizes.values) if isinstance(sizes, ShapeExpr) else [None]
    known = [getattr(size, "value", None) for size in values]
    return None if None in known else make("reshape", made.args[0], newshape=known)


_FORMS: dict[str, Callable[[Any], Any]] = {
    "relax.multiply": lambda made: make("multiply", *made.args),
    "relax.sqrt": lambda made: make("sqrt", *made.args),
    "relax.reshape": _sizes_form,
    "relax.permute_dims": lambda made: make("transpose", made.args[0], axes=made.attrs.axes),
    "relax.astype": lambda made: make("cast", made.args[0], dtype=made.attrs.dtype),
}


def _by_relax(call: Any) -> Any:
    meant = _meaning(call)
    return None if meant is None else _written(simplified_once(_Views(), meant))


# Operators that take shape or dtype of another tensor: it is known.


@_rule("zeros_like", "ones_like", "full_like")
def _fill(call: Any) -> Any:
    shape = shape_of(call)
    if shape is None:
        return None
    if is_call(call, "full_like"):
        return make("full", call.args[1], shape=shape, dtype=str(dtype_of(call)))
    return make(call.op.name.removesuffix("_like"), shape=shape, dtype=str(dtype_of(call)))


@_rule("reshape_like", "broadcast_to_like", "collapse_sum_like")
def _take_sizes(call: Any) -> Any:
    shape = shape_of(call)
    if shape is None:
        return None
    if is_call(call, "reshape_like"):
        return make("reshape", call.args[0], newshape=shape)
    name = "broadcast_to" if is_call(call, "broadcast_to_like") else "collapse_sum_to"
    return make(name, call.args[0], shape=shape)


@_rule("cast_like")
def _take_dtype(call: Any) -> Any:
    return make("cast", call.args[0], dtype=str(dtype_of(call)))


# Shapes and orders.


@_rule(*_RESHAPES)
def _join_reshapes(call: Any) -> Any:
    """Two changes of the shape are one; none if the shape is the first one again."""
    inner, shape = call.args[0], shape_of(call)
    if shape is not None and shape_of(inner) == shape:
        return inner
    if shape is None or not is_call(inner, *_RESHAPES):
        return None
    source = inner.args[0]
    return source if shape_of(source) == shape else make("reshape", source, newshape=shape)


@_rule("layout_transform")
def _join_layouts(call: Any) -> Any:
    """A -> B -> C is A -> C."""
    attrs: Any = call.attrs
    if attrs.src_layout == attrs.dst_layout:
        return call.args[0]
    inner = call.args[0]
    if not is_call(inner, "layout_transform") or inner.attrs.dst_layout != attrs.src_layout:
        return None
    source, first = inner.args[0], inner.attrs.src_layout
    if first == attrs.dst_layout:
        return source if source.checked_type == call.checked_type else None
    if sum([size.isdigit() for size in first + attrs.src_layout + attrs.dst_layout]):
        return None  # sizes that blocks do not divide are padded
    return make("layout_transform", source, src_layout=first, dst_layout=attrs.dst_layout)


# Arithmetic.

_BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum")


@_rule(*_BINARY)
def _narrow_filled(call: Any) -> Any:
    """A tensor of one value that is made is a number, if the other operand has the whole shape."""
    for place, other in ((0, 1), (1, 0)):
        filled = call.args[place]
        if isinstance(filled, Constant) or call.args[other].checked_type != call.checked_type:
            continue
        value = uniform_value(filled)
        if value is not None:
            args = list(call.args)
            args[place] = scalar(value, filled)
            return Call(call.op, args, call.attrs, span=call.span)
    return None


def _with_constant(node: Any, name: str) -> tuple[Any, Any] | None:
    """Return the operand and the elements of the constant of a commutative operator of both."""
    if not is_call(node, name):
        return None
    for value, other in (node.args, node.args[::-1]):
        if isinstance(other, Constant) and not isinstance(value, Constant):
            return value, constant_array(other)
    return None


def _as_constant(array: Any, dtype: Any) -> Constant:
    return const(numpy.asarray(array).astype(dtype.numpy()), str(dtype))


@_rule("add", "multiply")
def _join_constants(call: Any) -> Any:
    """(x + a) + b is x + (a + b), (x * a) * b is x * (a * b)."""
    outer = _with_constant(call, call.op.name)
    inner = None if outer is None else _with_constant(outer[0], call.op.name)
    if outer is None or inner is None or dtype_of(call) is None:
        return None
    a, b = inner[1], outer[1]
    joined = a + b if is_call(call, "add") else _product(a, b)
    if joined is None or not numpy.isfinite(joined).all():
        return None
    return make(call.op.name, inner[0], _as_constant(joined, dtype_of(call)))


def _product(a: Any, b: Any) -> Any:
    """Return a product of constants, None if it is too great or too small for their dtype."""
    with numpy.errstate(over="ignore", under="ignore"):
        product = a * b
    vanishes = (product == 0) & (a != 0) & (b != 0) if product.dtype.kind == "f" else False
    return None if numpy.any(vanishes) or not numpy.isfinite(product).all() else product


@_rule("multiply")
def _switch(call: Any) -> Any:
    """(x + a) * b is x * b + a * b: then the factor may go into a weight."""
    outer = _with_constant(call, "multiply")
    inner = None if outer is None else _with_constant(outer[0], "add")
    if outer is None or inner is None or dtype_of(call) is None:
        return None
    dtype, summand = dtype_of(call), _product(inner[1], outer[1])
    if summand is None:
        return None
    product = make("multiply", inner[0], _as_constant(outer[1], dtype))
    return make("add", product, _as_constant(summand, dtype))


@_rule("divide")
def _reciprocal_root(call: Any) -> Any:
    """c / sqrt(x) is c * rsqrt(x)."""
    dividend, divisor = call.args
    if not is_call(divisor, "sqrt") or not isinstance(dividend, Constant):
        return None
    root = make("rsqrt", divisor.args[0])
    is_one = uniform_value(dividend) == 1 and root.checked_type == call.checked_type
    return root if is_one else make("multiply", dividend, root)


# Limits.


@_rule("clip")
def _join_limits(call: Any) -> Any:
    """Limits within limits are the narrower ones; those that hold anyway go."""
    attrs: Any = call.attrs
    low, high = attrs.a_min, attrs.a_max
    inner = call.args[0]
    if is_call(inner, "clip"):
        before = inner.attrs
        if before.a_min <= high and low <= before.a_max:
            low, high = max(low, before.a_min), min(high, before.a_max)
            return make("clip", inner.args[0], a_min=low, a_max=high)
        return None
    return inner if _lies_within(inner, low, high) else None


def _lies_within(node: Any, low: float, high: float) -> bool:
    """Return whether all values that a tensor may have lie between limits."""
    while is_call(node, "cast") and _keeps_values(node):
        node = node.args[0]
    dtype = dtype_of(node)
    if dtype is None or not dtype.is_integer or dtype.is_bool:
        return False
    limits = numpy.iinfo(dtype.numpy())
    return bool(low <= limits.min and limits.max <= high)


def _keeps_values(cast: Any) -> bool:
    source, wide = dtype_of(cast.args[0]), dtype_of(cast)
    return source is not None and wide is not None and bool(holds_all(source, wide))


# Softmax that is written out.


@_rule("divide")
def _softmax(call: Any) -> Any:
    """exp(x) / sum(exp(x)) is softmax(x); so it is with the greatest element subtracted."""
    dividend, total = call.args
    if not is_call(dividend, "exp") or not is_call(total, "sum") or total.args[0] is not dividend:
        return None
    axis = _one_axis(total)
    if axis is None:
        return None
    data = dividend.args[0]
    if is_call(data, "subtract") and is_call(data.args[1], "max"):
        greatest = data.args[1]
        if greatest.args[0] is data.args[0] and _one_axis(greatest) == axis:
            data = data.args[0]
    return make("nn.softmax", data, axis=axis)


def _one_axis(reduction: Any) -> int | None:
    """Return the axis of a reduction that keeps it; None for several axes, or one that goes."""
    attrs = reduction.attrs
    type_ = reduction.args[0].checked_type
    if not isinstance(type_, TensorType) or attrs.axis is None or len(attrs.axis) != 1:
        return None
    if not attrs.keepdims or attrs.exclude:
        return None
    return axis_of(int(attrs.axis[0]), len(type_.shape))


@_rule("log")
def _log_softmax(call: Any) -> Any:
    """log(softmax(x)) is log_softmax(x)."""
    inner = call.args[0]
    if not is_call(inner, "nn.softmax"):
        return None
    return make("nn.log_softmax", inner.args[0], axis=inner.attrs.axis)


# The pass.


def _once(call: Any) -> Any:
    for rule in _RULES.get(call.op.name, ()):
        found = rule(call)
        if found is not None:
            return found
    return _by_relax(call)


def _simplified(node: Any) -> Any:
    try:
        for _ in range(8):  # a replacement may itself be replaced
            found = _once(node) if is_call(node) else None
            if found is None:
                return node
            node = found
    except TilesmithError as error:  # such as an operand whose sizes are not known
        record_fallback("simplification", f"a call of {node.op.name}", error)
    return node


@relay_pass("SimplifyExpr", 0, ["InferType"])
def SimplifyExpr(mod: IRModule) -> IRModule:
    """Replace operators by fewer or simpler ones with the same result.

    Conversions, reshapes, permutations, limits, additions and multiplications that follow each
    other are joined; what has no effect goes; operators that take shape or dtype of another tensor
    get them written; c / sqrt(x), softmax and log_softmax that are written out are recognised.
    """
    return rewrite_functions(mod, _simplified)

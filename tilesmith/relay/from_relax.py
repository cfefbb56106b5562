"""Writes calls of relax's operators as relay's.

    as_relay(relax.op.permute_dims(x), [x])      # transpose(x)

What relay has no word for stays a call of the relax operator: expressions of the functional door
may hold these, and mean the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir import IntImm
from tilesmith.relax.expr import Call, Constant, PrimValue, Tuple, known_struct_info
from tilesmith.relax.struct_info import ShapeExpr
from tilesmith.relay.op.view import SAME, make_call

__all__ = ["as_relay"]

Rule = Callable[[Any, list[Any]], Any]
"""``(call of relax, arguments)`` → an expression of relay, None where there is none."""


def _info(expr: Any) -> Any:
    """Return what is known about a value; the caller knows of which kind it is."""
    return known_struct_info(expr)


def as_relay(call: Any, args: list[Any]) -> Any:
    """Return what a call of a relax operator computes of other arguments (of the same types)."""
    args = [_argument(arg) for arg in args]
    name = call.op.name
    if name in SAME:
        return make_call(SAME[name], args, dict(call.attrs.items()) if call.attrs else None)
    rule = _RULES.get(name)
    found = None if rule is None else rule(call, args)
    return found if found is not None else Call(call.op, args, call.attrs, call.sinfo_args)


def _argument(arg: Any) -> Any:
    if isinstance(arg, Constant) and arg.dialect != "relay":
        return Constant(arg.data, dialect="relay")
    return arg


def _constant_sizes(shape: Any) -> list[int] | None:
    """Return sizes as integers, None unless all are constant."""
    if not isinstance(shape, ShapeExpr):
        return None
    found = [size.value for size in shape.values if isinstance(size, IntImm)]
    return found if len(found) == len(shape.values) else None


def _to_shape(name: str, attribute: str) -> Rule:
    def rule(call: Any, args: list[Any]) -> Any:
        sizes = _constant_sizes(args[1])
        return None if sizes is None else make_call(name, args[:1], {attribute: sizes})

    return rule


def _reshape(call: Any, args: list[Any]) -> Any:
    sizes = _constant_sizes(args[1])
    if sizes is None:
        return None
    if not sizes:  # to a number: `newshape` of no sizes
        return make_call("squeeze", args[:1], {"axis": None})
    return make_call("reshape", args[:1], {"newshape": sizes, "allowzero": True})


def _renamed(name: str, **names: str) -> Rule:
    """Write the operator ``name``; ``names`` are its attributes after those of relax."""

    def rule(call: Any, args: list[Any]) -> Any:
        return make_call(name, args, {new: call.attrs[old] for new, old in names.items()})

    return rule


def _with_attributes(name: str, *attributes: str) -> Rule:
    """Write the operator ``name`` with attributes of the same names; None is left out."""

    def rule(call: Any, args: list[Any]) -> Any:
        given = {key: call.attrs[key] for key in attributes}
        given = {key: value for key, value in given.items() if value is not None}
        return make_call(name, args, given)

    return rule


def _expand_dims(call: Any, args: list[Any]) -> Any:
    found = args[0]
    rank = _info(call).ndim
    axes = sorted([axis % rank for axis in call.attrs.axis])
    while axes:  # axes side by side together
        count = 1
        while count < len(axes) and axes[count] == axes[0] + count:
            count += 1
        found = make_call("expand_dims", [found], {"axis": axes[0], "num_newaxis": count})
        axes = axes[count:]
    return found


def _matmul(call: Any, args: list[Any]) -> Any:
    ranks = [_info(arg).ndim for arg in call.args]
    out = {} if call.attrs.out_dtype is None else {"out_dtype": call.attrs.out_dtype}
    if ranks == [2, 2]:
        return make_call("nn.matmul", args, out)
    if ranks == [3, 3]:
        return make_call("nn.batch_matmul", args, {"transpose_b": False, **out})
    return None


def _filled(name: str) -> Rule:
    def rule(call: Any, args: list[Any]) -> Any:
        sizes = _constant_sizes(args[0])
        dtype = _info(call).dtype
        return None if sizes is None else make_call(name, [], {"shape": sizes, "dtype": dtype})

    return rule


def _full(call: Any, args: list[Any]) -> Any:
    sizes = _constant_sizes(args[0])
    dtype = _info(call).dtype
    return None if sizes is None else make_call("full", [args[1]], {"shape": sizes, "dtype": dtype})


def _numbers(values: Any) -> list[int] | None:
    if not isinstance(values, Tuple):
        return None
    found = [
        field.value.value
        for field in values.fields
        if isinstance(field, PrimValue) and isinstance(field.value, IntImm)
    ]
    return found if len(found) == len(values.fields) else None


def _strided_slice(call: Any, args: list[Any]) -> Any:
    parts = [_numbers(arg) for arg in args[1:]]
    if None in parts:
        return None
    axes, begin, end, *strides = parts
    given = {"begin": begin, "end": end, "axes": axes}
    if strides:
        given["strides"] = strides[0]
    return make_call("strided_slice", args[:1], given)


def _pad(call: Any, args: list[Any]) -> Any:
    attrs = call.attrs
    width = list(attrs.pad_width)
    if attrs.pad_mode != "constant" or attrs.pad_value != 0:
        return None
    pairs = [[width[place], width[place + 1]] for place in range(0, len(width), 2)]
    value = Constant(_zero(args[0], call), dialect="relay")
    return make_call("nn.pad", [args[0], value], {"pad_width": pairs})


def _zero(arg: Any, call: Any) -> Any:
    import numpy

    return numpy.zeros((), _info(call).dtype.numpy())


def _convolution(name: str, *more: str) -> Rule:
    keys = ("strides", "padding", "dilation", "groups", "data_layout", "kernel_layout", *more)
    return _with_attributes(name, *keys, "out_layout", "out_dtype")


def _pool_gradient(name: str) -> Rule:
    def rule(call: Any, args: list[Any]) -> Any:
        given = {key: value for key, value in call.attrs.items() if value is not None}
        if any(step != 1 for step in given.pop("dilation")):
            return None
        if name == "nn.max_pool2d_grad":
            given.pop("count_include_pad")
        return make_call(name, args, given)

    return rule


def _scan(name: str) -> Rule:
    def rule(call: Any, args: list[Any]) -> Any:
        attrs = call.attrs
        given = {"axis": attrs.axis, "exclusive": bool(attrs.exclusive)}
        if attrs.dtype is not None:
            given["dtype"] = attrs.dtype
        return make_call(name, args, given)

    return rule


def _last_axis_first(indices: Any, call: Any) -> Any:
    rank = _info(call.args[1]).ndim
    return make_call("transpose", [indices], {"axes": [rank - 1, *range(rank - 1)]})


def _gather_nd(call: Any, args: list[Any]) -> Any:
    if call.attrs.batch_dims:
        return None
    return make_call("gather_nd", [args[0], _last_axis_first(args[1], call)], {})


def _scatter_nd(call: Any, args: list[Any]) -> Any:
    given = {"mode": "update" if call.attrs.reduction == "none" else call.attrs.reduction}
    if given["mode"] not in ("update", "add"):
        return None
    return make_call("scatter_nd", [args[0], _last_axis_first(args[1], call), args[2]], given)


_RULES: dict[str, Rule] = {
    "relax.broadcast_to": _to_shape("broadcast_to", "shape"),
    "relax.collapse_sum_to": _to_shape("collapse_sum_to", "shape"),
    "relax.cumprod": _scan("cumprod"),
    "relax.cumsum": _scan("cumsum"),
    "relax.expand_dims": _expand_dims,
    "relax.full": _full,
    "relax.gather_nd": _gather_nd,
    "relax.grad.avg_pool2d_backward": _pool_gradient("nn.avg_pool2d_grad"),
    "relax.grad.max_pool2d_backward": _pool_gradient("nn.max_pool2d_grad"),
    "relax.matmul": _matmul,
    "relax.nn.pad": _pad,
    "relax.ones": _filled("ones"),
    "relax.reshape": _reshape,
    "relax.scatter_nd": _scatter_nd,
    "relax.square": lambda call, args: make_call("multiply", [args[0], args[0]]),
    "relax.strided_slice": _strided_slice,
    "relax.tile": _renamed("tile", reps="repeats"),
    "relax.where": lambda call, args: make_call("where", args),
    "relax.zeros": _filled("zeros"),
    **{
        f"relax.{name}": _with_attributes(name, "axis", "keepdims")
        for name in ("all", "any", "max", "mean", "min", "prod", "sum")
    },
    **{f"relax.nn.conv{rank}d": _convolution(f"nn.conv{rank}d") for rank in (1, 2, 3)},
    **{
        f"relax.nn.conv{rank}d_transpose": _convolution(
            f"nn.conv{rank}d_transpose", "output_padding"
        )
        for rank in (1, 2, 3)
    },
}

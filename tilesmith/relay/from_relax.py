"""Writes calls of relax's operators as relay's.

    as_relay(relax.op.permute_dims(x), [x])      # transpose(x)

What relay has no word for stays a call of the relax operator: expressions of the functional door
may hold these, and mean the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.ir import IntImm, Op
from tilesmith.relax.expr import Call, Constant, PrimValue, Tuple, Var, known_struct_info
from tilesmith.relax.struct_info import ShapeExpr
from tilesmith.relay.op.view import SAME, make_call
from tilesmith.runtime.dtype import DataType

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
    if name == "relax.add":
        bias = _bias_add(call, args)
        if bias is not None:
            return bias
    if name in SAME and _has_all(SAME[name], args):
        return make_call(SAME[name], args, dict(call.attrs.items()) if call.attrs else None)
    rule = _RULES.get(name)
    found = None if rule is None else rule(call, args)
    return found if found is not None else Call(call.op, args, call.attrs, call.sinfo_args)


def _has_all(name: str, args: list[Any]) -> bool:
    """Return whether a relay operator can do without the arguments that are not given."""
    return all(one.is_optional for one in Op.get(name).spec.arguments[len(args) :])


def _argument(arg: Any) -> Any:
    if isinstance(arg, Constant) and arg.dialect != "relay":
        return Constant(arg.data, dialect="relay")
    return arg


def _bias_add(call: Any, args: list[Any]) -> Any:
    """Write the sum of a convolution and of one number for each channel; None for other sums."""
    data, bias = args
    if not isinstance(data, Call) or not isinstance(data.op, Op):
        return None
    if not data.op.name.startswith("nn.conv"):
        return None
    whole, part = [
        _constant_sizes(getattr(known_struct_info(arg), "shape", None))
        for arg in (call, call.args[1])
    ]
    if whole is None or part is None or len(whole) != len(part):
        return None
    axes = [axis for axis, size in enumerate(part) if size != 1]
    if len(axes) != 1 or part[axes[0]] != whole[axes[0]]:
        return None
    vector = _as_vector(bias)
    return None if vector is None else make_call("nn.bias_add", [data, vector], {"axis": axes[0]})


def _as_vector(bias: Any) -> Any:
    """Return the vector that a constant holds, or that was reshaped."""
    if isinstance(bias, Constant):
        return Constant(bias.data.numpy().reshape(-1), dialect="relay")
    if isinstance(bias, Call) and bias.op is Op.get("reshape"):
        vector = bias.args[0]
        info = vector.struct_info if isinstance(vector, Var) else None
        return vector if getattr(info, "ndim", None) == 1 else None
    return None


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


def _is_transposed(matrix: Any) -> bool:
    is_call = isinstance(matrix, Call) and matrix.op is Op.get("transpose")
    return is_call and matrix.attrs.axes in (None, (1, 0), (-1, -2))


def _matmul(call: Any, args: list[Any]) -> Any:
    ranks = [_info(arg).ndim for arg in call.args]
    out = {} if call.attrs.out_dtype is None else {"out_dtype": call.attrs.out_dtype}
    if ranks[0] >= 2 and ranks[1] == 2:
        weight = args[1]
        if _is_transposed(weight):
            sizes = _constant_sizes(getattr(known_struct_info(call), "shape", None))
            units = {} if sizes is None else {"units": sizes[-1]}
            return make_call("nn.dense", [args[0], weight.args[0]], {**units, **out})
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
    if None in parts or call.attrs.get("assume_inbound"):
        return None
    axes, begin, end, *strides = parts
    given = {"begin": begin, "end": end, "axes": axes}
    if strides:
        given["strides"] = strides[0]
    return make_call("strided_slice", args[:1], given)


def _pad(call: Any, args: list[Any]) -> Any:
    attrs = call.attrs
    width = list(attrs.pad_width)
    if not isinstance(attrs.pad_value, (int, float)):
        return None
    pairs = [[width[place], width[place + 1]] for place in range(0, len(width), 2)]
    value = _constant(attrs.pad_value, _info(call).dtype)
    return make_call("nn.pad", [args[0], value], {"pad_width": pairs, "pad_mode": attrs.pad_mode})


def _constant(value: Any, dtype: Any) -> Constant:
    return Constant(numpy.asarray(value, DataType(dtype).numpy()), dialect="relay")


def _convolution(name: str, *more: str) -> Rule:
    keys = ("strides", "padding", "dilation", "groups", "data_layout", "kernel_layout", *more)
    write = _with_attributes(name, *keys, "out_layout", "out_dtype")

    def rule(call: Any, args: list[Any]) -> Any:
        made = write(call, args)
        sizes = _constant_sizes(getattr(known_struct_info(call.args[1]), "shape", None))
        layout = call.attrs.kernel_layout
        if sizes is None or len(sizes) != len(layout):
            return made
        by_axis = dict(zip(layout, sizes))
        count = by_axis["O"] * (call.attrs.groups if "transpose" in name else 1)
        window = [by_axis[axis] for axis in "DHW" if axis in by_axis]
        return make_call(
            name, args, {**dict(made.attrs.items()), "channels": count, "kernel_size": window}
        )

    return rule


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
    given = {"batch_dims": call.attrs.batch_dims}
    return make_call("gather_nd", [args[0], _last_axis_first(args[1], call)], given)


def _scatter_nd(call: Any, args: list[Any]) -> Any:
    given = {"mode": "update" if call.attrs.reduction == "none" else call.attrs.reduction}
    if given["mode"] not in ("update", "add", "mul", "min", "max"):
        return None
    return make_call("scatter_nd", [args[0], _last_axis_first(args[1], call), args[2]], given)


def _same_dtype(name: str) -> Rule:
    """Write ``name``, which cannot change the dtype."""
    return lambda call, args: make_call(name, args) if call.attrs.dtype is None else None


def _arange(call: Any, args: list[Any]) -> Any:
    bounds = [getattr(getattr(arg, "value", None), "value", None) for arg in args]
    if len(bounds) != 3 or not all(isinstance(bound, (int, float)) for bound in bounds):
        return None
    dtype = _info(call).dtype
    return make_call("arange", [_constant(one, dtype) for one in bounds], {"dtype": dtype})


def _triangle(upper: bool) -> Rule:
    def rule(call: Any, args: list[Any]) -> Any:
        k = call.attrs.k
        return make_call("trilu", [args[0], _constant(k, "int32")], {"upper": upper})

    return rule


def _clip(call: Any, args: list[Any]) -> Any:
    low, high = call.attrs.min, call.attrs.max
    if not isinstance(low, (int, float)) or not isinstance(high, (int, float)):
        return None
    return make_call("clip", args, {"a_min": low, "a_max": high})


def _variance(call: Any, args: list[Any]) -> Any:
    axis = call.attrs.axis
    mean = make_call("mean", args, {"axis": axis, "keepdims": True})
    attributes = {"axis": axis, "keepdims": call.attrs.keepdims}
    return make_call("variance", [args[0], mean], attributes)


def _place(name: str) -> Rule:
    """Write the place of an extremum: relay counts in int32."""

    def rule(call: Any, args: list[Any]) -> Any:
        shape = _info(call.args[0]).shape
        sizes = _constant_sizes(shape)
        if sizes is None or numpy.prod(sizes) >= 2**31:
            return None
        axis = call.attrs.axis
        attributes = {"axis": None if axis is None else [axis], "keepdims": call.attrs.keepdims}
        place = make_call(name, args, attributes)
        return make_call("cast", [place], {"dtype": _info(call).dtype})

    return rule


def _is_single(call: Any) -> bool:
    return str(_info(call).dtype) in ("float32", "float64")


def _silu(call: Any, args: list[Any]) -> Any:
    if not _is_single(call):
        return None
    return make_call("multiply", [args[0], make_call("sigmoid", args)])


def _gelu(call: Any, args: list[Any]) -> Any:
    if not _is_single(call):
        return None
    dtype = _info(call).dtype
    scaled = make_call("multiply", [args[0], _constant(math.sqrt(0.5), dtype)])
    halved = make_call("multiply", [make_call("erf", [scaled]), _constant(0.5, dtype)])
    return make_call("multiply", [args[0], make_call("add", [_constant(0.5, dtype), halved])])


def _batch_norm(call: Any, args: list[Any]) -> Any:
    if call.attrs.training:
        return None
    return _with_attributes("nn.batch_norm", "axis", "epsilon", "center", "scale")(call, args)


def _layer_norm(call: Any, args: list[Any]) -> Any:
    attrs = call.attrs
    if len(attrs.axes) != 1:
        return None
    given = {"epsilon": attrs.epsilon, "center": attrs.center, "scale": attrs.scale}
    return make_call("nn.layer_norm", args, {"axis": attrs.axes[0], **given})


def _channel_norm(name: str, *attributes: str) -> Rule:
    """Write a normalisation over all axes but that of the batch and that of the channels."""

    def rule(call: Any, args: list[Any]) -> Any:
        attrs = call.attrs
        rank = _info(call.args[0]).ndim
        channel = attrs.channel_axis % rank if rank > 0 else 0
        others = [axis for axis in range(1, rank) if axis != channel]
        if channel == 0 or sorted([axis % rank for axis in attrs.axes]) != others:
            return None
        return make_call(name, args, {"axis": channel, **{key: attrs[key] for key in attributes}})

    return rule


def _pool(name: str) -> Rule:
    keys = ["pool_size", "strides", "padding", "dilation", "ceil_mode", "layout", "out_layout"]
    if "avg" in name:
        keys.append("count_include_pad")
    return _with_attributes(name, *keys)


def _sort(name: str, *attributes: str, ascending: str = "descending") -> Rule:
    def rule(call: Any, args: list[Any]) -> Any:
        attrs = call.attrs
        given = {"is_ascend": not attrs[ascending], **{key: attrs[key] for key in attributes}}
        return make_call(name, args, given)

    return rule


def _one_hot(call: Any, args: list[Any]) -> Any:
    attrs = call.attrs
    values = [attrs.on_value, attrs.off_value]
    values = [getattr(one, "value", one) for one in values]
    values = [getattr(one, "value", one) for one in values]
    if not all(isinstance(one, (int, float)) for one in values):
        return None
    made = [_constant(one, attrs.dtype) for one in values]
    given = {"depth": attrs.depth, "axis": attrs.axis, "dtype": attrs.dtype}
    return make_call("one_hot", [args[0], *made], given)


def _take(call: Any, args: list[Any]) -> Any:
    if isinstance(args[1], PrimValue):
        return None
    return make_call("take", args, {"axis": call.attrs.axis, "mode": call.attrs.mode})


def _resize2d(call: Any, args: list[Any]) -> Any:
    sizes = _constant_sizes(args[1])
    if sizes is None:
        return None
    given = {key: value for key, value in call.attrs.items() if value is not None}
    return make_call("image.resize2d", args[:1], {"size": sizes, **given})


def _flatten(call: Any, args: list[Any]) -> Any:
    return make_call("reshape", args, {"newshape": [-1], "allowzero": False})


def _fused_multiply_add(call: Any, args: list[Any]) -> Any:
    return make_call("add", [make_call("multiply", args[:2]), args[2]])


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
    "relax.arange": _arange,
    "relax.argmax": _place("argmax"),
    "relax.argmin": _place("argmin"),
    "relax.argsort": _sort("argsort", "axis", "dtype"),
    "relax.clip": _clip,
    "relax.einsum": _renamed("einsum", equation="subscripts"),
    "relax.ewise_fma": _fused_multiply_add,
    "relax.flatten": _flatten,
    "relax.full_like": _same_dtype("full_like"),
    "relax.image.resize2d": _resize2d,
    "relax.nn.batch_norm": _batch_norm,
    "relax.nn.dense": _with_attributes("nn.dense", "out_dtype"),
    "relax.nn.gelu": _gelu,
    "relax.nn.group_norm": _channel_norm(
        "nn.group_norm", "num_groups", "epsilon", "center", "scale"
    ),
    "relax.nn.instance_norm": _channel_norm("nn.instance_norm", "epsilon"),
    "relax.nn.layer_norm": _layer_norm,
    "relax.nn.silu": _silu,
    "relax.one_hot": _one_hot,
    "relax.ones_like": _same_dtype("ones_like"),
    "relax.sort": _sort("sort", "axis"),
    "relax.std": lambda call, args: make_call("sqrt", [_variance(call, args)]),
    "relax.take": _take,
    "relax.topk": _sort("topk", "k", "axis", "ret_type", "dtype", ascending="largest"),
    "relax.tril": _triangle(False),
    "relax.triu": _triangle(True),
    "relax.variance": _variance,
    "relax.zeros_like": _same_dtype("zeros_like"),
    **{
        f"relax.nn.{kind}_pool{rank}d": _pool(f"nn.{kind}_pool{rank}d")
        for kind in ("avg", "max")
        for rank in (1, 2, 3)
    },
    **{
        f"relax.nn.adaptive_{kind}_pool{rank}d": _with_attributes(
            f"nn.adaptive_{kind}_pool{rank}d", "output_size", "layout", "out_layout"
        )
        for kind in ("avg", "max")
        for rank in (1, 2, 3)
    },
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

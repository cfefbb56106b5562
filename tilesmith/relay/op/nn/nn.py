"""``relay.op.nn.nn``: operators of neural networks that are no convolutions, pools or norms."""

from __future__ import annotations

from typing import Any

from tilesmith.relax import op as relax
from tilesmith.relax.attrs import (
    Schema,
    anything,
    boolean,
    integer,
    ints,
    number,
    optional_integer,
    scalar,
    text,
)
from tilesmith.relax.expr import RelaxExpr
from tilesmith.relax.spec import topi
from tilesmith.relay.expr import const
from tilesmith.relay.op.nn import (  # noqa: F401 - they declare the operators
    contrib,
    convolution,
    normalization,
    pooling,
    sparse,
)
from tilesmith.relay.op.tensor import dtype_of
from tilesmith.relay.op.view import (
    axis_of,
    channels_along,
    computed,
    constant_value,
    define,
    function,
    functions,
    make_call,
    name_or_empty,
    rank_of,
    same,
    sizes,
)
from tilesmith.support.errors import ShapeError

# Products


def _check_units(attrs: Any, weight: Any, axis: int) -> None:
    if attrs.units is not None and isinstance(sizes(weight)[axis], int):
        if sizes(weight)[axis] != attrs.units:
            raise ShapeError(f"units is {attrs.units}, the weight has shape {sizes(weight)}")


def _dense(attrs: Any, data: Any, weight: Any) -> Any:
    _check_units(attrs, weight, 0)
    return relax.matmul(data, relax.permute_dims(weight), out_dtype=attrs.out_dtype or None)


def _swapped(expr: Any) -> Any:
    rank = rank_of(expr)
    return relax.permute_dims(expr, [*range(rank - 2), rank - 1, rank - 2])


def _matmul(attrs: Any, a: Any, b: Any) -> Any:
    if attrs.get("units") is not None:
        _check_units(attrs, b, 0 if attrs.transpose_b else -1)
    a = _swapped(a) if attrs.transpose_a else a
    b = _swapped(b) if attrs.transpose_b else b
    return relax.matmul(a, b, out_dtype=attrs.out_dtype or None)


define(
    "nn.dense",
    "data weight",
    _dense,
    level=1,
    schema=Schema(units=optional_integer(), out_dtype=name_or_empty()),
    record=relax.matmul.op.spec,
    description="``data @ weight.T``: the weight is (units, inputs).",
    operand_sizes=lambda attrs, data: [None if attrs.units is None else [attrs.units, data[-1]]],
)
define(
    "nn.matmul",
    "tensor_a tensor_b",
    _matmul,
    level=1,
    schema=Schema(
        units=optional_integer(),
        out_dtype=name_or_empty(),
        transpose_a=boolean(False),
        transpose_b=boolean(False),
    ),
    record=relax.matmul.op.spec,
    description="The matrix product; either matrix may be given transposed.",
)
define(
    "nn.batch_matmul",
    "tensor_a tensor_b",
    _matmul,
    level=10,
    schema=Schema(out_dtype=name_or_empty(), transpose_a=boolean(False), transpose_b=boolean(True)),
    record=relax.matmul.op.spec,
    description="The matrix product for each of a batch; the second matrix is given transposed.",
)


# Activations and sums along a channel

same("nn.relu", "data", level=1)
same("nn.leaky_relu", "data", record="nn.leakyrelu", level=3, schema=Schema(alpha=number(0.01)))
same(
    "nn.prelu",
    "data alpha",
    level=3,
    schema=Schema(axis=integer(1)),
    operand_sizes=channels_along(1),
)


def _bias_add(attrs: Any, data: Any, bias: Any) -> Any:
    rank = rank_of(data)
    after = rank - 1 - axis_of(attrs.axis, rank)
    if after:
        bias = relax.expand_dims(bias, list(range(1, after + 1)))
    return relax.add(data, bias)


define(
    "nn.bias_add",
    "data bias",
    _bias_add,
    level=1,
    schema=Schema(axis=integer(1)),
    description="Add a vector along an axis.",
    operand_sizes=channels_along(1),
)
same("nn.batch_flatten", "data", level=2)


# Padding and spacing


def _pad(attrs: Any, data: Any, pad_value: Any = 0) -> Any:
    value = constant_value(pad_value, "pad_value")
    return relax.nn.pad(data, _flat(attrs.pad_width), value, attrs.pad_mode)


def _flat(pairs: Any) -> list[int]:
    return [int(number) for pair in pairs for number in pair]


def _pairs(rank: int, width: Any) -> tuple[tuple[int, int], ...]:
    if isinstance(width, int):
        return ((width, width),) * rank
    if len(width) == 2 and all(isinstance(one, int) for one in width):
        return ((width[0], width[1]),) * rank
    return tuple([(int(pair[0]), int(pair[-1])) for pair in width])


define(
    "nn.pad",
    "data pad_value",
    _pad,
    level=2,
    schema=Schema(pad_width=anything(()), pad_mode=text("constant")),
    record=relax.nn.pad.op.spec,
    description="Pad with a value, with the last element again, or with a reflection.",
)


@function("nn.pad")
def pad(data: Any, pad_width: Any, pad_value: Any = 0, pad_mode: str = "constant") -> Any:
    """Pad a tensor: ``pad_width`` has a pair (before, after) for each axis. ``pad_mode`` is
    "constant" (with ``pad_value``, a number or a constant), "edge" or "reflect".
    """
    if not isinstance(pad_value, RelaxExpr):
        pad_value = const(pad_value, _dtype_or_float(data))
    pairs = _pairs(rank_of(data), pad_width)
    return make_call("nn.pad", [data, pad_value], {"pad_width": pairs, "pad_mode": pad_mode})


def _dtype_or_float(data: Any) -> Any:
    found = dtype_of(data)
    return "float32" if found is None or found.is_void else found


computed(
    "nn.mirror_pad",
    "data",
    lambda attrs, data: topi.nn.mirror_pad(
        data,
        [pair[0] for pair in attrs.pad_width],
        [pair[1] for pair in attrs.pad_width],
        attrs.mode,
    ),
    level=2,
    schema=Schema(mode=text("SYMMETRIC"), pad_width=anything(())),
    description="Pad with mirrored elements.",
)


@function("nn.mirror_pad")
def mirror_pad(data: Any, pad_width: Any, mode: str = "SYMMETRIC") -> Any:
    """Pad with mirrored elements: "SYMMETRIC" repeats those at the border, "REFLECT" does not."""
    pairs = _pairs(rank_of(data), pad_width)
    return make_call("nn.mirror_pad", [data], {"pad_width": pairs, "mode": mode})


computed(
    "nn.dilate",
    "data",
    lambda attrs, data: topi.nn.dilate(data, attrs.strides, attrs.dilation_value),
    level=10,
    schema=Schema(strides=ints(), dilation_value=number(0.0)),
    description="Put distance between the elements.",
)
computed(
    "nn.space_to_batch_nd",
    "data",
    lambda attrs, data: topi.nn.space_to_batch_nd(
        data,
        attrs.block_shape,
        [pair[0] for pair in attrs.paddings],
        [pair[1] for pair in attrs.paddings],
        attrs.pad_value,
    ),
    level=5,
    schema=Schema(block_shape=ints(), paddings=anything(()), pad_value=scalar(0)),
    description="Move blocks of the spatial axes into the batch.",
)
computed(
    "nn.batch_to_space_nd",
    "data",
    lambda attrs, data: topi.nn.batch_to_space_nd(
        data,
        attrs.block_shape,
        [pair[0] for pair in attrs.crops],
        [pair[1] for pair in attrs.crops],
    ),
    level=5,
    schema=Schema(block_shape=ints(), crops=anything(())),
    description="Move parts of the batch into blocks of the spatial axes.",
)
computed(
    "nn.depth_to_space",
    "data",
    "topi.nn.depth_to_space",
    level=5,
    schema=Schema(block_size=integer(), layout=text("NCHW"), mode=text("DCR")),
    description="Move channels into blocks of the spatial axes.",
)
computed(
    "nn.space_to_depth",
    "data",
    "topi.nn.space_to_depth",
    level=5,
    schema=Schema(block_size=integer(), layout=text("NCHW")),
    description="Move blocks of the spatial axes into channels.",
)
computed(
    "nn.upsampling",
    "data",
    "topi.nn.upsampling",
    level=2,
    schema=Schema(
        scale_h=number(1.0),
        scale_w=number(1.0),
        layout=text("NCHW"),
        method=text("nearest_neighbor"),
        align_corners=boolean(False),
    ),
    description="Enlarge images by factors.",
)
computed(
    "nn.upsampling3d",
    "data",
    "topi.nn.upsampling3d",
    level=2,
    schema=Schema(
        scale_d=number(1.0),
        scale_h=number(1.0),
        scale_w=number(1.0),
        layout=text("NCDHW"),
        method=text("nearest_neighbor"),
        coordinate_transformation_mode=text("half_pixel"),
    ),
    description="Enlarge volumes by factors.",
)


# Losses


def _cross_entropy(attrs: Any, predictions: Any, targets: Any) -> Any:
    total = relax.sum(relax.multiply(relax.log(predictions), targets))
    count = relax.full((), const(sizes(predictions)[0], dtype_of(predictions)))
    return relax.negative(relax.divide(total, count))


define(
    "nn.cross_entropy",
    "predictions targets",
    _cross_entropy,
    level=10,
    description="The mean over a batch of ``-sum(log(predictions) * targets)``.",
)
same("nn.cross_entropy_with_logits", "predictions targets", level=10)
same(
    "nn.nll_loss",
    "predictions targets weights",
    level=10,
    schema=Schema(reduction=text("mean"), ignore_index=integer(-100)),
)

globals().update(functions("nn."))

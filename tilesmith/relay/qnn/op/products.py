"""Convolutions and matrix products of quantised tensors: sums of products in int32.

The zero points are subtracted first, ``sum((a - a0) * (b - b0))``; a convolution's padding stands
for zero. What the CPU's instructions for small integers need is made of this form when the graph is
packed (`relax.transform.pack_for_vectors`). The result has zero point 0, and as its scale the
product of both scales.
"""

from __future__ import annotations

from typing import Any

from tilesmith.relax import op as relax
from tilesmith.relax.attrs import Schema, optional_integer, repeated, text
from tilesmith.relay.op.nn.convolution import check_weight, convolution_fields
from tilesmith.relay.op.view import define, make_call, name_or_empty, rank_of, sizes
from tilesmith.relay.qnn.op.parameters import (
    SCALE,
    ZERO_POINT,
    centred,
    check_dtype,
    check_parameters,
    parameter,
    sizes_along,
)
from tilesmith.support.errors import OpAttributeInvalid, ShapeError

__all__ = ["batch_matmul", "contrib_dense_pack", "conv2d", "conv2d_transpose", "dense"]

_SMALL = ("int8", "uint8", "int16")


def _checked(name: str, data: Any, kernel: Any, given: Any, channel_axis: int) -> None:
    in_point, kernel_point, in_scale, kernel_scale = given
    check_dtype(name, "data", data, *_SMALL)
    check_dtype(name, "kernel", kernel, *_SMALL)
    check_parameters(name, None, input_scale=in_scale, input_zero_point=in_point)
    channels = sizes_along(kernel, channel_axis)
    check_parameters(name, channels, kernel_scale=kernel_scale, kernel_zero_point=kernel_point)


def _with_dtype(total: Any, dtype: Any) -> Any:
    return total if str(dtype or "int32") == "int32" else relax.astype(total, dtype)


def _check_sums(name: str, attrs: Any) -> None:
    if str(attrs.out_dtype or "int32") not in ("int32", "int16"):
        raise OpAttributeInvalid(f"{name}: out_dtype is int32 or int16, not {attrs.out_dtype}")


def _convolve(name: str, attrs: Any, data: Any, kernel: Any, given: Any) -> Any:
    check_weight(attrs, kernel)
    _check_sums(name, attrs)
    channel_axis = attrs.kernel_layout.index("O")
    _checked(name, data, kernel, given, channel_axis)
    options = {key: attrs[key] for key in ("strides", "padding", "dilation", "groups")}
    if "output_padding" in attrs:
        options["output_padding"] = attrs.output_padding
    function = relax.nn.conv2d_transpose if name.endswith("transpose") else relax.nn.conv2d
    total = function(
        centred(data, given[0], attrs.data_layout.index("C")),
        centred(kernel, given[1], channel_axis),
        data_layout=attrs.data_layout,
        kernel_layout=attrs.kernel_layout,
        out_layout=attrs.out_layout or None,
        out_dtype="int32",
        **options,
    )
    return _with_dtype(total, attrs.out_dtype)


def _fields(kernel_layout: str) -> dict[str, Any]:
    fields = convolution_fields(2, kernel_layout)
    fields["out_dtype"] = text("int32")
    return fields


def _transposed_schema() -> Schema:
    fields = _fields("IOHW")
    out_dtype = fields.pop("out_dtype")
    return Schema(**fields, output_padding=repeated(2, 0), out_dtype=out_dtype)


_PARAMETERS = "input_zero_point kernel_zero_point input_scale kernel_scale"

define(
    "qnn.conv2d",
    "data kernel " + _PARAMETERS,
    lambda attrs, data, kernel, *given: _convolve("qnn.conv2d", attrs, data, kernel, given),
    level=11,
    schema=Schema(**_fields("OIHW")),
    description="A convolution of quantised tensors, as sums in int32.",
)
define(
    "qnn.conv2d_transpose",
    "data kernel " + _PARAMETERS,
    lambda attrs, data, kernel, *given: _convolve(
        "qnn.conv2d_transpose", attrs, data, kernel, given
    ),
    level=11,
    schema=_transposed_schema(),
    description="A transposed convolution of quantised tensors, as sums in int32.",
)


def _dense(attrs: Any, data: Any, kernel: Any, *given: Any) -> Any:
    name = "qnn.dense"
    _check_sums(name, attrs)
    _checked(name, data, kernel, given, 0)
    if attrs.units is not None and sizes(kernel)[0] != attrs.units:
        raise ShapeError(f"{name}: units is {attrs.units}, the kernel has shape {sizes(kernel)}")
    weight = relax.permute_dims(centred(kernel, given[1], 0))
    return _with_dtype(relax.matmul(centred(data, given[0], -1), weight), attrs.out_dtype)


def _dense_pack(attrs: Any, data: Any, kernel: Any, *given: Any) -> Any:
    if attrs.weight_layout not in ("", "NC"):
        raise OpAttributeInvalid(
            f"qnn.contrib_dense_pack: the layout {attrs.weight_layout} is of one instruction set",
            notes=("give the weight as NC; relay.build packs it for the target",),
        )
    return _dense(attrs, data, kernel, *given)


define(
    "qnn.dense",
    "data weight " + _PARAMETERS,
    _dense,
    level=11,
    schema=Schema(units=optional_integer(), out_dtype=text("int32")),
    description="``data @ weight.T`` of quantised tensors, as sums in int32.",
)
define(
    "qnn.contrib_dense_pack",
    "data weight " + _PARAMETERS,
    _dense_pack,
    level=11,
    schema=Schema(units=optional_integer(), out_dtype=text("int32"), weight_layout=name_or_empty()),
    description="``data @ weight.T`` of quantised tensors; the weight names its layout.",
)


def _batch_matmul(attrs: Any, x: Any, y: Any, x_point: Any, y_point: Any, *scales: Any) -> Any:
    name = "qnn.batch_matmul"
    _check_sums(name, attrs)
    check_dtype(name, "x", x, *_SMALL)
    check_dtype(name, "y", y, *_SMALL)
    check_parameters(name, None, x_zero_point=x_point, y_zero_point=y_point)
    check_parameters(name, None, x_scale=scales[0], y_scale=scales[1])
    if rank_of(x) != 3 or rank_of(y) != 3:
        raise ShapeError(f"{name}: both have three axes, got {sizes(x)} and {sizes(y)}")
    right = relax.permute_dims(centred(y, y_point, -1), [0, 2, 1])
    return _with_dtype(relax.matmul(centred(x, x_point, -1), right), attrs.out_dtype)


define(
    "qnn.batch_matmul",
    "x y x_zero_point y_zero_point x_scale y_scale",
    _batch_matmul,
    level=11,
    schema=Schema(out_dtype=text("int32")),
    description="The products of matrices of a batch, the second transposed, as sums in int32.",
)


def _operands(data: Any, kernel: Any, points: Any, scales: Any) -> list[Any]:
    return [
        data,
        kernel,
        *[parameter(one, ZERO_POINT) for one in points],
        *[parameter(one, SCALE) for one in scales],
    ]


def conv2d(
    data: Any,
    kernel: Any,
    input_zero_point: Any,
    kernel_zero_point: Any,
    input_scale: Any,
    kernel_scale: Any,
    kernel_size: Any,
    channels: Any,
    strides: Any = (1, 1),
    padding: Any = (0, 0),
    dilation: Any = (1, 1),
    groups: int = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_layout: str = "",
    out_dtype: str = "int32",
) -> Any:
    """Convolve quantised data; kernel parameters may have one value for each output channel. The
    result stands for numbers of scale ``input_scale * kernel_scale`` and zero point 0.
    """
    attributes = {
        "strides": strides, "padding": padding, "dilation": dilation, "groups": groups,
        "channels": channels, "kernel_size": kernel_size, "data_layout": data_layout,
        "kernel_layout": kernel_layout, "out_layout": out_layout, "out_dtype": out_dtype,
    }  # fmt: skip
    points, scales = (input_zero_point, kernel_zero_point), (input_scale, kernel_scale)
    return make_call("qnn.conv2d", _operands(data, kernel, points, scales), attributes)


def conv2d_transpose(
    data: Any,
    weight: Any,
    input_zero_point: Any,
    kernel_zero_point: Any,
    input_scale: Any,
    kernel_scale: Any,
    strides: Any = (1, 1),
    padding: Any = (0, 0),
    dilation: Any = (1, 1),
    groups: int = 1,
    channels: Any = None,
    kernel_size: Any = None,
    data_layout: str = "NCHW",
    kernel_layout: str = "IOHW",
    out_layout: str = "",
    output_padding: Any = (0, 0),
    out_dtype: str = "int32",
) -> Any:
    """Convolve quantised data, transposed; see `conv2d`."""
    attributes = {
        "strides": strides, "padding": padding, "dilation": dilation, "groups": groups,
        "channels": channels, "kernel_size": kernel_size, "data_layout": data_layout,
        "kernel_layout": kernel_layout, "out_layout": out_layout,
        "output_padding": output_padding, "out_dtype": out_dtype,
    }  # fmt: skip
    points, scales = (input_zero_point, kernel_zero_point), (input_scale, kernel_scale)
    return make_call("qnn.conv2d_transpose", _operands(data, weight, points, scales), attributes)


def dense(
    data: Any,
    weight: Any,
    input_zero_point: Any,
    kernel_zero_point: Any,
    input_scale: Any,
    kernel_scale: Any,
    units: Any,
    out_dtype: str = "int32",
) -> Any:
    """Return ``data @ weight.T``; the weight's parameters may have one value for each row."""
    points, scales = (input_zero_point, kernel_zero_point), (input_scale, kernel_scale)
    attributes = {"units": units, "out_dtype": out_dtype}
    return make_call("qnn.dense", _operands(data, weight, points, scales), attributes)


def contrib_dense_pack(
    data: Any,
    weight: Any,
    input_zero_point: Any,
    kernel_zero_point: Any,
    input_scale: Any,
    kernel_scale: Any,
    kernel_layout: str = "NC",
    units: Any = None,
    out_dtype: str = "int32",
) -> Any:
    """Return ``data @ weight.T`` for a weight in the layout NC; others are refused, as packing is
    the compiler's work.
    """
    points, scales = (input_zero_point, kernel_zero_point), (input_scale, kernel_scale)
    attributes = {"units": units, "out_dtype": out_dtype, "weight_layout": kernel_layout}
    return make_call("qnn.contrib_dense_pack", _operands(data, weight, points, scales), attributes)


def batch_matmul(
    x: Any,
    y: Any,
    x_zero_point: Any,
    y_zero_point: Any,
    x_scale: Any,
    y_scale: Any,
    out_dtype: str = "int32",
) -> Any:
    """Return the matrix product for each of a batch; the second matrix is given transposed."""
    operands = _operands(x, y, (x_zero_point, y_zero_point), (x_scale, y_scale))
    return make_call("qnn.batch_matmul", operands, {"out_dtype": out_dtype})

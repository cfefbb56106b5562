"""Convolutions."""

from __future__ import annotations

from typing import Any

from tilesmith.relax import op as relax
from tilesmith.relax.attrs import (
    Schema,
    boolean,
    integer,
    integer_or_ints,
    optional,
    optional_integer,
    paddings,
    repeated,
    text,
)
from tilesmith.relax.spec import topi
from tilesmith.relay.op.view import computed, define, name_or_empty, sizes
from tilesmith.support.errors import OpAttributeInvalid, ShapeError

_DATA = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
_KERNEL = {1: "OIW", 2: "OIHW", 3: "OIDHW"}
_TRANSPOSED_KERNEL = {1: "IOW", 2: "IOHW", 3: "IODHW"}


def convolution_fields(dims: int, kernel_layout: str) -> dict[str, Any]:
    """Return the attributes that all convolutions have."""
    return {
        "strides": repeated(dims, least=1),
        "padding": paddings(dims),
        "dilation": repeated(dims, least=1),
        "groups": integer(1, least=1),
        "channels": optional_integer(),
        "kernel_size": optional(repeated(dims, least=1)),
        "data_layout": text(_DATA[dims]),
        "kernel_layout": text(kernel_layout),
        "out_layout": name_or_empty(),
        "out_dtype": name_or_empty(),
    }


def check_weight(attrs: Any, weight: Any) -> None:
    """Refuse a weight that is not of the kernel size and channels that the call states."""
    if attrs.kernel_size is None and attrs.channels is None:
        return
    shape, layout = sizes(weight), attrs.kernel_layout
    if len(shape) != len(layout) or not layout.isupper():
        return  # blocked layouts are checked by the operator itself
    spatial = tuple([shape[layout.index(axis)] for axis in layout if axis not in "IO"])
    in_order = tuple([axis for axis in layout if axis not in "IO"]) == tuple(
        [axis for axis in "DHW" if axis in layout]
    )
    known = all(isinstance(size, int) for size in spatial)
    if attrs.kernel_size is not None and known and in_order and spatial != attrs.kernel_size:
        raise ShapeError(
            f"kernel_size is {attrs.kernel_size}, the weight of shape {shape} has {spatial}",
            notes=(f"the weight's layout is {layout}: kernel_layout=... states another one",),
        )


def _attributes(attrs: Any, *more: str) -> dict[str, Any]:
    keys = ("strides", "padding", "dilation", "groups", "data_layout", "kernel_layout", *more)
    found = {key: attrs[key] for key in keys}
    found["out_layout"] = attrs.out_layout or None
    found["out_dtype"] = attrs.out_dtype or None
    return found


def _weight_sizes(attrs: Any, data: list[Any]) -> list[Any]:
    """Return the sizes of the weight of a convolution, in its layout."""
    layout = attrs.kernel_layout
    if attrs.channels is None or attrs.kernel_size is None or not layout.isupper():
        return [None]
    sizes_of_axes = dict(zip([axis for axis in "DHW" if axis in layout], attrs.kernel_size))
    inputs = data[attrs.data_layout.index("C")] // attrs.groups
    return [[{"O": attrs.channels, "I": inputs, **sizes_of_axes}[axis] for axis in layout]]


def _transposed_weight_sizes(attrs: Any, data: list[Any]) -> list[Any]:
    """Return the sizes of the weight of a transposed convolution, in its layout."""
    layout = attrs.kernel_layout
    if attrs.channels is None or attrs.kernel_size is None or not layout.isupper():
        return [None]
    sizes_of_axes = dict(zip([axis for axis in "DHW" if axis in layout], attrs.kernel_size))
    own = {"O": attrs.channels // attrs.groups, "I": data[attrs.data_layout.index("C")]}
    return [[{**own, **sizes_of_axes}[axis] for axis in layout]]


def _define_convolution(dims: int) -> None:
    record = getattr(relax.nn, f"conv{dims}d")
    transposed = getattr(relax.nn, f"conv{dims}d_transpose")

    def translate(attrs: Any, data: Any, weight: Any) -> Any:
        check_weight(attrs, weight)
        return record(data, weight, **_attributes(attrs))

    def translate_transposed(attrs: Any, data: Any, weight: Any) -> Any:
        check_weight(attrs, weight)
        return transposed(data, weight, **_attributes(attrs, "output_padding"))

    define(
        f"nn.conv{dims}d",
        "data weight",
        translate,
        level=2,
        schema=Schema(**convolution_fields(dims, _KERNEL[dims])),
        record=record.op.spec,
        operand_sizes=_weight_sizes,
    )
    fields = convolution_fields(dims, _TRANSPOSED_KERNEL[dims])
    out_dtype = fields.pop("out_dtype")
    define(
        f"nn.conv{dims}d_transpose",
        "data weight",
        translate_transposed,
        level=2,
        schema=Schema(**fields, output_padding=repeated(dims, 0), out_dtype=out_dtype),
        record=transposed.op.spec,
        operand_sizes=_transposed_weight_sizes,
    )


for _dims in (1, 2, 3):
    _define_convolution(_dims)


def _deformable(attrs: Any, data: Any, offset: Any, weight: Any) -> Any:
    name = {"NCHW": "nchw", "NHWC": "nhwc"}.get(attrs.data_layout)
    if name is None:
        raise OpAttributeInvalid(
            f"deformable_conv2d has the layouts NCHW and NHWC, not {attrs.data_layout}"
        )
    return getattr(topi.nn, "deformable_conv2d_" + name)(
        data,
        offset,
        weight,
        attrs.strides,
        attrs.padding,
        attrs.dilation,
        attrs.deformable_groups,
        attrs.groups,
        attrs.out_dtype or data.dtype,
    )


def _deformable_schema() -> Schema:
    fields = convolution_fields(2, "OIHW")
    first = {key: fields.pop(key) for key in ("strides", "padding", "dilation")}
    return Schema(**first, deformable_groups=integer(1), **fields)


computed(
    "nn.deformable_conv2d",
    "data offset weight",
    _deformable,
    level=5,
    schema=_deformable_schema(),
    description="A convolution whose taps are moved by offsets that are computed.",
)


def _correlation(attrs: Any, data1: Any, data2: Any) -> Any:
    return topi.nn.correlation_nchw(
        data1,
        data2,
        attrs.kernel_size,
        attrs.max_displacement,
        attrs.stride1,
        attrs.stride2,
        attrs.padding,
        attrs.is_multiply,
    )


def _correlation_schema() -> Schema:
    return Schema(
        kernel_size=integer(1),
        max_displacement=integer(1),
        stride1=integer(1),
        stride2=integer(1),
        padding=integer_or_ints(0),
        is_multiply=boolean(True),
        layout=text("NCHW"),
    )


computed(
    "nn.correlation",
    "data1 data2",
    _correlation,
    level=2,
    schema=_correlation_schema(),
    description="How well patches of two images match, for displacements up to a greatest one.",
)

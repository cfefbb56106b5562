"""``relay.op.dyn.nn``: padding and upsampling by computed amounts."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.relax import op as relax
from tilesmith.relax.attrs import Schema, boolean, text
from tilesmith.relax.expr import Constant
from tilesmith.relax.spec import topi
from tilesmith.relay.op.dyn.declaration import Place, dynamic
from tilesmith.relay.op.nn import nn as static_operators  # noqa: F401
from tilesmith.relay.op.tensor import dtype_of
from tilesmith.relay.op.view import functions, rank_of
from tilesmith.support.errors import UnsupportedError


def _pad(place: Place, attrs: Any, data: Any, pad_width: Any, pad_value: Any) -> Any:
    if attrs.pad_mode != "constant":
        raise UnsupportedError(
            f"pad by computed amounts has the mode 'constant', not '{attrs.pad_mode}'",
            notes=("make pad_width a constant",),
        )
    rank = rank_of(data)
    widths = place.sizes(relax.reshape(pad_width, [2 * rank]), "width")
    return place.compute("pad", _padded, data, widths[0::2], widths[1::2], pad_value)


def _padded(data: Any, before: Any, after: Any, value: Any) -> Any:
    return topi.nn.pad(data, before, after, value)


def _scaled(data: Any, layout: str, axes: str, factors: tuple[Any, ...]) -> Any:
    """Return the sizes of an image enlarged by factors, rounded, as a vector."""
    shape = relax.shape_to_tensor(relax.shape_of(data))
    places = Constant(numpy.asarray([layout.index(axis) for axis in axes], "int64"))
    own = relax.astype(relax.take(shape, places, 0), "float32")
    scales = [
        relax.astype(relax.reshape(one, [1]), "float32")
        if dtype_of(one) != "float32"
        else relax.reshape(one, [1])
        for one in factors
    ]
    return relax.astype(relax.round(relax.multiply(own, relax.concat(scales, 0))), "int64")


def _upsampling(place: Place, attrs: Any, data: Any, *factors: Any) -> Any:
    sizes = place.sizes(_scaled(data, attrs.layout, "HW", factors), "size")

    def expression(image: Any, wanted: Any) -> Any:
        return topi.nn.upsampling_to(image, wanted, attrs.layout, attrs.method, attrs.align_corners)

    return place.compute("upsampling", expression, data, sizes)


def _upsampling3d(place: Place, attrs: Any, data: Any, *factors: Any) -> Any:
    sizes = place.sizes(_scaled(data, attrs.layout, "DHW", factors), "size")

    def expression(image: Any, wanted: Any) -> Any:
        return topi.nn.upsampling3d_to(
            image, wanted, attrs.layout, attrs.method, attrs.coordinate_transformation_mode
        )

    return place.compute("upsampling3d", expression, data, sizes)


_FLOAT = dict.fromkeys(("scale_d", "scale_h", "scale_w"), lambda given: "float32")

dynamic(
    "dyn.nn.pad",
    "data pad_width pad_value",
    _pad,
    level=2,
    static="nn.pad",
    values="pad_width",
    schema=Schema(pad_mode=text("constant")),
    description="Pad with a value by computed amounts, a pair for each axis.",
    dtypes={"pad_value": lambda given: dtype_of(given["data"])},
)
dynamic(
    "dyn.nn.upsampling",
    "data scale_h scale_w",
    _upsampling,
    level=2,
    static="nn.upsampling",
    values="scale_h scale_w",
    schema=Schema(
        layout=text("NCHW"), method=text("nearest_neighbor"), align_corners=boolean(False)
    ),
    description="Enlarge images by computed factors.",
    dtypes={one: _FLOAT[one] for one in ("scale_h", "scale_w")},
)
dynamic(
    "dyn.nn.upsampling3d",
    "data scale_d scale_h scale_w",
    _upsampling3d,
    level=2,
    static="nn.upsampling3d",
    values="scale_d scale_h scale_w",
    schema=Schema(
        layout=text("NCDHW"),
        method=text("nearest_neighbor"),
        coordinate_transformation_mode=text("half_pixel"),
    ),
    description="Enlarge volumes by computed factors.",
    dtypes=_FLOAT,
)

globals().update(functions("dyn.nn."))

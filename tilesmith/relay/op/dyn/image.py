"""``relay.op.dyn.image``: resizing to a computed size."""

from __future__ import annotations

from typing import Any

from tilesmith.relax.attrs import Schema, anything, integer, number, text
from tilesmith.relax.spec import topi
from tilesmith.relay.op.dyn.declaration import Place, dynamic
from tilesmith.relay.op.image import image as static_operators  # noqa: F401
from tilesmith.relay.op.view import functions, name_or_empty


def _resize2d(place: Place, attrs: Any, data: Any, size: Any) -> Any:
    sizes = place.sizes(size, "size")

    def expression(image: Any, wanted: Any) -> Any:
        return topi.image.resize2d(
            image,
            attrs.roi or (0.0,) * 4,
            wanted,
            attrs.layout,
            attrs.method,
            attrs.coordinate_transformation_mode,
            attrs.rounding_method,
            attrs.cubic_alpha,
            attrs.cubic_exclude,
            attrs.extrapolation_value,
            attrs.out_dtype or None,
        )

    return place.compute("resize2d", expression, data, sizes)


dynamic(
    "dyn.image.resize2d",
    "data size",
    _resize2d,
    level=5,
    static="image.resize2d",
    values="size",
    schema=Schema(
        roi=anything(None),
        layout=text("NCHW"),
        method=text("linear"),
        coordinate_transformation_mode=text("half_pixel"),
        rounding_method=text(""),
        cubic_alpha=number(-0.5),
        cubic_exclude=integer(0),
        extrapolation_value=number(0.0),
        out_dtype=name_or_empty(),
    ),
    description="Resize along 2 axes to a computed size, with interpolation.",
)

globals().update(functions("dyn.image."))

"""``relay.op.image.image``: operators of images."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Op
from tilesmith.relax import op as relax
from tilesmith.relax.attrs import (
    Schema,
    anything,
    boolean,
    integer,
    ints,
    number,
    paddings,
    repeated,
    text,
)
from tilesmith.relax.spec import topi
from tilesmith.relay.op.movement import plain_sizes
from tilesmith.relay.op.view import (
    computed,
    define,
    function,
    functions,
    make_call,
    name_or_empty,
)
from tilesmith.support.errors import OpAttributeInvalid


def _resize_schema(layout: str) -> Schema:
    return Schema(
        size=ints(),
        roi=anything(None),
        layout=text(layout),
        method=text("linear"),
        coordinate_transformation_mode=text("half_pixel"),
        rounding_method=text(""),
        cubic_alpha=number(-0.5),
        cubic_exclude=integer(0),
        extrapolation_value=number(0.0),
        out_dtype=name_or_empty(),
    )


def _resize2d(attrs: Any, data: Any) -> Any:
    return relax.image.resize2d(
        data,
        attrs.size,
        roi=attrs.roi or (0.0,) * 4,
        layout=attrs.layout,
        method=attrs.method,
        coordinate_transformation_mode=attrs.coordinate_transformation_mode,
        rounding_method=attrs.rounding_method,
        cubic_alpha=attrs.cubic_alpha,
        cubic_exclude=attrs.cubic_exclude,
        extrapolation_value=attrs.extrapolation_value,
        out_dtype=attrs.out_dtype or None,
    )


def _resize(name: str, dims: int) -> Any:
    def compute(attrs: Any, data: Any) -> Any:
        return getattr(topi.image, name)(
            data,
            attrs.roi or (0.0,) * (2 * dims),
            attrs.size,
            attrs.layout,
            attrs.method,
            attrs.coordinate_transformation_mode,
            attrs.rounding_method,
            attrs.cubic_alpha,
            attrs.cubic_exclude,
            attrs.extrapolation_value,
            attrs.out_dtype or None,
        )

    return compute


_LAYOUTS = {"resize1d": "NCW", "resize2d": "NCHW", "resize3d": "NCDHW"}
define(
    "image.resize2d",
    "data",
    _resize2d,
    level=5,
    schema=_resize_schema("NCHW"),
    record=Op.get("relax.image.resize2d").spec,
    description="Resize along 2 axes, with interpolation.",
)
for _name, _dims in (("resize1d", 1), ("resize3d", 3)):
    computed(
        "image." + _name,
        "data",
        _resize(_name, _dims),
        level=5,
        schema=_resize_schema(_LAYOUTS[_name]),
        description=f"Resize along {_dims} axes, with interpolation.",
    )


def _resize_function(name: str) -> None:
    @function("image." + name)
    def resize(
        data: Any,
        size: Any,
        roi: Any = None,
        layout: str = _LAYOUTS[name],
        method: str = "linear",
        coordinate_transformation_mode: str = "half_pixel",
        rounding_method: str = "",
        cubic_alpha: float = -0.5,
        cubic_exclude: int = 0,
        extrapolation_value: float = 0.0,
        out_dtype: Any = None,
    ) -> Any:
        attributes = {
            "size": plain_sizes(size, "size"),
            "roi": None if roi is None else tuple([float(one) for one in roi]),
            "layout": layout,
            "method": method,
            "coordinate_transformation_mode": coordinate_transformation_mode,
            "rounding_method": rounding_method,
            "cubic_alpha": cubic_alpha,
            "cubic_exclude": cubic_exclude,
            "extrapolation_value": extrapolation_value,
            "out_dtype": out_dtype,
        }
        return make_call("image." + name, [data], attributes)

    resize.__name__ = resize.__qualname__ = name
    resize.__doc__ = (
        f"Resize to ``size`` along {name[6]} axes by nearest neighbours, linear or cubic "
        "interpolation."
    )


for _name in _LAYOUTS:
    _resize_function(_name)


def _crop(attrs: Any, data: Any, boxes: Any, box_indices: Any) -> Any:
    return topi.image.crop_and_resize(
        data,
        boxes,
        box_indices,
        attrs.crop_size,
        attrs.layout,
        attrs.method,
        attrs.extrapolation_value,
        attrs.out_dtype or None,
    )


computed(
    "image.crop_and_resize",
    "data boxes box_indices",
    _crop,
    level=5,
    schema=Schema(
        crop_size=ints(),
        layout=text("NCHW"),
        method=text("bilinear"),
        extrapolation_value=number(0.0),
        out_dtype=name_or_empty(),
    ),
    description="Cut boxes out of images and resize them all to one size.",
)


def _dilation2d(attrs: Any, data: Any, weight: Any) -> Any:
    name = {"NCHW": "nchw", "NHWC": "nhwc"}.get(attrs.data_layout)
    if name is None:
        raise OpAttributeInvalid(
            f"dilation2d has the layouts NCHW and NHWC, not {attrs.data_layout}"
        )
    return getattr(topi.image, "dilation2d_" + name)(
        data, weight, attrs.strides, attrs.padding, attrs.dilations, attrs.out_dtype or None
    )


computed(
    "image.dilation2d",
    "data weight",
    _dilation2d,
    level=2,
    schema=Schema(
        strides=repeated(2, least=1),
        padding=paddings(2),
        dilations=repeated(2, least=1),
        data_layout=text("NCHW"),
        kernel_layout=text("IHW"),
        out_dtype=name_or_empty(),
    ),
    description="The greatest sum of an image and a kernel: dilation of mathematical morphology.",
)
computed(
    "image.affine_grid",
    "data",
    "topi.image.affine_grid",
    level=5,
    schema=Schema(target_shape=ints()),
    description="The grid of coordinates that an affine map makes for an image of a size.",
)
computed(
    "image.grid_sample",
    "data grid",
    "topi.image.grid_sample",
    level=5,
    schema=Schema(
        method=text("bilinear"),
        layout=text("NCHW"),
        padding_mode=text("zeros"),
        align_corners=boolean(True),
    ),
    description="The elements of an image at the coordinates of a grid (from -1 to 1).",
)

globals().update(functions("image."))

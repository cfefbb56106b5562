"""Rules by which ConvertLayout changes the layouts of quantised convolutions and pools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir import register_op_attr
from tilesmith.relay.op.view import make_call
from tilesmith.support.errors import OpAttributeInvalid

__all__ = ["convert_qnn_avg_pool2d", "convert_qnn_conv2d", "convert_qnn_conv2d_transpose"]

_KERNELS = {"NCHW": "OIHW", "NHWC": "HWIO"}
_TRANSPOSED = {"NCHW": "IOHW", "NHWC": "HWIO"}


def _known(attrs: Any) -> dict[str, Any]:
    return {key: value for key, value in attrs.items() if value is not None}


def _convolution(name: str, kernels: dict[str, str]) -> Callable[..., Any]:
    def convert(attrs: Any, inputs: Any, tinfos: Any, desired_layouts: Any) -> Any:
        """Return the call with the desired layouts of data and kernel ("default": the one that goes
        with the data's); the pass adds the transformations.
        """
        data, kernel = [str(one) for one in (*desired_layouts, "default")[:2]]
        if data == "default":
            raise OpAttributeInvalid(f"{name}: the layout of the data has to be named")
        if kernel == "default":
            if data not in kernels:
                raise OpAttributeInvalid(
                    f"{name} has no layout {data}", notes=("known: " + ", ".join(kernels),)
                )
            kernel = kernels[data]
        changed = {**_known(attrs), "data_layout": data, "kernel_layout": kernel}
        return make_call(name, inputs, changed)

    return convert


convert_qnn_conv2d = _convolution("qnn.conv2d", _KERNELS)
convert_qnn_conv2d_transpose = _convolution("qnn.conv2d_transpose", _TRANSPOSED)


def convert_qnn_avg_pool2d(attrs: Any, inputs: Any, tinfos: Any, desired_layouts: Any) -> Any:
    """Return the call with the desired layout; the pass adds the transformations."""
    layout = str(desired_layouts[0])
    return make_call("qnn.avg_pool2d", inputs, {**_known(attrs), "layout": layout})


for _name, _rule in (
    ("qnn.conv2d", convert_qnn_conv2d),
    ("qnn.conv2d_transpose", convert_qnn_conv2d_transpose),
    ("qnn.avg_pool2d", convert_qnn_avg_pool2d),
):
    register_op_attr(_name, "FTVMConvertOpLayout", _rule)

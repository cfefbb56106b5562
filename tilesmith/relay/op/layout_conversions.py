"""Rules by which ConvertLayout changes layouts: ``(attrs, inputs, tinfos, desired_layouts)`` → the
call with other attributes; the pass adds the transformations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from tilesmith.ir import register_op_attr
from tilesmith.relay.op.view import make_call
from tilesmith.support.errors import OpAttributeInvalid

__all__ = ["KERNELS", "LayoutConfig", "convolution_rule", "layout_rule"]

_2D = {"NCHW": "OIHW", "NHWC": "HWIO", "HWNC": "HWOI", "CHWN": "IHWO"}
_3D = {"NCDHW": "OIDHW", "NDHWC": "DHWIO"}

KERNELS: dict[str, dict[str, str]] = {
    "nn.conv1d": {"NCW": "OIW", "NWC": "WIO"},
    "nn.conv1d_transpose": {"NCW": "IOW", "NWC": "WOI"},
    "nn.conv2d": _2D,
    "nn.conv2d_transpose": {"NCHW": "IOHW", "NHWC": "HWOI"},
    "nn.conv3d": _3D,
    "nn.conv3d_transpose": {"NCDHW": "IODHW", "NDHWC": "DHWOI"},
    "nn.deformable_conv2d": {"NCHW": "OIHW", "NHWC": "HWIO"},
}
"""Operator → layout of the data → that of the kernel which "default" stands for."""

_BY_CHANNEL = {"NCHW": "OIHW", "NHWC": "HWOI", "HWNC": "HWOI"}
"""The same for two-dimensional convolutions of each channel by itself."""

_LAYOUT = (
    "image.resize1d image.resize2d image.resize3d nn.adaptive_avg_pool1d nn.adaptive_avg_pool2d "
    "nn.adaptive_avg_pool3d nn.adaptive_max_pool1d nn.adaptive_max_pool2d nn.adaptive_max_pool3d "
    "nn.avg_pool1d nn.avg_pool2d nn.avg_pool3d nn.global_avg_pool1d nn.global_avg_pool2d "
    "nn.global_avg_pool3d nn.global_max_pool1d nn.global_max_pool2d nn.global_max_pool3d "
    "nn.max_pool1d nn.max_pool2d nn.max_pool3d nn.upsampling nn.upsampling3d vision.roi_align"
).split()
"""Operators whose attribute ``layout`` names the layout of the data and of the result."""


class LayoutConfig:
    """Says, inside of a ``with``, which convolutions ConvertLayout leaves as they are: the numbers
    in ``skip_layers``, counted in the order of the computation (-1 is the last one that is counted
    so far).

    with LayoutConfig(skip_layers=[0]):
        mod = relay.transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]})(mod)
    """

    current: ClassVar[LayoutConfig | None] = None

    def __init__(self, skip_layers: Any = None) -> None:
        self.skip_layers = list(skip_layers or [])
        self.skip_counter = 0
        self._outer: list[LayoutConfig | None] = []

    def check_skip(self) -> bool:
        """Count a convolution; return whether it stays as it is."""
        number = self.skip_counter
        self.skip_counter += 1
        return number in self.skip_layers

    def reset(self) -> None:
        """Begin to count anew."""
        self.skip_counter = 0
        self.skip_layers = []

    def __enter__(self) -> LayoutConfig:
        self._outer.append(LayoutConfig.current)
        LayoutConfig.current = self
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        self.reset()
        LayoutConfig.current = self._outer.pop()


def _known(attrs: Any) -> dict[str, Any]:
    return {key: value for key, value in attrs.items() if value is not None}


def _kernel_of(name: str, kernels: Mapping[str, str], attrs: Any, tinfos: Any, data: str) -> str:
    """Return the layout of a kernel that goes with one of the data."""
    if name.endswith("conv2d") and _is_by_channel(attrs, tinfos) and data in _BY_CHANNEL:
        return _BY_CHANNEL[data]
    if data in kernels:
        return kernels[data]
    own = str(attrs.data_layout)
    if any(axis.islower() for axis in data) or any(axis.islower() for axis in own):
        return str(attrs.kernel_layout)  # blocks of the data say nothing about the kernel
    raise OpAttributeInvalid(
        f"{name} has no kernel layout that goes with the layout {data}",
        notes=("known: " + ", ".join(kernels), f'name it: ["{data}", "..."] instead of "default"'),
    )


def _is_by_channel(attrs: Any, tinfos: Any) -> bool:
    """Return whether each channel has a kernel of its own."""
    place = str(attrs.data_layout).find("C")
    if attrs.groups == 1 or place < 0:
        return False
    channels = getattr(tinfos[0].shape[place], "value", None)
    return bool(channels == attrs.groups)


def convolution_rule(name: str, kernels: Mapping[str, str]) -> Callable[..., Any]:
    """Return the rule of a convolution, with the layouts of kernels that go with those of data."""

    def convert(attrs: Any, inputs: Any, tinfos: Any, desired_layouts: Any) -> Any:
        """Return the call with the desired layouts of data and kernel ("default": the one that goes
        with the data's).
        """
        data, kernel = [str(one) for one in (*desired_layouts, "default")[:2]]
        if data == "default":
            raise OpAttributeInvalid(f"{name}: the layout of the data has to be named")
        config = LayoutConfig.current
        if config is not None and config.check_skip():
            return make_call(name, inputs, _known(attrs))
        if kernel == "default":
            kernel = _kernel_of(name, kernels, attrs, tinfos, data)
        changed = {**_known(attrs), "data_layout": data, "kernel_layout": kernel}
        if "out_layout" in changed:
            changed["out_layout"] = ""
        return make_call(name, inputs, changed)

    return convert


def layout_rule(name: str) -> Callable[..., Any]:
    """Return the rule of an operator with the attribute ``layout``."""

    def convert(attrs: Any, inputs: Any, tinfos: Any, desired_layouts: Any) -> Any:
        """Return the call with the desired layout."""
        changed = {**_known(attrs), "layout": str(desired_layouts[0])}
        if "out_layout" in changed:
            changed["out_layout"] = ""
        return make_call(name, inputs, changed)

    return convert


for _name, _kernels in KERNELS.items():
    register_op_attr(_name, "FTVMConvertOpLayout", convolution_rule(_name, _kernels))
for _name in _LAYOUT:
    register_op_attr(_name, "FTVMConvertOpLayout", layout_rule(_name))

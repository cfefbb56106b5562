"""Layers. Attributes and defaults are those of torch.nn, so that its weights can be loaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.relax.frontend.nn import op
from tilesmith.relax.frontend.nn.core import Module, Parameter, Tensor
from tilesmith.support.errors import ShapeError, UnsupportedError

__all__ = [
    "Conv1D", "Conv2D", "Conv3D", "ConvTranspose1D", "Embedding", "GELU", "GroupNorm", "Identity",
    "LayerNorm", "Linear", "RMSNorm", "ReLU", "SiLU", "activation",
]  # fmt: skip


class ReLU(Module):
    """``max(x, 0)``."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's result."""
        return op.relu(x)


class SiLU(Module):
    """``x * sigmoid(x)``."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's result."""
        return op.silu(x)


class GELU(Module):
    """``x`` times the normal distribution's share below it."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's result."""
        return op.gelu(x)


class Identity(Module):
    """The input itself."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the input."""
        return x


class Linear(Module):
    """``x @ weight.T + bias``; the weight is (outputs, inputs)."""

    def __init__(
        self,
        in_features: Any,
        out_features: Any,
        bias: bool = True,
        dtype: str | None = None,
        out_dtype: str | None = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.out_dtype = out_dtype
        self.weight = Parameter((out_features, in_features), dtype)
        self.bias = None
        if bias:
            self.bias = Parameter((out_features,), dtype if out_dtype is None else out_dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's result."""
        product = op.matmul(x, op.permute_dims(self.weight), out_dtype=self.out_dtype)
        return product if self.bias is None else product + self.bias

    def to(self, dtype: str | None = None) -> None:
        """Change the data type; that of the bias stays if ``out_dtype`` was given."""
        self.weight.to(dtype=dtype)
        if self.bias is not None and self.out_dtype is None:
            self.bias.to(dtype=dtype)
        if dtype is not None and isinstance(getattr(self, "dtype", None), str):
            self.dtype = dtype


def _settings(layer: Any) -> dict[str, Any]:
    """Return how a convolution moves over its input."""
    return {name: getattr(layer, name) for name in ("stride", "padding", "dilation", "groups")}


def _set_up(
    layer: Any, shape: Sequence[Any], out_channels: int, settings: Any, bias: bool, dtype: Any
) -> None:
    """Set what all convolutions have: their settings and parameters."""
    layer.stride, layer.padding, layer.dilation, layer.groups = settings
    layer.weight = Parameter(shape, dtype)
    layer.bias = Parameter((out_channels,), dtype) if bias else None


def _kernel_shape(
    in_channels: int, out_channels: int, kernel_size: Any, axes: int, groups: int
) -> list[Any]:
    """Return the shape of a weight: (outputs, inputs of a group, kernel)."""
    sizes = list(kernel_size) if isinstance(kernel_size, (list, tuple)) else [kernel_size] * axes
    if len(sizes) != axes:
        raise ShapeError(f"a kernel of {axes} axes has {len(sizes)} sizes: {kernel_size}")
    if in_channels % groups or out_channels % groups:
        raise ShapeError(
            f"{in_channels} and {out_channels} channels cannot be divided into {groups} groups"
        )
    return [out_channels, in_channels // groups, *sizes]


class Conv1D(Module):
    """A convolution of (batch, channels, length)."""

    stride: Any
    padding: Any
    dilation: Any
    groups: int
    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
        dtype: str | None = None,
    ) -> None:
        shape = _kernel_shape(in_channels, out_channels, kernel_size, 1, groups)
        settings = (stride, padding, dilation, groups)
        _set_up(self, shape, out_channels, settings, bias, dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's result."""
        return op.conv1d(x, self.weight, self.bias, **_settings(self))


class Conv2D(Module):
    """A convolution of images."""

    stride: Any
    padding: Any
    dilation: Any
    groups: int
    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        dtype: str | None = None,
        data_layout: str = "NCHW",
    ) -> None:
        shape = _kernel_shape(in_channels, out_channels, kernel_size, 2, groups)
        settings = (stride, padding, dilation, groups)
        _set_up(self, shape, out_channels, settings, bias, dtype)
        self.data_layout = data_layout

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's result."""
        return op.conv2d(x, self.weight, self.bias, data_layout=self.data_layout, **_settings(self))


class Conv3D(Module):
    """A convolution of volumes."""

    stride: Any
    padding: Any
    dilation: Any
    groups: int
    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        dtype: str | None = None,
        data_layout: str = "NCDHW",
    ) -> None:
        shape = _kernel_shape(in_channels, out_channels, kernel_size, 3, groups)
        settings = (stride, padding, dilation, groups)
        _set_up(self, shape, out_channels, settings, bias, dtype)
        self.data_layout = data_layout

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's result."""
        return op.conv3d(x, self.weight, self.bias, data_layout=self.data_layout, **_settings(self))


class ConvTranspose1D(Module):
    """A transposed convolution of (batch, channels, length)."""

    stride: Any
    padding: Any
    dilation: Any
    groups: int
    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        output_padding: int = 0,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
        dtype: str | None = None,
    ) -> None:
        outer, inner, size = _kernel_shape(out_channels, in_channels, kernel_size, 1, groups)
        settings = (stride, padding, dilation, groups)
        _set_up(self, (outer, inner, size), out_channels, settings, bias, dtype)
        self.output_padding = output_padding

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's result."""
        return op.conv1d_transpose(
            x, self.weight, self.bias, output_padding=self.output_padding, **_settings(self)
        )


class LayerNorm(Module):
    """Mean 0 and variance 1 over the last axes, scaled and shifted."""

    def __init__(
        self,
        normalized_shape: int | tuple[int, ...],
        eps: float | None = 1e-5,
        elementwise_affine: bool = True,
        dtype: str | None = None,
    ) -> None:
        super().__init__()
        sizes = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
        self.normalized_shape = tuple(sizes)
        self.eps = 1e-5 if eps is None else eps
        self.elementwise_affine = elementwise_affine
        self.weight = Parameter(sizes, dtype) if elementwise_affine else None
        self.bias = Parameter(sizes, dtype) if elementwise_affine else None

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's result."""
        shape = list(self.normalized_shape)
        return op.layer_norm(x, shape, self.weight, self.bias, self.eps)


class RMSNorm(Module):
    """The input divided by its root mean square, scaled."""

    def __init__(
        self,
        hidden_size: int,
        axes: int | list[int],
        epsilon: float = 1e-5,
        bias: bool = True,
        dtype: str | None = None,
    ) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.axes = axes
        self.weight = Parameter((hidden_size,), dtype)
        self.bias = Parameter((hidden_size,), dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's result."""
        result = op.rms_norm(x, self.weight, self.axes, self.epsilon)
        return result if self.bias is None else result + self.bias


class GroupNorm(Module):
    """Mean 0 and variance 1 in each group of channels, scaled and shifted."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        dtype: str | None = None,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ShapeError(f"{num_channels} channels cannot be divided into {num_groups} groups")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.weight = Parameter((num_channels,), dtype) if affine else None
        self.bias = Parameter((num_channels,), dtype) if affine else None

    def forward(self, x: Tensor, channel_axis: int = 1, axes: list[int] | None = None) -> Tensor:
        """Return the layer's result."""
        return op.group_norm(
            x, self.num_groups, self.weight, self.bias, self.eps, channel_axis, axes
        )


class Embedding(Module):
    """The rows of a table at indices."""

    def __init__(self, num: Any, dim: Any, dtype: str | None = None) -> None:
        super().__init__()
        self.num = num
        self.dim = dim
        self.weight = Parameter((num, dim), dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Return the rows: the shape of ``x`` with one axis more."""
        if x.ndim == 1:
            return op.take(self.weight, x, axis=0)
        rows = op.take(self.weight, op.reshape(x, [-1]), axis=0)
        return op.reshape(rows, [*x.shape, self.weight.shape[1]])


def activation(name: str | None) -> Module:
    """Return the layer of a name; Identity for None."""
    known: dict[str | None, type[Module]] = {
        None: Identity, "silu": SiLU, "swish": SiLU, "gelu": GELU, "relu": ReLU,
    }  # fmt: skip
    if name not in known:
        raise UnsupportedError(
            f"there is no activation '{name}'", notes=("known: silu, swish, gelu, relu",)
        )
    return known[name]()

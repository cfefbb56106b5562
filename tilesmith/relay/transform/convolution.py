"""FoldExplicitPadding, FlattenAtrousConv: convolutions and pools do what is done around them."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.ir import IRModule
from tilesmith.relay.expr import Call
from tilesmith.relay.transform.calls import (
    attrs_of,
    dtype_of,
    is_call,
    make,
    rewrite_functions,
    uniform_value,
)
from tilesmith.relay.transform.pass_classes import relay_pass

__all__ = ["FlattenAtrousConv", "FoldExplicitPadding"]

_CONVOLUTIONS = ("nn.conv1d", "nn.conv2d", "nn.conv3d")
_MAX_POOLS = ("nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d")
_AVG_POOLS = ("nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d")

Pairs = list[tuple[int, int]]


def _spatial(layout: str) -> list[int] | None:
    """Return the axes that windows move along; None for a layout of blocks."""
    return [layout.index(axis) for axis in "DHW" if axis in layout] if layout.isupper() else None


def _pairs(padding: Any) -> Pairs:
    """Return an operator's padding as pairs (before, after)."""
    values = [int(size) for size in padding]
    return list(zip(values[: len(values) // 2], values[len(values) // 2 :]))


def _padding(pairs: Pairs) -> list[int]:
    return [before for before, _ in pairs] + [after for _, after in pairs]


def _along(widths: Any, axes: list[int]) -> Pairs | None:
    """Return what is padded along some axes; None if other axes are padded."""
    pairs = [(int(pair[0]), int(pair[1])) for pair in widths]
    others = [pair for axis, pair in enumerate(pairs) if axis not in axes]
    fits = all(pair == (0, 0) for pair in others) and min(min(pair) for pair in pairs) >= 0
    return [pairs[axis] for axis in axes] if fits else None


def _folded(node: Any) -> Any:
    """Return a convolution or a pool that pads its input itself."""
    if not is_call(node, *_CONVOLUTIONS, *_MAX_POOLS, *_AVG_POOLS):
        return node
    pad = node.args[0]
    if not is_call(pad, "nn.pad") or pad.attrs.pad_mode != "constant":
        return node
    attrs = attrs_of(node)
    axes = _spatial(attrs.get("data_layout") or attrs["layout"])
    widths = None if axes is None else _along(pad.attrs.pad_width, axes)
    value = uniform_value(pad.args[1])
    if widths is None or value is None:
        return node
    own = _pairs(attrs["padding"])
    if is_call(node, *_CONVOLUTIONS):
        fits = value == 0
    elif is_call(node, *_MAX_POOLS):
        fits = _is_least(value, dtype_of(node)) and not _is_beyond(attrs, widths, own)
    else:
        fits = value == 0 and not attrs["ceil_mode"]
        fits = fits and (attrs["count_include_pad"] or own == [(0, 0)] * len(own))
        attrs["count_include_pad"] = True
    if not fits:
        return node
    attrs["padding"] = _padding([(a + c, b + d) for (a, b), (c, d) in zip(own, widths)])
    made = make(node.op.name, pad.args[0], *node.args[1:], **attrs).with_fields(span=node.span)
    return made if made.checked_type == node.checked_type else node


def _is_least(value: Any, dtype: Any) -> bool:
    """Return whether no value of a dtype is less."""
    if dtype is None:
        return False
    if dtype.is_float:
        return bool(value <= numpy.finfo(dtype.numpy()).min)
    return bool(value == numpy.iinfo(dtype.numpy()).min)


def _is_beyond(attrs: dict[str, Any], widths: Pairs, own: Pairs) -> bool:
    """Return whether a window may lie in the padding as a whole."""
    sizes = [(size - 1) * step + 1 for size, step in zip(attrs["pool_size"], attrs["dilation"])]
    sums = [max(a + c, b + d) for (a, b), (c, d) in zip(own, widths)]
    return any(padded >= size for padded, size in zip(sums, sizes))


@relay_pass("FoldExplicitPadding", 0, ["InferType"])
def FoldExplicitPadding(mod: IRModule) -> IRModule:
    """Let a convolution or a pool pad its input itself, where a pad with the same value comes
    before it.
    """
    return rewrite_functions(mod, _folded)


def _flattened(node: Any) -> Any:
    """Return a dilated convolution for one of blocks of the image."""
    if not is_call(node, "nn.batch_to_space_nd"):
        return node
    convolution: Any = node.args[0]
    if not is_call(convolution, "nn.conv2d") or not is_call(
        convolution.args[0], "nn.space_to_batch_nd"
    ):
        return node
    before: Call = convolution.args[0]
    attrs, given = attrs_of(convolution), attrs_of(before)
    axes = _spatial(attrs["data_layout"])
    same_order = not attrs["out_layout"] or attrs["out_layout"] == attrs["data_layout"]
    if axes is None or not same_order or attrs["data_layout"][0] != "N":
        return node
    blocks = _blocks(given["block_shape"], axes)
    padded = _blocks_along(given["paddings"], axes)
    cropped = _blocks_along(node.attrs.crops, axes)
    if blocks is None or padded is None or cropped is None or given["pad_value"] != 0:
        return node
    if blocks != _blocks(node.attrs.block_shape, axes) or set(attrs["strides"]) != {1}:
        return node
    own = _pairs(attrs["padding"])
    found = [
        (p[0] + q[0] * b - c[0], p[1] + q[1] * b - c[1])
        for p, q, b, c in zip(padded, own, blocks, cropped)
    ]
    if min(min(pair) for pair in found) < 0:
        return node
    attrs["padding"] = _padding(found)
    attrs["dilation"] = [size * block for size, block in zip(attrs["dilation"], blocks)]
    made = make("nn.conv2d", before.args[0], convolution.args[1], **attrs)
    return made if made.checked_type == node.checked_type else node


def _blocks(sizes: Any, axes: list[int]) -> list[int] | None:
    """Return the sizes of blocks along some axes; None if there are blocks along others. The sizes
    begin with that of the axis after the batch.
    """
    by_axis = {axis: int(size) for axis, size in enumerate(sizes, 1)}
    if any(size != 1 for axis, size in by_axis.items() if axis not in axes):
        return None
    return [by_axis.get(axis, 1) for axis in axes]


def _blocks_along(pairs: Any, axes: list[int]) -> Pairs | None:
    by_axis = {axis: (int(pair[0]), int(pair[1])) for axis, pair in enumerate(pairs, 1)}
    if any(pair != (0, 0) for axis, pair in by_axis.items() if axis not in axes):
        return None
    return [by_axis.get(axis, (0, 0)) for axis in axes]


@relay_pass("FlattenAtrousConv", 0, ["InferType"])
def FlattenAtrousConv(mod: IRModule) -> IRModule:
    """Write space_to_batch_nd, conv2d, batch_to_space_nd as one dilated convolution."""
    return rewrite_functions(mod, _flattened)

"""Sampling between pixels in numpy: grids, deformed and displaced windows."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilesmith.support.errors import UnsupportedError
from tilesmith.topi.nn.utils import get_pad_tuple, per_axis

__all__ = [
    "affine_grid_python", "correlation_nchw_python", "deformable_conv2d_nchw_python",
    "deformable_conv2d_nhwc_python", "grid_sample_2d", "grid_sample_3d", "grid_sample_python",
]  # fmt: skip


def affine_grid_python(data: np.ndarray, target_shape: Sequence[int]) -> np.ndarray:
    """Return the grid of affine maps (batch, 2, 3): (batch, x and y, height, width)."""
    height, width = target_shape
    y, x = np.meshgrid(np.linspace(-1, 1, height), np.linspace(-1, 1, width), indexing="ij")
    points = np.stack([x, y, np.ones_like(x)]).reshape(3, -1)
    return (data @ points).reshape(-1, 2, height, width).astype(data.dtype)


def _reflected(place: float, size: int, align_corners: bool) -> float:
    low, high = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
    span = high - low
    if span <= 0:
        return 0.0
    turns, rest = divmod(abs(place - low), span)
    return low + rest if int(turns) % 2 == 0 else high - rest


def _placed(place: float, size: int, padding_mode: str, align_corners: bool) -> float:
    if padding_mode == "reflection":
        place = _reflected(place, size, align_corners)
    return min(max(place, 0.0), size - 1.0)


def _cubic(t: float, a: float = -0.75) -> list[tuple[int, float]]:
    near = [((a + 2) * d - (a + 3)) * d * d + 1 for d in (t, 1 - t)]
    far = [((a * d - 5 * a) * d + 8 * a) * d - 4 * a for d in (t + 1, 2 - t)]
    return [(-1, far[0]), (0, near[0]), (1, near[1]), (2, far[1])]


def _taps(
    given: float, size: int, method: str, padding_mode: str, align_corners: bool
) -> list[tuple[int | None, float]]:
    """Return pixels along an axis, None for one outside, with their weights."""
    place = (given + 1) * (size - 1) / 2 if align_corners else ((given + 1) * size - 1) / 2
    if padding_mode != "zeros" and method != "bicubic":
        place = _placed(place, size, padding_mode, align_corners)
    base = int(np.floor(place))
    if method == "nearest":
        weights = [(int(np.rint(place)) - base, 1.0)]
    elif method == "bilinear":
        weights = [(0, 1 - (place - base)), (1, place - base)]
    else:
        weights = _cubic(place - base)
    taps: list[tuple[int | None, float]] = []
    for offset, weight in weights:
        pixel = base + offset
        if padding_mode != "zeros" and method == "bicubic":
            pixel = int(np.rint(_placed(pixel, size, padding_mode, align_corners)))
        taps.append((pixel if 0 <= pixel < size else None, weight))
    return taps


def grid_sample_python(
    data: np.ndarray,
    grid: np.ndarray,
    method: str = "bilinear",
    layout: str = "NCHW",
    padding_mode: str = "zeros",
    align_corners: bool = True,
) -> np.ndarray:
    """Sample images or volumes at the places of a grid; parameters as in
    `topi.image.grid_sample`.
    """
    if layout not in ("NCHW", "NCDHW"):
        raise UnsupportedError(f"grid_sample: layout '{layout}' is neither NCHW nor NCDHW")
    rank = data.ndim - 2
    out = np.zeros((*data.shape[:2], *grid.shape[2:]), "float64")
    for batch in range(data.shape[0]):
        for place in np.ndindex(*grid.shape[2:]):
            given = grid[(batch, slice(None), *place)][::-1]
            taps = [
                _taps(float(given[k]), data.shape[2 + k], method, padding_mode, align_corners)
                for k in range(rank)
            ]
            for chosen in itertools.product(*taps):
                pixels = [pixel for pixel, _ in chosen]
                if None in pixels:
                    continue
                weight = float(np.prod([weight for _, weight in chosen]))
                out[(batch, slice(None), *place)] += data[(batch, slice(None), *pixels)] * weight
    return out.astype(data.dtype)


def grid_sample_2d(
    data: np.ndarray,
    grid: np.ndarray,
    method: str = "bilinear",
    layout: str = "NCHW",
    padding_mode: str = "zeros",
    align_corners: bool = True,
) -> np.ndarray:
    """Sample images."""
    return grid_sample_python(data, grid, method, layout, padding_mode, align_corners)


def grid_sample_3d(
    data: np.ndarray,
    grid: np.ndarray,
    method: str = "bilinear",
    layout: str = "NCDHW",
    padding_mode: str = "zeros",
    align_corners: bool = True,
) -> np.ndarray:
    """Sample volumes."""
    return grid_sample_python(data, grid, method, layout, padding_mode, align_corners)


def _between(image: np.ndarray, y: float, x: float) -> np.ndarray:
    """Return the values of all channels between pixels; outside there is 0."""
    total = np.zeros(image.shape[0])
    row, column = int(np.floor(y)), int(np.floor(x))
    for v, weight_y in ((row, 1 - (y - row)), (row + 1, y - row)):
        for u, weight_x in ((column, 1 - (x - column)), (column + 1, x - column)):
            if 0 <= v < image.shape[1] and 0 <= u < image.shape[2]:
                total += image[:, v, u] * (weight_y * weight_x)
    return total


def deformable_conv2d_nchw_python(
    a_np: np.ndarray,
    offset_np: np.ndarray,
    w_np: np.ndarray,
    stride: Any,
    padding: Any,
    dilation: Any,
    deformable_groups: int,
    groups: int,
) -> np.ndarray:
    """Convolve NCHW data with windows whose places are moved by offsets."""
    (sy, sx), (dy, dx) = per_axis(stride, 2, "stride"), per_axis(dilation, 2, "dilation")
    outer, per_group, ky, kx = w_np.shape
    top, left, _, _ = get_pad_tuple(padding, ((ky - 1) * dy + 1, (kx - 1) * dx + 1))
    batch, channels = a_np.shape[:2]
    rows, columns = offset_np.shape[2:]
    moves = offset_np.reshape(batch, deformable_groups, ky, kx, 2, rows, columns)
    share = channels // deformable_groups
    out = np.zeros((batch, outer, rows, columns), "float64")
    filters = w_np.reshape(groups, outer // groups, per_group, ky, kx)
    for n, y, x, v, u in np.ndindex(batch, rows, columns, ky, kx):
        values = np.zeros(channels)
        for group in range(deformable_groups):
            down, across = moves[n, group, v, u, :, y, x]
            own = slice(group * share, (group + 1) * share)
            place = y * sy + v * dy - top + down, x * sx + u * dx - left + across
            values[own] = _between(a_np[n, own], *place)
        part = np.einsum("gi,goi->go", values.reshape(groups, per_group), filters[..., v, u])
        out[n, :, y, x] += part.reshape(-1)
    return out.astype(a_np.dtype)


def deformable_conv2d_nhwc_python(
    a_np: np.ndarray,
    offset_np: np.ndarray,
    w_np: np.ndarray,
    stride: Any,
    padding: Any,
    dilation: Any,
    deformable_groups: int,
    groups: int,
) -> np.ndarray:
    """Convolve NHWC data with an HWIO filter and NHWC offsets."""
    data, offset = a_np.transpose(0, 3, 1, 2), offset_np.transpose(0, 3, 1, 2)
    made = deformable_conv2d_nchw_python(
        data, offset, w_np.transpose(3, 2, 0, 1), stride, padding, dilation, deformable_groups,
        groups,
    )  # fmt: skip
    return made.transpose(0, 2, 3, 1)


def correlation_nchw_python(
    data1: np.ndarray,
    data2: np.ndarray,
    kernel_size: int,
    max_displacement: int,
    stride1: int,
    stride2: int,
    padding: Any,
    is_multiply: bool,
) -> np.ndarray:
    """Compare windows of two images, the second one displaced; parameters as in
    `topi.nn.correlation_nchw`.
    """
    top, left, bottom, right = get_pad_tuple(padding, (kernel_size, kernel_size))
    sides = [(0, 0), (0, 0), (top, bottom), (left, right)]
    first, second = np.pad(data1, sides), np.pad(data2, sides)
    batch, channels, height, width = first.shape
    border, radius = kernel_size // 2 + max_displacement, max_displacement // stride2
    rows = -(-(height - 2 * border) // stride1)
    columns = -(-(width - 2 * border) // stride1)
    steps = [k * stride2 for k in range(-radius, radius + 1)]
    out = np.zeros((batch, len(steps) ** 2, rows, columns), "float64")
    for number, (down, across) in enumerate(itertools.product(steps, steps)):
        for i, j in np.ndindex(rows, columns):
            y, x = i * stride1 + max_displacement, j * stride1 + max_displacement
            a = first[:, :, y : y + kernel_size, x : x + kernel_size]
            y, x = y + down, x + across
            b = second[:, :, y : y + kernel_size, x : x + kernel_size]
            compared = a * b if is_multiply else np.abs(a - b)
            out[:, number, i, j] = compared.sum((1, 2, 3))
    return (out / (kernel_size * kernel_size * channels)).astype(data1.dtype)

"""Resizing in numpy: along one axis after the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilesmith.support.errors import UnsupportedError

__all__ = [
    "get_index", "get_inx", "resize1d_python", "resize2d_python", "resize3d_cubic",
    "resize3d_linear", "resize3d_ncdhw", "resize3d_nearest", "resize3d_python",
]  # fmt: skip

_CUBIC = -0.5
"""The parameter of cubic interpolation: that of Keys."""


def get_inx(
    x: int, image_width: int, target_width: int, coordinate_transformation_mode: str
) -> float:
    """Return the position in the old image of a new pixel."""
    if coordinate_transformation_mode == "half_pixel":
        return (x + 0.5) * image_width / target_width - 0.5
    if coordinate_transformation_mode == "align_corners":
        return x * (image_width - 1) / (target_width - 1) if target_width > 1 else 0.0
    if coordinate_transformation_mode != "asymmetric":
        raise UnsupportedError(f"resize: coordinates '{coordinate_transformation_mode}'")
    return x * image_width / target_width


def get_index(
    x: int, image_width: int, target_width: int, coordinate_transformation_mode: str
) -> int:
    """Return the old pixel that a new one is: the nearest one with aligned corners, else the one
    below.
    """
    place = get_inx(x, image_width, target_width, coordinate_transformation_mode)
    if coordinate_transformation_mode == "align_corners":
        nearest = int(np.ceil(place - 0.5))  # halves go down
    else:
        nearest = int(np.floor(place + 1e-9))
    return max(min(nearest, image_width - 1), 0)


def _weights(method: str, fraction: float) -> list[tuple[int, float]]:
    if method == "linear":
        return [(0, 1 - fraction), (1, fraction)]
    a, t = _CUBIC, fraction
    near = [((a + 2) * d - (a + 3)) * d * d + 1 for d in (t, 1 - t)]
    far = [((a * d - 5 * a) * d + 8 * a) * d - 4 * a for d in (t + 1, 2 - t)]
    return [(-1, far[0]), (0, near[0]), (1, near[1]), (2, far[1])]


def _along(data: np.ndarray, axis: int, target: int, method: str, mode: str) -> np.ndarray:
    size = data.shape[axis]
    moved = np.moveaxis(data, axis, 0)
    rows = []
    for x in range(target):
        if method == "nearest_neighbor":
            rows.append(moved[get_index(x, size, target, mode)])
            continue
        place = get_inx(x, size, target, mode)
        base = int(np.floor(place))
        parts = [
            weight * moved[max(min(base + offset, size - 1), 0)]
            for offset, weight in _weights(method, place - base)
        ]
        rows.append(sum(parts[1:], parts[0]))
    return np.moveaxis(np.stack(rows), 0, axis).astype(data.dtype)


def _resize(
    data: np.ndarray,
    axes: Sequence[int],
    scale: Sequence[float],
    method: str,
    mode: str,
) -> np.ndarray:
    method = {"bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}.get(method, method)
    if method not in ("nearest_neighbor", "linear", "cubic"):
        raise UnsupportedError(f"resize: method '{method}'")
    exact = data if method == "nearest_neighbor" else data.astype("float64")
    for axis, factor in zip(axes, scale):
        exact = _along(exact, axis, round(data.shape[axis] * factor), method, mode)
    return exact.astype(data.dtype)


def _spatial(layout: str) -> list[int]:
    return [layout.index(letter) for letter in "DHW" if letter in layout]


def resize1d_python(
    data: np.ndarray,
    scale: Sequence[float],
    layout: str = "NCW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "align_corners",
) -> np.ndarray:
    """Resize signals by a factor."""
    return _resize(data, _spatial(layout), scale, method, coordinate_transformation_mode)


def resize2d_python(
    data: np.ndarray,
    scale: Sequence[float],
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "align_corners",
) -> np.ndarray:
    """Resize images by factors for height and width."""
    return _resize(data, _spatial(layout), scale, method, coordinate_transformation_mode)


def resize3d_python(
    data: np.ndarray,
    scale: Sequence[float],
    layout: str = "NCDHW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "align_corners",
) -> np.ndarray:
    """Resize volumes by factors for depth, height and width."""
    return _resize(data, _spatial(layout), scale, method, coordinate_transformation_mode)


def resize3d_ncdhw(
    data: np.ndarray,
    scale: Sequence[float],
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "align_corners",
) -> np.ndarray:
    """Resize NCDHW volumes."""
    return resize3d_python(data, scale, "NCDHW", method, coordinate_transformation_mode)


def resize3d_nearest(
    arr: np.ndarray, scale: Sequence[float], coordinate_transformation_mode: str
) -> np.ndarray:
    """Resize one volume (depth, height, width) by taking pixels."""
    return _resize(arr, (0, 1, 2), scale, "nearest_neighbor", coordinate_transformation_mode)


def resize3d_linear(
    data_in: np.ndarray, scale: Sequence[float], coordinate_transformation_mode: str
) -> np.ndarray:
    """Resize one volume (depth, height, width) by linear interpolation."""
    return _resize(data_in, (0, 1, 2), scale, "linear", coordinate_transformation_mode)


def resize3d_cubic(
    data_in: np.ndarray, scale: Sequence[float], coordinate_transformation_mode: str
) -> np.ndarray:
    """Resize one volume (depth, height, width) by cubic interpolation."""
    return _resize(data_in, (0, 1, 2), scale, "cubic", coordinate_transformation_mode)

"""Regions of images in numpy: resized, averaged, pooled."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tilesmith.support.errors import UnsupportedError

__all__ = [
    "crop_and_resize_python", "roi_align_common", "roi_align_nchw_python",
    "roi_align_nhwc_python", "roi_pool_nchw_python",
]  # fmt: skip


def crop_and_resize_python(
    image: np.ndarray,
    boxes: np.ndarray,
    box_indices: np.ndarray,
    crop_size: Sequence[int],
    layout: str,
    method: str = "bilinear",
    extrapolation_value: float = 0,
) -> np.ndarray:
    """Cut boxes out of images and resize them; parameters as in `topi.image.crop_and_resize`."""
    if layout not in ("NCHW", "NHWC"):
        raise UnsupportedError(f"crop_and_resize: layout '{layout}' is neither NCHW nor NHWC")
    images = image if layout == "NHWC" else image.transpose(0, 2, 3, 1)
    _, height, width, channels = images.shape
    out = np.full((len(boxes), *crop_size, channels), extrapolation_value, "float64")

    def place(low: float, high: float, index: int, size: int, count: int) -> float:
        if count == 1:
            return 0.5 * (low + high) * (size - 1)
        return low * (size - 1) + index * (high - low) * (size - 1) / (count - 1)

    for n, i, j in np.ndindex(*out.shape[:3]):
        y = place(boxes[n, 0], boxes[n, 2], i, height, crop_size[0])
        x = place(boxes[n, 1], boxes[n, 3], j, width, crop_size[1])
        if not (0 <= y <= height - 1 and 0 <= x <= width - 1):
            continue
        own = images[box_indices[n]].astype("float64")
        if method == "nearest_neighbor":
            out[n, i, j] = own[int(y + 0.5), int(x + 0.5)]
            continue
        top, left = int(y), int(x)
        bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
        above = own[top, left] * (1 - (x - left)) + own[top, right] * (x - left)
        below = own[bottom, left] * (1 - (x - left)) + own[bottom, right] * (x - left)
        out[n, i, j] = above * (1 - (y - top)) + below * (y - top)
    made = out.astype(image.dtype)
    return made if layout == "NHWC" else made.transpose(0, 3, 1, 2)


def _bilinear(image: np.ndarray, y: float, x: float) -> np.ndarray:
    """Return the values of all channels at a place; 0 farther than a pixel outside."""
    _, height, width = image.shape
    if y < -1 or y > height or x < -1 or x > width:
        return np.zeros(image.shape[0])
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    top, left = int(y), int(x)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    above = image[:, top, left] * (1 - (x - left)) + image[:, top, right] * (x - left)
    below = image[:, bottom, left] * (1 - (x - left)) + image[:, bottom, right] * (x - left)
    return above * (1 - (y - top)) + below * (y - top)


def roi_align_common(
    a_np: np.ndarray,
    b_np: np.ndarray,
    rois_np: np.ndarray,
    channel: int,
    pooled_size_h: int,
    pooled_size_w: int,
    spatial_scale: float,
    sample_ratio: int,
    avg_mode: bool,
    max_mode: bool,
    height: int,
    width: int,
    layout: str,
) -> np.ndarray:
    """Fill ``b_np`` with the mean, or the largest, of samples in the parts of each region."""
    images = a_np if layout == "NCHW" else a_np.transpose(0, 3, 1, 2)
    for number, roi in enumerate(rois_np):
        left, top, right, bottom = [float(v) * spatial_scale for v in roi[1:]]
        bin_h = max(bottom - top, 1.0) / pooled_size_h
        bin_w = max(right - left, 1.0) / pooled_size_w
        count_h = sample_ratio if sample_ratio > 0 else int(np.ceil(bin_h))
        count_w = sample_ratio if sample_ratio > 0 else int(np.ceil(bin_w))
        for i, j in np.ndindex(pooled_size_h, pooled_size_w):
            samples = [
                _bilinear(
                    images[int(roi[0])],
                    top + bin_h * (i + (v + 0.5) / count_h),
                    left + bin_w * (j + (u + 0.5) / count_w),
                )
                for v, u in np.ndindex(count_h, count_w)
            ]
            value = np.mean(samples, 0) if avg_mode else np.max(samples, 0)
            if layout == "NCHW":
                b_np[number, :, i, j] = value
            else:
                b_np[number, i, j] = value
    return b_np


def _roi_align(
    a_np: np.ndarray,
    rois_np: np.ndarray,
    pooled_size: int | Sequence[int],
    spatial_scale: float,
    sample_ratio: int,
    mode: bytes | str,
    layout: str,
) -> np.ndarray:
    name = mode.decode() if isinstance(mode, bytes) else mode
    if name not in ("avg", "max"):
        raise UnsupportedError(f"roi_align: mode '{name}' is neither avg nor max")
    size = (pooled_size, pooled_size) if isinstance(pooled_size, int) else tuple(pooled_size)
    channel, height, width = [a_np.shape[layout.index(letter)] for letter in "CHW"]
    shape = (channel, *size) if layout == "NCHW" else (*size, channel)
    out = np.zeros((len(rois_np), *shape), a_np.dtype)
    return roi_align_common(
        a_np, out, rois_np, channel, size[0], size[1], spatial_scale, sample_ratio, name == "avg",
        name == "max", height, width, layout,
    )  # fmt: skip


def roi_align_nchw_python(
    a_np: np.ndarray,
    rois_np: np.ndarray,
    pooled_size: int | Sequence[int],
    spatial_scale: float,
    sample_ratio: int,
    mode: bytes | str = b"avg",
) -> np.ndarray:
    """Return samples of regions (image, x1, y1, x2, y2) of NCHW images."""
    return _roi_align(a_np, rois_np, pooled_size, spatial_scale, sample_ratio, mode, "NCHW")


def roi_align_nhwc_python(
    a_np: np.ndarray,
    rois_np: np.ndarray,
    pooled_size: int | Sequence[int],
    spatial_scale: float,
    sample_ratio: int,
    mode: bytes | str = b"avg",
) -> np.ndarray:
    """Return samples of regions (image, x1, y1, x2, y2) of NHWC images."""
    return _roi_align(a_np, rois_np, pooled_size, spatial_scale, sample_ratio, mode, "NHWC")


def roi_pool_nchw_python(
    a_np: np.ndarray,
    rois_np: np.ndarray,
    pooled_size: int | Sequence[int],
    spatial_scale: float,
) -> np.ndarray:
    """Return the largest pixels of the parts of regions (image, x1, y1, x2, y2), whose corners are
    rounded to pixels; 0 for a part without pixels.
    """
    size = (pooled_size, pooled_size) if isinstance(pooled_size, int) else tuple(pooled_size)
    _, channels, height, width = a_np.shape
    out = np.zeros((len(rois_np), channels, *size), a_np.dtype)
    for number, roi in enumerate(rois_np):
        x1, y1, x2, y2 = [_rounded(float(v) * spatial_scale) for v in roi[1:]]
        bin_h, bin_w = max(y2 - y1 + 1, 1) / size[0], max(x2 - x1 + 1, 1) / size[1]
        for i, j in np.ndindex(*size):
            rows = _within(y1 + np.floor(i * bin_h), y1 + np.ceil((i + 1) * bin_h), height)
            columns = _within(x1 + np.floor(j * bin_w), x1 + np.ceil((j + 1) * bin_w), width)
            part = a_np[int(roi[0]), :, rows, columns]
            if part.size:
                out[number, :, i, j] = part.max((1, 2))
    return out


def _rounded(value: float) -> int:
    """Return the nearest whole number, halves away from 0."""
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


def _within(low: float, high: float, size: int) -> slice:
    return slice(min(max(int(low), 0), size), min(max(int(high), 0), size))

"""Regions of images: samples, largest pixels, and Darknet's rearrangement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from tilesmith import te, tir
from tilesmith.ir import IntImm, PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.support.errors import ShapeError, UnsupportedError
from tilesmith.te import Tensor
from tilesmith.tir import Buffer, Stmt, ir_builder
from tilesmith.tir.ir_builder import BufferVar, IRBuilder
from tilesmith.topi import tag
from tilesmith.topi.compute import compute
from tilesmith.topi.procedure import local, loops, pointers
from tilesmith.topi.utils import checked_index, lowest, simplify
from tilesmith.topi.variants import variant

__all__ = ["reorg", "roi_align_nchw", "roi_align_nhwc", "roi_pool_nchw"]


_MOST_SAMPLES = 1 << 24
"""So many samples can be told apart by their numbers in float32."""
_LARGEST = float.fromhex("0x1.fffffep+127")  # of float32


def _float(value: float | PrimExpr) -> PrimExpr:
    return op.cast("float32", value) if isinstance(value, PrimExpr) else const(value, "float32")


def _pooled(size: int | Sequence[int]) -> list[int]:
    return [size, size] if isinstance(size, int) else [int(one) for one in size]


def _check_regions(data: Tensor, rois: Tensor) -> None:
    if len(data.shape) != 4 or len(rois.shape) != 2 or not op.is_const(rois.shape[1], 5):
        raise ShapeError("regions are rows of five numbers: the image, then x1, y1, x2, y2")


class _Samples:
    """Reads an image between its pixels; farther than a pixel outside there is 0."""

    def __init__(self, builder: IRBuilder, size: PrimExpr, place: PrimExpr, name: str) -> None:
        extent = _float(size)
        self.outside = tir.Or(place < _float(-1.0), place > extent)
        last = extent - _float(1.0)
        inside = builder.let(name, op.maximum(op.minimum(place, last), _float(0.0)))
        base = builder.let(name + "_base", tir.floor(inside))
        low = builder.let(name + "_low", op.cast(size.dtype, base))
        fraction = builder.let(name + "_part", inside - base)
        high = op.minimum(low + 1, size - 1)
        self.taps = [(low, _float(1.0) - fraction), (high, fraction)]


def _bins(
    builder: IRBuilder,
    regions: BufferVar,
    roi: PrimExpr,
    corner: int,
    count: int,
    scale: float,
    sample_ratio: int,
) -> tuple[PrimExpr, PrimExpr, PrimExpr]:
    """Return where a region begins along an axis, the size of its parts, and the samples in one."""
    low = builder.let(f"low{corner}", _float(regions[[roi, corner]]) * scale)
    span = builder.let(f"span{corner}", _float(regions[[roi, corner + 2]]) * scale - low)
    extent = op.maximum(span, _float(1.0))
    size = builder.let(f"bin{corner}", extent / _float(float(count)))
    if sample_ratio > 0:
        return low, size, const(sample_ratio, "int32")
    # NaN fails the comparisons, too.
    is_small = span <= _float(float(_MOST_SAMPLES * count))
    is_finite = tir.abs(low) <= _float(_LARGEST)
    is_known = builder.let(f"known{corner}", tir.And(is_small, is_finite))
    number = op.cast("int32", tir.ceil(tir.Select(is_known, size, _float(1.0))))
    text = "OutOfBoundsError: roi_align: the region "
    more = f" has more than {_MOST_SAMPLES} samples along an axis of a part, or is not finite"
    checked = tir.checked(number, is_known, text, op.cast("int64", roi), more)
    return low, size, builder.let(f"count{corner}", checked)


def _inside(
    builder: IRBuilder, part: tuple[PrimExpr, PrimExpr, PrimExpr], index: PrimExpr,
    extent: PrimExpr, name: str,
) -> tuple[PrimExpr, PrimExpr]:  # fmt: skip
    """Return the first and the last (exclusive) sample of a part that may be in the image, which
    has ``extent`` pixels: no more than about two for each pixel, however large the region is.
    """
    low, size, number = [op.cast("float64", one) for one in part]
    begin = low + size * op.cast("float64", index)
    per_pixel = number / size
    # The samples' places are computed in float32: they may be off by so much.
    slack = (tir.abs(begin) + size) * const(2.0**-20, "float64") + const(2.0, "float64")
    first = (const(-1.0, "float64") - begin - slack) * per_pixel
    last = (op.cast("float64", extent) - begin + slack) * per_pixel
    ends = []
    for end, what in ((first, "first_"), (last, "last_")):
        bounded = op.minimum(op.maximum(end, const(0.0, "float64")), number)
        ends.append(builder.let(what + name, op.cast("int32", tir.ceil(bounded))))
    return ends[0], ends[1]


def _sample(
    builder: IRBuilder, part: tuple[PrimExpr, PrimExpr, PrimExpr], index: PrimExpr, step: PrimExpr,
    extent: PrimExpr, name: str,
) -> _Samples:  # fmt: skip
    """Return how sample ``step`` of a part reads the image along an axis."""
    low, size, number = part
    within = (_float(step) + _float(0.5)) / _float(number)
    place = builder.let("at_" + name, low + size * (_float(index) + within))
    return _Samples(builder, extent, place, name)


def _between(axes: list[_Samples], pixel: Callable[[PrimExpr, PrimExpr], PrimExpr]) -> PrimExpr:
    """Return the value between four pixels, 0 outside of the image."""
    value: PrimExpr = _float(0.0)
    for y, weight_y in axes[0].taps:
        for x, weight_x in axes[1].taps:
            value = value + pixel(y, x) * weight_y * weight_x
    outside = tir.Or(axes[0].outside, axes[1].outside)
    return tir.Select(outside, _float(0.0), value)


def _of_all_samples(
    kind: str, total: PrimExpr, ranges: list[tuple[PrimExpr, PrimExpr]], numbers: list[PrimExpr]
) -> PrimExpr:
    """Return the mean or the largest of all samples, where those outside of ``ranges`` are 0."""
    if kind == "avg":
        return total / (_float(numbers[0]) * _float(numbers[1]))
    are_left = [end - begin < number for (begin, end), number in zip(ranges, numbers)]
    return tir.Select(tir.Or(*are_left), op.maximum(total, _float(0.0)), total)


def _roi_align(
    layout: str,
    data: Tensor,
    rois: Tensor,
    pooled_size: int | Sequence[int],
    spatial_scale: float,
    mode: str | bytes,
    sample_ratio: int = -1,
) -> Tensor:
    kind = mode.decode() if isinstance(mode, bytes) else mode
    if kind not in ("avg", "max"):
        raise UnsupportedError(f"roi_align: mode '{kind}' is neither avg nor max")
    _check_regions(data, rois)
    channels, height, width = [data.shape[layout.index(letter)] for letter in "CHW"]
    images, pooled = data.shape[0], _pooled(pooled_size)

    def pixel(image: PrimExpr, c: PrimExpr, y: PrimExpr, x: PrimExpr) -> list[PrimExpr]:
        return [image, c, y, x] if layout == "NCHW" else [image, y, x, c]

    def body(inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        builder = ir_builder.create()
        source, regions, out = pointers(builder, [*inputs, *outputs])
        with ExitStack() as stack:
            (roi,) = loops(builder, stack, [rois.shape[0]], "roi")
            given = builder.let("given", op.cast("int32", regions[[roi, 0]]))
            image = builder.let("image", checked_index(given, images, "roi_align", given))
            parts = [
                _bins(builder, regions, roi, corner, count, spatial_scale, sample_ratio)
                for corner, count in zip((2, 1), pooled)
            ]
            c, i, j = loops(builder, stack, [channels, *[const(n, "int32") for n in pooled]], "i")
            ranges = [
                _inside(builder, part, index, extent, name)
                if sample_ratio <= 0
                else (const(0, "int32"), part[2])
                for part, index, extent, name in zip(parts, (i, j), (height, width), "yx")
            ]
            first = _float(0.0) if kind == "avg" else lowest("float32")
            total = local(builder, "float32", "total", first)
            with ExitStack() as samples:
                v, u = [
                    samples.enter_context(builder.for_range(begin, end, f"s{axis}"))
                    for axis, (begin, end) in enumerate(ranges)
                ]
                taps = [
                    _sample(builder, part, index, step, extent, name)
                    for part, index, step, extent, name in zip(
                        parts, (i, j), (v, u), (height, width), "yx"
                    )
                ]
                value = _between(taps, lambda y, x: _float(source[pixel(image, c, y, x)]))
                total[0] = total[0] + value if kind == "avg" else op.maximum(total[0], value)
            numbers = [number for _, _, number in parts]
            value = _of_all_samples(kind, total[0], ranges, numbers)
            out[pixel(roi, c, i, j)] = op.cast(data.dtype, value)
        return builder.get()

    shape = pixel(rois.shape[0], channels, *[const(size, "int32") for size in pooled])
    made: Tensor = te.extern([shape], [data, rois], body, "roi_align", [data.dtype])
    return made


roi_align_nchw = variant(
    "roi_align_nchw",
    _roi_align,
    "NCHW",
    """Return the mean ("avg") or the largest ("max") of samples between the pixels, for each of
    ``pooled_size`` parts of regions (image, x1, y1, x2, y2) of NCHW data.

    ``spatial_scale`` turns the corners into pixels; ``sample_ratio`` is the number of samples along
    each axis of a part, one for each pixel where it is not positive. Samples outside of the image
    are 0 and take no time then. An image that is not there is an error when the program runs, and
    so is a region with more than 2**24 samples along an axis of a part.
    """,
)
roi_align_nhwc = variant(
    "roi_align_nhwc",
    _roi_align,
    "NHWC",
    "Return samples of regions of NHWC data; see `roi_align_nchw`.",
)


def _part(
    builder: IRBuilder, regions: BufferVar, roi: PrimExpr, corner: int, scale: float
) -> tuple[PrimExpr, PrimExpr]:
    """Return the first pixel of a region along an axis, and how many it has."""
    ends = [
        op.cast("int32", tir.round(_float(regions[[roi, place]]) * scale))
        for place in (corner, corner + 2)
    ]
    first = builder.let(f"first{corner}", ends[0])
    count = op.maximum(ends[1] - first + 1, const(1, "int32"))
    return first, builder.let(f"pixels{corner}", count)


def roi_pool_nchw(
    data: Tensor, rois: Tensor, pooled_size: int | Sequence[int], spatial_scale: float
) -> Tensor:
    """Return the largest pixel of each of ``pooled_size`` parts of regions (image, x1, y1, x2, y2)
    of NCHW data, 0 for parts outside. ``spatial_scale`` turns the corners into pixels, to which
    they are rounded, halves away from 0. An image that is not there is an error when the program
    runs.
    """
    _check_regions(data, rois)
    images, channels, height, width = data.shape
    pooled = _pooled(pooled_size)

    def body(inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        builder = ir_builder.create()
        source, regions, out = pointers(builder, [*inputs, *outputs])
        with ExitStack() as stack:
            (roi,) = loops(builder, stack, [rois.shape[0]], "roi")
            given = builder.let("given", op.cast("int32", regions[[roi, 0]]))
            image = builder.let("image", checked_index(given, images, "roi_pool", given))
            parts = [_part(builder, regions, roi, corner, spatial_scale) for corner in (2, 1)]
            c, *places = loops(
                builder, stack, [channels, *[const(n, "int32") for n in pooled]], "i"
            )
            bounds = []
            for (first, size), index, count, extent in zip(parts, places, pooled, (height, width)):
                low = first + op.floordiv(index * size, count)
                high = first + op.floordiv((index + 1) * size + (count - 1), count)
                zero, last = const(0, "int32"), op.cast("int32", extent)
                bounds.append([op.minimum(op.maximum(end, zero), last) for end in (low, high)])
            total = local(builder, data.dtype, "total", lowest(data.dtype))
            found = local(builder, "int32", "found", const(0, "int32"))
            with ExitStack() as pixels:
                y, x = [
                    pixels.enter_context(builder.for_range(low, high, name))
                    for (low, high), name in zip(bounds, "yx")
                ]
                total[0] = op.maximum(total[0], source[[image, c, y, x]])
                found[0] = const(1, "int32")
            empty = op.equal(found[0], const(0, "int32"))
            out[[roi, c, *places]] = tir.Select(empty, const(0, data.dtype), total[0])
        return builder.get()

    shape = [rois.shape[0], channels, *pooled]
    made: Tensor = te.extern([shape], [data, rois], body, "roi_pool", [data.dtype])
    return made


def reorg(data: Tensor, stride: int) -> Tensor:
    """Turn NCHW pixels into channels as Darknet does: the data is read as an image whose channels
    are fewer and whose sides are longer by ``stride``.
    """
    batch, channels, height, width = data.shape
    inner = op.floordiv(channels, stride * stride)
    for size, factor in ((channels, stride * stride), (height, stride), (width, stride)):
        if isinstance(size, IntImm) and size.value % factor:
            raise ShapeError(f"reorg: a size of {size} is not a multiple of {factor}")
    shape = [
        batch,
        simplify(channels * (stride * stride)),
        simplify(op.floordiv(height, stride)),
        simplify(op.floordiv(width, stride)),
    ]

    def element(n: PrimExpr, c: PrimExpr, y: PrimExpr, x: PrimExpr) -> PrimExpr:
        # The place in (place in a block, its channel, row, column), flat for each image ...
        flat = (c * shape[2] + y) * shape[3] + x
        column, flat = op.floormod(flat, width), op.floordiv(flat, width)
        row, flat = op.floormod(flat, height), op.floordiv(flat, height)
        channel, block = op.floormod(flat, inner), op.floordiv(flat, inner)
        # ... is this one in the larger image, which is flat in the data.
        down = row * stride + op.floordiv(block, stride)
        across = column * stride + op.floormod(block, stride)
        flat = (channel * (height * stride) + down) * (width * stride) + across
        column, flat = op.floormod(flat, width), op.floordiv(flat, width)
        return data(n, op.floordiv(flat, height), op.floormod(flat, height), column)

    return compute(shape, element, name="reorg", tag=tag.INJECTIVE)

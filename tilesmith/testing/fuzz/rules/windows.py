"""Draws convolutions in any layout and packing, and poolings."""

from __future__ import annotations

from typing import Any, NamedTuple

from tilesmith import topi
from tilesmith.te import Tensor
from tilesmith.testing.fuzz.rules.maker import Maker, form
from tilesmith.testing.fuzz.rules.products import (
    TILES,
    WORDS,
    elements_of_words,
    pairs,
    tiles_of,
    words,
)
from tilesmith.topi.nn.winograd import conv2d_winograd_nchw, conv2d_winograd_nhwc

__all__: list[str] = []


class _Window(NamedTuple):
    """What a window does along each axis, and sizes of data that hold one at least."""

    sizes: list[Any]
    kernel: list[int]
    strides: list[int]
    padding: list[int]
    dilation: list[int]


def _window(make: Maker, rank: int = 2, taps: int | None = None, plain: bool = False) -> _Window:
    """Draw a window: ``padding`` is before each axis, then after each."""
    most = 16 if rank < 3 else 6
    kernel = [taps or make.among([1, 2, 3, 3, 4, 5, 7]) for _ in range(rank)]
    if make.chance():
        kernel = kernel[:1] * rank
    is_strided, is_dilated = not plain and make.chance(0.4), not plain and make.chance(0.2)
    strides = [make.among([1, 2, 2, 3]) if is_strided else 1 for _ in range(rank)]
    dilation = [make.among([1, 2, 3]) if is_dilated else 1 for _ in range(rank)]
    padding = [0] * (2 * rank)
    if make.chance(0.7):
        same = [((one - 1) * step) // 2 for one, step in zip(kernel, dilation)]
        padding = same * 2 if make.chance(0.7) else [make.number(0, 2) for _ in padding]
    for one in kernel:
        make.left = max(1, make.left // one)
    sizes = []
    for axis in range(rank):
        reach = (kernel[axis] - 1) * dilation[axis] + 1
        free = padding[axis] + padding[rank + axis]
        sizes.append(make.size(40 if rank == 1 else most, reach - free))
    return _Window(sizes, kernel, strides, padding, dilation)


def _in_layout(layout: str, batch: Any, channels: Any, sizes: list[Any]) -> list[Any]:
    spatial = iter(sizes)
    known = {"N": batch, "C": channels}
    return [known[letter] if letter in known else next(spatial) for letter in layout]


_LAYOUTS = {1: ("NWC", "NCW"), 2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}
_KERNELS = {
    "NWC": "WIO", "NCW": "OIW", "NHWC": "HWIO", "NCHW": "OIHW", "NDHWC": "DHWIO", "NCDHW": "OIDHW",
}  # fmt: skip


def _filter(letters: str, outputs: Any, inputs: Any, kernel: list[int]) -> list[Any]:
    spatial = iter(kernel)
    known = {"O": outputs, "I": inputs}
    return [known[letter] if letter in known else next(spatial) for letter in letters]


@form("convolution", 4)
def convolution(make: Maker) -> list[Tensor]:
    """Convolve along one to three axes, in groups at times."""
    rank = make.among([2, 2, 2, 2, 1, 3])
    layout = make.among(_LAYOUTS[rank])
    window = _window(make, rank)
    groups = make.among([1, 1, 1, 2, 3, 4, 8])
    own, outputs = make.count(33), make.count(33)
    if make.chance(0.1):
        own = 1  # depthwise, with several outputs for each channel
    batch = make.size(3)
    dtype = make.dtype("int8")
    data = make.source(_in_layout(layout, batch, own * groups, window.sizes), dtype)
    shape = _filter(_KERNELS[layout], outputs * groups, own, window.kernel)
    made = topi.nn.conv(
        data, make.input(shape, dtype), window.strides, window.padding, window.dilation, groups,
        layout, "", "int32" if dtype == "int8" else None,
    )  # fmt: skip
    return make.epilogue(made)


@form("packed convolution", 3)
def packed_convolution(make: Maker) -> list[Tensor]:
    """Convolve channels last with weights in tiles: floats, pairs of bfloat16, or bytes."""
    window = _window(make)
    channels, outputs = make.count(33), make.count(49)
    width, batch = make.among(TILES), make.size(2)
    kind = make.among(["plain", "plain", "pairs", "words", "pixels"])
    shape = [batch, *window.sizes, channels]
    tiles, options = tiles_of(outputs, width), window[2:]
    if kind == "pixels":
        dtype = make.dtype()
        data = make.source([batch, channels, *window.sizes], dtype)
        return make.epilogue(topi.nn.conv2d_of_pixels(data, make.input((outputs, channels), dtype)))
    if kind == "plain":
        dtype = make.dtype()
        weight = make.input((tiles, *window.kernel, channels, width), dtype)
        data = make.source(shape, dtype)
        return make.epilogue(topi.nn.conv2d_nhwc_packed(data, weight, outputs, *options))
    if kind == "pairs":
        weight = pairs(make, [tiles, *window.kernel, (channels + 1) // 2, width])
        data = make.source(shape, "bfloat16")
        return make.epilogue(topi.nn.conv2d_nhwc_pairs(data, weight, outputs, *options))
    groups = make.among([1, 1, 1, 2])
    if groups > 1:
        channels, outputs = channels * groups, width * groups
        shape[-1], tiles = channels, groups
    products = make.among(WORDS)
    size = elements_of_words(products)
    weight = words(make, [tiles, *window.kernel, -(-channels // groups // size), width])
    data = make.source(shape, make.among(["uint8", "int8"]))
    point = make.number(0, 3)
    made = topi.nn.conv2d_nhwc_words(data, weight, outputs, *options, point, groups, products)
    return make.epilogue(made)


@form("grouped convolution", 2)
def grouped_convolution(make: Maker) -> list[Tensor]:
    """Convolve groups of channels, channels last, with packed weights or in lanes."""
    window = _window(make)
    groups, batch = make.among([1, 2, 3, 4, 8, 17]), make.size(2)
    if make.chance():
        own = make.among([2, 4, 8, 3, 5, 12])
        weight = make.input((window.kernel[0], own, window.kernel[1], groups * own))
        data = make.source([batch, *window.sizes, groups * own])
        made = topi.nn.grouped_conv2d_nhwc_lanes(data, weight, *window[2:])
        return make.epilogue(made)
    own, width, tiles = make.count(17), make.among(TILES), make.among([1, 1, 2])
    dtype = make.dtype()
    weight = make.input((groups, tiles, *window.kernel, own, width), dtype)
    data = make.source([batch, *window.sizes, groups * own], dtype)
    outputs = groups * tiles * width
    made = topi.nn.grouped_conv2d_nhwc_packed(data, weight, outputs, *window[2:])
    return make.epilogue(made)


@form("depthwise", 3)
def depthwise(make: Maker) -> list[Tensor]:
    """Convolve each channel on its own: planes, channels last, bytes."""
    window = _window(make)
    batch, channels = make.size(2), make.count(70)
    kind = make.among(["last", "last", "planes", "bytes", "HWOI"])
    dtype = make.dtype()
    if kind == "last":
        weight = make.input((*window.kernel, channels), dtype)
        data = make.source([batch, *window.sizes, channels], dtype)
        made = topi.nn.depthwise_conv2d_nhwc_packed(data, weight, *window[2:])
        return make.epilogue(made)
    if kind == "bytes":
        weight = make.input((*window.kernel, channels), "int32", -128, 127)
        data = make.input([batch, *window.sizes, channels], make.among(["uint8", "int8"]))
        point = make.number(0, 3)
        made = topi.nn.depthwise_conv2d_nhwc_bytes(data, weight, *window[2:], point)
        return make.epilogue(made)
    more = make.among([1, 1, 1, 2])
    if kind == "planes":
        data = make.source([batch, channels, *window.sizes], dtype)
        weight = make.input((channels, more, *window.kernel), dtype)
        made = topi.nn.depthwise_conv2d_nchw(data, weight, *window[2:])
        return make.epilogue(made)
    data = make.source([batch, *window.sizes, channels], dtype)
    weight = make.input((*window.kernel, channels, more), dtype)
    return make.epilogue(topi.nn.depthwise_conv2d_nhwc(data, weight, *window[2:]))


@form("blocked convolution", 1)
def blocked_convolution(make: Maker) -> list[Tensor]:
    """Convolve data and weights whose channels are in blocks."""
    window = _window(make)
    inner, outer = make.among([1, 4, 8, 16]), make.among([4, 8, 16])
    batch, count = make.size(2), make.count(3)
    data = make.source([batch, count, *window.sizes, inner])
    layouts = f"NCHW{inner}c", f"NCHW{outer}c"
    if make.chance(0.3):
        weight = make.input((count, 1, *window.kernel, 1, inner))
        layouts = layouts[0], layouts[0]
        made = topi.nn.depthwise_conv2d_NCHWc(data, weight, *window[2:], *layouts)
        return make.epilogue(made)
    weight = make.input((make.count(3), count, *window.kernel, inner, outer))
    return make.epilogue(topi.nn.conv2d_NCHWc(data, weight, *window[2:], *layouts))


@form("transposed convolution", 2)
def transposed_convolution(make: Maker) -> list[Tensor]:
    """Convolve backwards: each element is spread over a window of the result."""
    rank = make.among([2, 2, 1])
    window = _window(make, rank)
    layout = make.among(_LAYOUTS[rank])
    groups = make.among([1, 1, 1, 2, 3])
    own, outputs, batch = make.count(17), make.count(17), make.size(2)
    padding = [0] * (2 * rank)
    if make.chance():
        padding = [
            make.number(0, min(1, (taps - 1) // 2)) for _ in range(2) for taps in window.kernel
        ]
    extra = [make.number(0, step - 1) for step in window.strides]
    # of no elements there would be fewer than none in the result
    sizes = [size if make.least(size) > 0 else 1 for size in window.sizes]
    data = make.source(_in_layout(layout, batch, own * groups, sizes))
    letters = _KERNELS[layout].replace("O", "X").replace("I", "O").replace("X", "I")
    weight = make.input(_filter(letters, outputs, own * groups, window.kernel))
    made = topi.nn.conv_transpose(
        data, weight, window.strides, padding, extra, window.dilation, groups, layout, letters
    )
    return make.epilogue(made)


@form("winograd", 1)
def winograd(make: Maker) -> list[Tensor]:
    """Convolve with three by three taps through transforms of tiles."""
    window = _window(make, 2, 3, plain=True)
    batch, channels = make.count(2), make.count(20)
    kind = make.among(["packed", "packed", "words", "NHWC", "NCHW"])
    known = [max(1, make.number_of(size)) for size in window.sizes]
    if kind == "words":
        outputs, width, groups = make.count(40), make.among(TILES), make.among([1, 1, 2])
        stride = make.among([1, 1, 2])
        points = topi.nn.winograd_width(2, stride) ** 2
        sizes = [tiles_of(outputs, width), points, -(-channels // 2), width]
        weight = words(make, [groups, *sizes] if groups > 1 else sizes)
        data = make.source([batch, *known, groups * channels], make.among(["uint8", "int8"]))
        made = topi.nn.conv2d_nhwc_winograd_words(
            data, weight, groups * outputs, window.padding, 2, make.among([1, 2, 3]), stride,
            make.number(0, 3),
        )  # fmt: skip
        return make.epilogue(made)
    make.inexact(100)
    if kind == "packed":
        tile, width, outputs = make.among([2, 4]), make.among(TILES), make.count(40)
        groups, stride = make.among([1, 1, 2, 3]), make.among([1, 1, 2])
        points = topi.nn.winograd_width(tile, stride) ** 2
        shape = (tiles_of(outputs, width), points, channels, width)
        weight = make.input((groups, *shape) if groups > 1 else shape)
        data = make.source([batch, *known, groups * channels])
        options = window.padding, tile, make.among([1, 2, 3]), stride
        made = topi.nn.conv2d_nhwc_winograd(data, weight, groups * outputs, *options)
        return make.epilogue(made)
    outputs = make.count(12)
    data = make.source(_in_layout(kind, batch, channels, known))
    weight = make.input(_filter(_KERNELS[kind], outputs, channels, [3, 3]))
    convolve = conv2d_winograd_nhwc if kind == "NHWC" else conv2d_winograd_nchw
    return make.epilogue(convolve(data, weight, 1, window.padding, 1, "float32"))


@form("pooling", 2)
def pooling(make: Maker) -> list[Tensor]:
    """Take maxima or means of windows, of planes, or of parts of them."""
    rank = make.among([2, 2, 2, 1, 3])
    layout = make.among(_LAYOUTS[rank])
    kind, dtype = make.among(["max", "avg"]), make.dtype()
    how = make.among(["windows", "windows", "windows", "global", "adaptive", "sums"])
    batch, channels = make.size(3), make.count(40)
    window = _window(make, rank)
    if kind == "avg":
        make.inexact()
        dtype = "float32"
    if how == "sums" and rank == 2:
        data = make.input([batch, *window.sizes, channels], make.among(["int8", "uint8"]))
        options = window[1:]
        return make.epilogue(topi.nn.window_sums_nhwc(data, *options, make.number(0, 3)))
    sizes = window.sizes
    if how in ("global", "adaptive"):
        sizes = [max(1, make.number_of(size)) for size in sizes]
    data = make.source(_in_layout(layout, batch, channels, sizes), dtype)
    if how == "global" and rank == 2:
        return make.epilogue(topi.nn.global_pool(data, kind, layout))
    if how == "adaptive" and rank == 2:
        results = [make.number(1, 7) for _ in range(2)]
        return make.epilogue(topi.nn.adaptive_pool(data, results, kind, layout))
    pool = (topi.nn.pool1d, topi.nn.pool2d, topi.nn.pool3d)[rank - 1]
    limits = [(one - 1) * step for one, step in zip(window.kernel, window.dilation)]
    padding = [min(one, most) for one, most in zip(window.padding, limits * 2)]
    made = pool(
        data, window.kernel, window.strides, window.dilation, padding, kind,
        make.chance(0.3), layout, make.chance(),
    )  # fmt: skip
    return make.epilogue(made)

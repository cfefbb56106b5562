"""Winograd's convolutions: a tile of the result from fewer products than it has terms.

A tile of ``m`` by ``m`` results needs ``alpha = m + taps - 1`` rows and columns of the data d. With
three small matrices it is ``A.T @ ((G @ g @ G.T) * (B.T @ d @ B)) @ A`` for the filter g, so that
``alpha * alpha`` products do the work of ``(m * taps) ** 2``; over the channels they are added
before the last step, which makes ``alpha * alpha`` matrix products. Results differ from those of a
direct convolution by rounding errors that grow with ``m``.
"""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith import te
from tilesmith.ir import PrimExpr
from tilesmith.ir import operators as op
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import OpAttributeInvalid, ShapeError, UnsupportedError
from tilesmith.te import Tensor
from tilesmith.topi.accumulation import accumulator, rounded
from tilesmith.topi.compute import compute
from tilesmith.topi.helpers import const_matrix
from tilesmith.topi.nn.pad import pad
from tilesmith.topi.nn.rewritten import given_weight
from tilesmith.topi.nn.utils import Numbers, Padding, get_pad_tuple, per_axis, windows_within
from tilesmith.topi.utils import DType, get_const_int, simplify

__all__ = [
    "conv2d_winograd_nchw", "conv2d_winograd_nchw_without_weight_transform",
    "conv2d_winograd_nhwc", "conv2d_winograd_nhwc_without_weight_transform",
    "conv2d_winograd_nnpack_weight_transform", "conv2d_winograd_weight_transform",
    "conv3d_winograd_weight_transform", "winograd_matrices", "winograd_transform_matrices",
]  # fmt: skip

_TILE = 4
"""The number of results of a tile along an axis."""
_POINTS = [0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 4.0, -4.0]
"""Where polynomials are evaluated; more points would be too inexact."""


def winograd_matrices(tile: int, taps: int) -> tuple[numpy.ndarray[Any, Any], ...]:
    """Return A, B and G: a filter g of so many taps over the data d gives the tile
    ``A.T @ ((G @ g) * (B.T @ d))``.

    This is Toom and Cook's product of polynomials, transposed: both are evaluated at as many points
    (the last at infinity) as the product has coefficients, multiplied there, and interpolated.
    """
    count = tile + taps - 1
    points = _POINTS[: count - 1]
    if tile < 1 or taps < 1 or len(points) < count - 1:
        raise OpAttributeInvalid(
            f"Winograd's algorithm: tiles of {tile} with {taps} taps are not possible",
            notes=(f"tile + taps is at most {len(_POINTS) + 2}, beyond it is too inexact",),
        )

    def evaluation(size: int) -> numpy.ndarray[Any, Any]:
        rows = [[point**power for power in range(size)] for point in points]
        return numpy.array([*rows, [0.0] * (size - 1) + [1.0]])

    # The inverse of a matrix of small integers and halves: rounding only hides zeros.
    inverse = numpy.linalg.inv(evaluation(count))
    inverse[numpy.abs(inverse) < 1e-12] = 0.0
    return evaluation(tile), inverse, evaluation(taps)


def winograd_transform_matrices(
    tile_size: int, kernel_size: int, out_dtype: DType
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the matrices A, B and G of `winograd_matrices` as tensors of constants."""
    dtype = DataType(out_dtype)
    if not dtype.is_float:
        raise UnsupportedError(
            f"Winograd's matrices hold fractions, there are none in {dtype}",
            notes=("compute in floats, or use a direct convolution",),
        )
    made = winograd_matrices(tile_size, kernel_size)
    attrs = {"schedule_rule": "None", "const_matrix": True}
    a, b, g = [
        const_matrix(matrix.astype(dtype.numpy()), name, attrs)
        for matrix, name in zip(made, ("A", "B", "G"))
    ]
    return a, b, g


def _squares(kernel: Tensor, axes: tuple[int, ...], what: str) -> int:
    """Return the number of taps of a filter that is as long along all of these axes."""
    sizes = [get_const_int(kernel.shape[axis]) for axis in axes]
    if len(set(sizes)) != 1:
        raise ShapeError(f"{what}: the filter is not square: {' by '.join(map(str, sizes))}")
    return sizes[0]


def _weight_transform(
    kernel: Tensor, taps: int, tile: int, axes: tuple[int, ...], name: str = "transform_weight"
) -> Tensor:
    """Return the filter, transformed along ``axes``, which come first in the result; the other axes
    follow in their order.
    """
    dtype = accumulator(kernel.dtype)
    _, _, g = winograd_transform_matrices(tile, taps, dtype)
    alpha = tile + taps - 1
    others = [axis for axis in range(len(kernel.shape)) if axis not in axes]
    letters = {3: "dhw", 2: "hw"}[len(axes)]
    places = [te.reduce_axis((0, taps), name="r_k" + letter) for letter in letters]

    def element(*i: Any) -> Any:
        at = {**dict(zip(axes, places)), **dict(zip(others, i[len(axes) :]))}
        value = op.cast(dtype, kernel(*[at[axis] for axis in range(len(kernel.shape))]))
        for index, place in zip(i, places):
            value = value * g(index, place)
        return te.sum(value, axis=places)

    shape = [*[alpha] * len(axes), *[kernel.shape[axis] for axis in others]]
    return rounded(compute(shape, element, name=name), kernel.dtype)


def conv2d_winograd_weight_transform(kernel: Tensor, tile_size: int) -> Tensor:
    """Return ``G @ kernel @ G.T`` of each pair of channels: (alpha, alpha, outputs, inputs) of an
    OIHW filter.
    """
    taps = _squares(kernel, (2, 3), "conv2d_winograd_weight_transform")
    return _weight_transform(kernel, taps, tile_size, (2, 3))


def conv2d_winograd_nnpack_weight_transform(
    kernel: Tensor, convolution_algorithm: int, out_dtype: DType
) -> Tensor:
    """Raise UnsupportedError: NNPACK's order of transformed weights is its own, and nothing here
    calls NNPACK.
    """
    raise UnsupportedError(
        "weights in NNPACK's own order are of no use: Tilesmith does not call NNPACK",
        notes=("conv2d_winograd_weight_transform, with conv2d_winograd_nchw, needs no library",),
    )


def conv3d_winograd_weight_transform(kernel: Tensor, tile_size: int) -> Tensor:
    """Return the transformed OIDHW filter: (alpha, alpha, alpha, outputs, inputs) of one that is as
    deep as it is high (3 to 7), else height and width only: (alpha, alpha, depth, outputs, inputs).
    """
    depth = get_const_int(kernel.shape[2])
    taps = _squares(kernel, (3, 4), "conv3d_winograd_weight_transform")
    if 2 < depth < 8 and depth == taps:
        return _weight_transform(kernel, taps, tile_size, (2, 3, 4))
    turned = compute(
        [kernel.shape[axis] for axis in (2, 0, 1, 3, 4)],
        lambda d, o, i, y, x: kernel(o, i, d, y, x),
        name="depth_first",
        tag="injective",
    )
    return _weight_transform(turned, taps, tile_size, (3, 4))


class _Tiles:
    """The sizes of a convolution by tiles."""

    def __init__(
        self, data: Tensor, layout: str, taps: int, strides: Numbers, padding: Padding,
        dilation: Numbers,
    ) -> None:  # fmt: skip
        if set(per_axis(strides, 2, "strides") + per_axis(dilation, 2, "dilation")) != {1}:
            raise UnsupportedError(
                f"Winograd's convolution has strides and dilation 1, got {strides} and {dilation}",
                notes=("topi.nn.conv2d_nhwc and conv2d_nchw have no such limit",),
            )
        self.alpha = _TILE + taps - 1
        self._layout = layout
        size = dict(zip(layout, data.shape))
        self.batch, self.channels = size["N"], size["C"]
        top, left, bottom, right = get_pad_tuple(padding, (taps, taps))
        self.height = windows_within(size["H"] + top + bottom, taps, 1)
        self.width = windows_within(size["W"] + left + right, taps, 1)
        self.rows, self.columns = [
            simplify(op.floordiv(length + (_TILE - 1), _TILE))
            for length in (self.height, self.width)
        ]
        self.count = simplify(self.batch * self.rows * self.columns)
        before = {"H": top, "W": left}
        after = {
            "H": simplify(self.rows * _TILE - self.height + bottom),
            "W": simplify(self.columns * _TILE - self.width + right),
        }
        self._padded = pad(
            data,
            [before.get(letter, 0) for letter in layout],
            [after.get(letter, 0) for letter in layout],
            name="data_pad",
        )

    def read(self, tile: PrimExpr, y: Any, x: Any, channel: Any) -> PrimExpr:
        """Return the data at a place of a tile."""
        row = op.floormod(op.floordiv(tile, self.columns), self.rows)
        at = {
            "N": op.floordiv(tile, self.rows * self.columns),
            "C": channel,
            "H": row * _TILE + y,
            "W": op.floormod(tile, self.columns) * _TILE + x,
        }
        return self._padded(*[at[letter] for letter in self._layout])

    def place(self, n: Any, y: Any, x: Any) -> PrimExpr:
        """Return the number of the tile that holds a result."""
        row = n * self.rows + op.floordiv(y, _TILE)
        tile: PrimExpr = row * self.columns + op.floordiv(x, _TILE)
        return tile


def _transformed(values: Tensor, matrix: Tensor, size: int, name: str) -> Tensor:
    """Return ``matrix.T @ tile @ matrix`` for the first two axes of the values."""
    first = te.reduce_axis((0, values.shape[0]), "r_a")
    second = te.reduce_axis((0, values.shape[1]), "r_b")
    return compute(
        (size, size, *values.shape[2:]),
        lambda *i: te.sum(
            values(first, second, *i[2:]) * matrix(first, i[0]) * matrix(second, i[1]),
            axis=[first, second],
        ),
        name=name,
    )


def _winograd(
    layout: str,
    data: Tensor,
    weight: Tensor,
    strides: Numbers,
    padding: Padding,
    dilation: Numbers,
    out_dtype: DType | None,
    pre_computed: bool,
) -> Tensor:
    """Convolve NHWC or NCHW data; a filter that is transformed already has its outputs before the
    inputs in NHWC, behind them in NCHW.
    """
    name = "conv2d_winograd_" + layout.lower()
    is_last = layout == "NHWC"
    if len(data.shape) != 4 or len(weight.shape) != 4:
        raise ShapeError(f"{name}: data and weight have 4 dimensions")
    sides = (0, 1) if pre_computed or is_last else (2, 3)
    taps = _squares(weight, sides, name) - (_TILE - 1 if pre_computed else 0)
    tiles = _Tiles(data, layout, taps, strides, padding, dilation)
    out_dtype = out_dtype or data.dtype
    dtype = accumulator(out_dtype)
    a, b, _ = winograd_transform_matrices(_TILE, taps, dtype)
    kernel = weight
    if not pre_computed:
        kernel = _weight_transform(rounded(weight, dtype), taps, _TILE, sides, "kernel_pack")
    # Whether the outputs are the last but one axis of the transformed filter, or the last one.
    outer_first = is_last if pre_computed else not is_last
    outer, inner = kernel.shape[2:] if outer_first else kernel.shape[:1:-1]
    if get_const_int(inner) != get_const_int(tiles.channels):
        raise ShapeError(
            f"{name}: the data has {tiles.channels} channels, the filter takes {inner}"
        )
    return _by_tiles(tiles, layout, kernel, outer_first, outer, (a, b), out_dtype)


def _by_tiles(
    tiles: _Tiles, layout: str, kernel: Tensor, outer_first: bool, outer: PrimExpr,
    matrices: tuple[Tensor, Tensor], out_dtype: DType,
) -> Tensor:  # fmt: skip
    """Return the convolution by a transformed filter."""
    is_last, dtype = layout == "NHWC", accumulator(out_dtype)
    alpha, count, channels = tiles.alpha, tiles.count, tiles.channels
    a, b = matrices

    def ordered(tile: Any, channel: Any) -> tuple[Any, Any]:
        return (tile, channel) if is_last else (channel, tile)

    def seen(*i: Any) -> PrimExpr:
        tile, channel = ordered(*i[2:])
        return op.cast(dtype, tiles.read(tile, i[0], i[1], channel))

    cut = compute((alpha, alpha, *ordered(count, channels)), seen, name="input_tile")
    packed = _transformed(cut, b, alpha, "data_pack")
    k = te.reduce_axis((0, channels), name="ci")

    def product(*i: Any) -> Any:
        tile, channel = ordered(*i[2:])
        factor = kernel(*i[:2], *((channel, k) if outer_first else (k, channel)))
        return te.sum(packed(*i[:2], *ordered(tile, k)) * op.cast(dtype, factor), axis=[k])

    summed = compute((alpha, alpha, *ordered(count, outer)), product, name="bgemm")
    inverse = _transformed(summed, a, _TILE, "inverse")
    size = {"N": tiles.batch, "C": outer, "H": tiles.height, "W": tiles.width}

    def result(*i: Any) -> PrimExpr:
        at = dict(zip(layout, i))
        place = ordered(tiles.place(at["N"], at["H"], at["W"]), at["C"])
        inside = [op.floormod(at[letter], _TILE) for letter in "HW"]
        return op.cast(out_dtype, inverse(*inside, *place))

    tag = "conv2d_winograd_" + layout.lower()
    return compute([size[letter] for letter in layout], result, "conv2d_winograd", tag)


def conv2d_winograd_nhwc(
    data: Tensor,
    weight: Tensor,
    strides: Numbers,
    padding: Padding,
    dilation: Numbers,
    out_dtype: DType | None,
    pre_computed: bool = False,
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
) -> Tensor:
    """Convolve NHWC data with a square HWIO filter by tiles of 4 by 4 results.

    ``pre_computed``: the filter is transformed, (alpha, alpha, outputs, inputs). Strides and
    dilation are 1. The last two parameters: see `given_weight`.
    """
    axes = ["eps", "nu", "co", "ci"] if pre_computed else ["eps", "nu", "ci", "co"]
    weight = given_weight(
        weight, axes, auto_scheduler_rewritten_layout, meta_schedule_original_shape
    )
    return _winograd("NHWC", data, weight, strides, padding, dilation, out_dtype, pre_computed)


def conv2d_winograd_nchw(
    data: Tensor,
    weight: Tensor,
    strides: Numbers,
    padding: Padding,
    dilation: Numbers,
    out_dtype: DType | None,
    pre_computed: bool = False,
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
) -> Tensor:
    """Convolve NCHW data with a square OIHW filter by tiles of 4 by 4 results.

    ``pre_computed``: the filter is transformed, (alpha, alpha, inputs, outputs). Strides and
    dilation are 1. The last two parameters: see `given_weight`.
    """
    axes = ["eps", "nu", "ci", "co"] if pre_computed else ["co", "ci", "eps", "nu"]
    weight = given_weight(
        weight, axes, auto_scheduler_rewritten_layout, meta_schedule_original_shape
    )
    return _winograd("NCHW", data, weight, strides, padding, dilation, out_dtype, pre_computed)


def conv2d_winograd_nhwc_without_weight_transform(
    data: Tensor,
    weight: Tensor,
    strides: Numbers,
    padding: Padding,
    dilation: Numbers,
    out_dtype: DType | None,
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
) -> Tensor:
    """Apply `conv2d_winograd_nhwc` to a filter that is transformed already."""
    return conv2d_winograd_nhwc(
        data, weight, strides, padding, dilation, out_dtype, True,
        auto_scheduler_rewritten_layout, meta_schedule_original_shape,
    )  # fmt: skip


def conv2d_winograd_nchw_without_weight_transform(
    data: Tensor,
    weight: Tensor,
    strides: Numbers,
    padding: Padding,
    dilation: Numbers,
    out_dtype: DType | None,
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
) -> Tensor:
    """Apply `conv2d_winograd_nchw` to a filter that is transformed already."""
    return conv2d_winograd_nchw(
        data, weight, strides, padding, dilation, out_dtype, True,
        auto_scheduler_rewritten_layout, meta_schedule_original_shape,
    )  # fmt: skip

"""Winograd's convolution of channels-last data by strips of tiles, with packed weights.

A tile is ``tile`` by ``tile`` results; it needs ``alpha`` by ``alpha`` data, alpha = tile + 2. In
the transformed space each of these alpha * alpha points is a matrix product of its own, whose rows
are the tiles of a strip. A strip has so many rows of tiles that its data stay in the cache.

Windows that move by strides are sums over the phases of the data: with a stride of 2, the even data
meet the first and the last tap, the odd ones the one between. Each phase is a convolution of fewer
taps without strides, so that 2 by 2 results with 3 by 3 taps take 25 products instead of 36.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy

from tilesmith import te
from tilesmith.ir import FloatImm, PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.support.errors import ShapeError
from tilesmith.te import Tensor
from tilesmith.tir import Select
from tilesmith.topi.compute import compute
from tilesmith.topi.nn.pad import pad
from tilesmith.topi.nn.winograd import winograd_matrices
from tilesmith.topi.utils import get_const_int

__all__ = ["conv2d_nhwc_winograd", "winograd_points", "winograd_width"]

_TAPS = 3
_PART = 64
"""The weights of about so many outputs and inputs are transformed at a time."""
Array = numpy.ndarray[Any, Any]


class Arithmetic(NamedTuple):
    """How the parts of a convolution by tiles compute."""

    padded: Callable[[list[int]], Tensor]
    """Makes NHWC data, padded by (top, left, bottom, right)."""
    point: Callable[[PrimExpr], PrimExpr]
    """Makes a factor of a product from combined data."""
    multiply: Callable[[PrimExpr, PrimExpr], PrimExpr]
    result: Callable[[PrimExpr], PrimExpr]
    """Makes a result from combined products."""


def winograd_points(weights: Array, tile: int, made: Array, stride: int = 1) -> Array:
    """Write OIHW weights of 3 by 3 taps into ``made`` (tiles of outputs, points, C, T), summed in
    float64, with zeros behind the last output; return it.
    """
    _, _, weight_matrix = tile_matrices(tile, stride)
    count, (outputs, inputs) = len(weight_matrix), weights.shape[:2]
    tiles, width = made.shape[0], made.shape[-1]
    points = made.reshape(tiles, count, count, inputs, width).transpose(1, 2, 3, 0, 4)
    for first, some, columns in _groups(outputs, width):
        points[..., first, columns:] = 0
        o = first * width
        for c in range(0, inputs, _PART):  # parts whose sums stay in the cache
            part = weights[o : o + some * columns, c : c + _PART].transpose(2, 3, 1, 0)
            taps = part.astype("float64", order="C").reshape(*part.shape[:3], some, columns)
            place = (slice(c, c + _PART), slice(first, first + some), slice(columns))
            for y, row in enumerate(weight_matrix):
                half = _weighted(row, taps)
                for x, column in enumerate(weight_matrix):
                    points[(y, x, *place)] = _weighted(column, half)
    return made


def _groups(outputs: int, width: int) -> list[tuple[int, int, int]]:
    """Return the tiles of outputs that are transformed together: the first one, how many they are,
    and the columns that each of them has.
    """
    full, rest = divmod(outputs, width)
    many = max(1, _PART // width)
    found = [(first, min(many, full - first), width) for first in range(0, full, many)]
    return [*found, (full, 1, rest)] if rest else found


def _weighted(factors: Array, parts: Array) -> Array:
    """Return the sum of parts times their factors, without the threads that numpy.dot may start
    for so little work, and wait for.
    """
    places = numpy.flatnonzero(factors)
    total: Array = parts[places[0]] * factors[places[0]]
    for place in places[1:]:
        total += parts[place] * factors[place]
    return total


def winograd_width(tile: int, stride: int) -> int:
    """Return how many data a tile of results needs along an axis, and how many points it has."""
    return (tile - 1) * stride + _TAPS


def tile_matrices(tile: int, stride: int) -> tuple[Array, Array, Array]:
    """Return `winograd_matrices` with whole numbers for the data: the weights take the fractions,
    as they are transformed ahead. The phases of a stride have points of their own.
    """
    alpha = winograd_width(tile, stride)
    shapes = (alpha, tile), (alpha, alpha), (alpha, _TAPS)
    results, data, weights = [numpy.zeros(shape) for shape in shapes]
    first = 0
    for phase in range(stride):
        taps = len(range(phase, _TAPS, stride))
        own_results, own_data, own_weights = winograd_matrices(tile, taps)
        last = [column[numpy.flatnonzero(column)[-1]] for column in own_data.T]
        points = slice(first, first + len(own_data))
        results[points] = own_results
        data[phase::stride, points] = own_data / last
        weights[points, phase::stride] = own_weights * numpy.array(last)[:, None]
        first = points.stop
    return results, data, weights


def _combination(factors: Array, terms: Sequence[PrimExpr]) -> PrimExpr:
    """Return the sum of terms with constant factors; those of 0 are left out."""
    total: PrimExpr | None = None
    order = sorted(range(len(factors)), key=lambda place: factors[place] < 0)
    for place in order:
        factor, term = float(factors[place]), terms[place]
        if not factor:
            continue
        size = abs(factor)
        part = term if size == 1 else term * _number(size, term)
        if total is None:
            total = part if factor > 0 else -part
        else:
            total = total + part if factor > 0 else total - part
    if total is None:
        return _number(0.0, terms[0])
    return total


def _number(value: float, like: PrimExpr) -> PrimExpr:
    return FloatImm(like.dtype, value) if like.dtype.is_float else const(int(value), like.dtype)


def _chosen(index: Any, values: Sequence[PrimExpr]) -> PrimExpr:
    """Return the value that an index names."""
    made = values[-1]
    for place in reversed(range(len(values) - 1)):
        made = Select(op.equal(index, place), values[place], made)
    return made


def _transformed(matrix: Array, at: Any, terms: Callable[[int], PrimExpr]) -> PrimExpr:
    """Return ``(matrix.T @ terms)[at]`` for terms that ``terms(i)`` makes."""
    made = [terms(i) for i in range(matrix.shape[0])]
    return _chosen(at, [_combination(column, made) for column in matrix.T])


# Each transform has two steps, along the columns of a tile and along its rows.


def _data_points(
    padded: Tensor,
    point: Callable[[PrimExpr], PrimExpr],
    shape: Sequence[Any],
    tile: int,
    columns: int,
    stride: int,
) -> Tensor:
    """Return padded NHWC data as points of tiles: ``shape`` (images, strips, the groups if there
    are several, alpha, alpha, tiles, the channels of a group).
    """
    _, inputs, _ = tile_matrices(tile, stride)
    rows, depth, step = shape[-2] // columns, shape[-1], tile * stride

    def element(outer: Sequence[Any], i: Any, j: int, t: Any, c: Any) -> PrimExpr:
        n, s, *group = outer
        y = (s * rows + op.floordiv(t, columns)) * step + i
        channel = group[0] * depth + c if group else c
        return padded(n, y, op.floormod(t, columns) * step + j, channel)

    def along_columns(*at: Any) -> PrimExpr:
        *outer, i, b, t, c = at
        return _transformed(inputs, b, lambda j: element(outer, i, j, t, c))

    def along_rows(*at: Any) -> PrimExpr:
        *outer, a, b, t, c = at
        return point(_transformed(inputs, a, lambda i: across(*outer, i, b, t, c)))

    across = compute(shape, along_columns, name="data_across")
    return compute(shape, along_rows, name="data_points")


def _results(
    products: Tensor,
    finished: Callable[[PrimExpr], PrimExpr],
    shape: Sequence[Any],
    tile: int,
    columns: int,
    stride: int,
) -> Tensor:
    """Return the NHWC results of a shape from the products at the points of tiles."""
    results, _, _ = tile_matrices(tile, stride)
    *outer, alpha, _, tiles, packed = products.shape
    rows = get_const_int(tiles) // columns
    groups = [get_const_int(one) for one in outer[2:]]

    def along_columns(*at: Any) -> PrimExpr:
        *outer, a, x, t, o = at
        return _transformed(results, x, lambda b: products(*outer, a, b, t, o))

    sums = compute((*outer, alpha, tile, tiles, packed), along_columns, name="product_sums")

    def result(n: Any, y: Any, x: Any, o: Any) -> PrimExpr:
        strip, inside = op.floordiv(y, tile * rows), op.floormod(op.floordiv(y, tile), rows)
        place = inside * columns + op.floordiv(x, tile)
        column = op.floormod(x, tile)
        chosen, own = [n, strip], o
        if groups:
            outputs = get_const_int(shape[3]) // groups[0]
            chosen, own = [*chosen, op.floordiv(o, outputs)], op.floormod(o, outputs)
        return finished(
            _transformed(
                results, op.floormod(y, tile), lambda a: sums(*chosen, a, column, place, own)
            )
        )

    return compute(shape, result, "conv2d_nhwc_winograd", "conv2d_nhwc_winograd")


def conv2d_nhwc_winograd(
    data: Tensor, weight: Tensor, channels: int, padding: Sequence[int], tile: int, rows: int,
    stride: int = 1,
) -> Tensor:  # fmt: skip
    """Convolve NHWC data with 3 by 3 taps, without dilation and with the same stride along both
    axes, by tiles of ``tile`` by ``tile`` results, in strips of ``rows`` rows of tiles.

    ``weight`` is (tiles of outputs, points, C, T) of `winograd_points`, ``channels`` the outputs,
    ``padding`` top, left, bottom, right. Several groups of channels have weights of their own,
    along a first axis; each has its share of the data's channels and of the outputs.
    """
    *groups, _, _, depth, _ = [get_const_int(one) for one in weight.shape]
    inputs = get_const_int(data.shape[-1])
    if inputs != depth * math.prod(groups) or channels % math.prod(groups):
        raise ShapeError(
            f"conv2d_nhwc_winograd: the weights take {depth * math.prod(groups)} channels in "
            f"{math.prod(groups)} groups, the data have {inputs}, the result {channels}"
        )

    def padded(around: list[int]) -> Tensor:
        top, left, bottom, right = around
        return pad(data, [0, top, left, 0], [0, bottom, right, 0], name="pad_temp")

    arithmetic = Arithmetic(padded, lambda x: x, lambda x, y: x * y, lambda x: x)
    return convolve_by_tiles(arithmetic, data, weight, channels, padding, tile, rows, stride)


def convolve_by_tiles(
    arithmetic: Arithmetic,
    data: Tensor,
    weight: Tensor,
    channels: int,
    padding: Sequence[int],
    tile: int,
    rows: int,
    stride: int,
) -> Tensor:
    """Return the convolution of `conv2d_nhwc_winograd` with some arithmetic."""
    top, left, bottom, right = [int(value) for value in padding]
    alpha = winograd_width(tile, stride)
    *groups, outputs, points_of_tile, depth, packed = [get_const_int(one) for one in weight.shape]
    if points_of_tile != alpha * alpha:
        raise ShapeError(
            f"conv2d_nhwc_winograd: tiles of {tile} by {tile} have {alpha * alpha} points, the "
            f"weights {points_of_tile}"
        )
    batch, *sizes, _ = data.shape
    tall = get_const_int(sizes[0]) + top + bottom
    wide = get_const_int(sizes[1]) + left + right
    height, width = [(size - _TAPS) // stride + 1 for size in (tall, wide)]
    columns = -(-width // tile)
    strips = -(-height // (tile * rows))
    needed = [(count * tile - 1) * stride + _TAPS for count in (strips * rows, columns)]
    below, behind = max(0, needed[0] - tall), max(0, needed[1] - wide)
    padded = arithmetic.padded([top, left, bottom + below, right + behind])
    shape = (batch, strips, *groups, alpha, alpha, rows * columns)
    points = _data_points(padded, arithmetic.point, (*shape, depth), tile, columns, stride)
    rc = te.reduce_axis((0, depth), name="rc")

    def product(*at: Any) -> Any:
        n, s, *group, a, b, t, o = at
        tile_of_weights = (*group, op.floordiv(o, packed), a * alpha + b)
        factor = weight(*tile_of_weights, rc, op.floormod(o, packed))
        return te.sum(arithmetic.multiply(points(n, s, *group, a, b, t, rc), factor), axis=[rc])

    products = compute((*shape, outputs * packed), product, name="products")
    shape = (batch, height, width, channels)
    return _results(products, arithmetic.result, shape, tile, columns, stride)

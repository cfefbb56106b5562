"""Fourier transforms and related operators; signals are (…, real and imaginary part)."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.relax import op
from tilesmith.relax.expr import Constant
from tilesmith.relax.frontend.onnx.node import OnnxNode, normal_axis
from tilesmith.relax.frontend.onnx.registry import converter
from tilesmith.relax.frontend.onnx.tensors import dtype_name
from tilesmith.relax.frontend.values import dtype_of, rank_of, scalar, shape_of, static_shape
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import ShapeError


def _parts(node: OnnxNode, x: Any) -> tuple[Any, Any]:
    """Return the real and the imaginary part of a signal whose last axis has one or both of
    them.
    """
    axis = rank_of(x) - 1
    real = node.emit(op.take(x, scalar(0, "int64"), axis))
    if shape_of(x)[axis] == 1:
        return real, None
    return real, node.emit(op.take(x, scalar(1, "int64"), axis))


def _waves(length: int, count: int, inverse: bool, dtype: Any) -> tuple[Any, Any]:
    """Return the real and imaginary parts of the transform's matrix (length, count)."""
    angle = 2 * numpy.pi * numpy.outer(numpy.arange(length), numpy.arange(count)) / max(count, 1)
    scale = 1 / count if inverse else 1.0
    sign = 1 if inverse else -1
    kind = DataType(dtype).numpy()
    return (
        Constant((numpy.cos(angle) * scale).astype(kind)),
        Constant((numpy.sin(angle) * sign * scale).astype(kind)),
    )


def _transform(node: OnnxNode, real: Any, imaginary: Any, waves: tuple[Any, Any]) -> Any:
    """Multiply the last axis by the matrix; stack the result's two parts along a new axis."""
    cosine, sine = waves
    first, second = op.matmul(real, cosine), op.matmul(real, sine)
    if imaginary is not None:
        first = op.subtract(first, op.matmul(imaginary, sine))
        second = op.add(second, op.matmul(imaginary, cosine))
    return node.emit(op.stack([node.emit(first), node.emit(second)], rank_of(real)))


@converter("DFT")
def _dft(node: OnnxNode) -> Any:
    x = node[0]
    rank = rank_of(x)
    if node.version < 20:
        axis = node.attribute("axis", 1)
    else:
        axis = node.number(2, "axis", -2)
    axis = normal_axis(int(axis), rank)
    length = shape_of(x)[axis]
    if not isinstance(length, int):
        raise node.unsupported("a transform along an axis of symbolic size")
    count = node.count(1, "dft_length", length)
    inverse, onesided = node.flag("inverse"), node.flag("onesided")
    real, imaginary = _parts(node, x)
    if onesided and inverse:
        return _inverse_of_half(node, real, imaginary, axis, length, count)
    order = [i for i in range(rank - 1) if i != axis] + [axis]
    parts = [
        None if part is None else node.emit(op.permute_dims(part, order))
        for part in (real, imaginary)
    ]
    used = min(length, count)
    if used < length:
        parts = [
            None if part is None else node.emit(op.strided_slice(part, [rank - 2], [0], [used]))
            for part in parts
        ]
    cosine, sine = _waves(used, count, inverse, dtype_of(x))
    if onesided:
        half = count // 2 + 1
        cosine, sine = [op.strided_slice(part, [1], [0], [half]) for part in (cosine, sine)]
        cosine, sine = node.emit(cosine), node.emit(sine)
    found = _transform(node, parts[0], parts[1], (cosine, sine))
    back = [order.index(i) for i in range(rank - 1)] + [rank - 1]
    return op.permute_dims(found, back)


def _inverse_of_half(
    node: OnnxNode, real: Any, imaginary: Any, axis: int, length: int, count: int
) -> Any:
    """Return the real signal of a spectrum given by its first half; the rest is its mirror
    image.
    """
    if node.version < 20 or not node.has(1):
        count = 2 * (length - 1)
    rank = rank_of(real)
    order = [i for i in range(rank) if i != axis] + [axis]
    used = min(length, count // 2 + 1)
    angle = 2 * numpy.pi * numpy.outer(numpy.arange(used), numpy.arange(count)) / count
    twice = numpy.full((used, 1), 2.0)
    twice[0] = 1
    if count % 2 == 0 and used == count // 2 + 1:
        twice[-1] = 1
    kind = DataType(dtype_of(real)).numpy()
    parts = []
    for part, wave in ((real, numpy.cos(angle)), (imaginary, -numpy.sin(angle))):
        if part is None:
            continue
        moved = op.strided_slice(op.permute_dims(part, order), [rank - 1], [0], [used])
        parts.append(op.matmul(moved, Constant((twice * wave / count).astype(kind))))
    total = parts[0] if len(parts) == 1 else op.add(parts[0], parts[1])
    back = [order.index(i) for i in range(rank)]
    return op.expand_dims(op.permute_dims(node.emit(total), back), rank)


@converter("STFT")
def _stft(node: OnnxNode) -> Any:
    x = node[0]
    batch, length, _ = static_shape(x, "STFT", 3)
    step = node.count(1, "frame_step")
    window = node.get(2)
    size = node.count(3, "frame_length", None if window is None else shape_of(window, 1)[0])
    onesided = node.flag("onesided", True)
    if size > length:
        raise ShapeError(f"its frames of {size} are longer than the signal of {length}")
    frames = (length - size) // step + 1
    places = numpy.arange(frames)[:, None] * step + numpy.arange(size)[None]
    dtype = dtype_of(x)
    cosine, sine = _waves(size, size, False, dtype)
    if onesided:
        half = size // 2 + 1
        cosine, sine = [
            node.emit(op.strided_slice(part, [1], [0], [half])) for part in (cosine, sine)
        ]
    parts = []
    for part in _parts(node, x):
        if part is not None:
            part = op.take(part, Constant(places), 1)
            part = node.emit(part if window is None else op.multiply(part, window))
        parts.append(part)
    return _transform(node, parts[0], parts[1], (cosine, sine))


@converter("MelWeightMatrix")
def _mel_weight_matrix(node: OnnxNode) -> Any:
    """Compute triangles at equal distances on the mel scale at import."""
    names = ("num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz")
    bins, length, rate = [node.count(i, name) for i, name in enumerate(names[:3])]
    low, high = [node.number(i, name) for i, name in enumerate(names[3:], 3)]
    to = int(node.attribute("output_datatype", 1))
    edges = 2595 * numpy.log10(1 + numpy.array([low, high]) / 700)
    mel = edges[0] + numpy.arange(bins + 2) * ((edges[1] - edges[0]) / (bins + 2))
    hertz = 700 * (10 ** (mel / 2595) - 1)
    places = ((length + 1) * hertz // rate).astype(int)
    matrix = numpy.zeros((length // 2 + 1, bins))
    for column in range(bins):
        left, centre, right = places[column : column + 3]
        if centre == left:
            matrix[centre, column] = 1
        else:
            rising = numpy.arange(left, centre + 1)
            matrix[rising, column] = (rising - left) / (centre - left)
        falling = numpy.arange(centre, right)
        if right > centre:
            matrix[falling, column] = (right - falling) / (right - centre)
    return Constant(matrix.astype(DataType(dtype_name(to, "the result")).numpy()))

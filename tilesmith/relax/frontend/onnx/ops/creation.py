"""Tensors without tensor inputs: constants, ranges, random numbers."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.relax import op
from tilesmith.relax.expr import Constant, PrimValue, ShapeExpr
from tilesmith.relax.frontend.onnx.node import OnnxNode
from tilesmith.relax.frontend.onnx.registry import converter
from tilesmith.relax.frontend.onnx.tensors import dtype_name
from tilesmith.relax.frontend.onnx.values import (
    Sizes,
    dtype_of,
    is_static,
    product,
    scalar,
    static_shape,
)
from tilesmith.support.errors import (
    FrontendError,
    OpAttributeInvalid,
    OpAttributeRequired,
    ShapeError,
)

_LARGE = 1 << 16


@converter("Constant")
def _constant(node: OnnxNode) -> Any:
    given = [name for name in node.attributes if name.startswith(("value", "sparse_value"))]
    if len(given) > 1:
        raise OpAttributeInvalid(f"it has several values: {', '.join(given)}")
    for name, dtype in (
        ("value", None), ("sparse_value", None), ("value_float", "float32"),
        ("value_floats", "float32"), ("value_int", "int64"), ("value_ints", "int64"),
    ):  # fmt: skip
        value = node.attribute(name)
        if value is not None:
            return Constant(numpy.asarray(value) if dtype is None else numpy.asarray(value, dtype))
    if "value_string" in node.attributes or "value_strings" in node.attributes:
        raise node.unsupported("a constant of texts")
    raise OpAttributeRequired("it needs the attribute 'value'")


@converter("ConstantOfShape")
def _constant_of_shape(node: OnnxNode) -> Any:
    stored = node.attribute("value", numpy.zeros(1, "float32"))
    if stored.size != 1:
        raise OpAttributeInvalid(f"its attribute 'value' has the shape {stored.shape}, not (1,)")
    value = stored.reshape(())
    shape = node.integers(0, "shape")
    if any(isinstance(size, int) and size < 0 for size in shape):
        raise ShapeError(f"its input 'shape' is {shape}, which has a negative size")
    if is_static(shape) and product(shape) <= _LARGE:
        return Constant(numpy.full([int(size) for size in shape], value, value.dtype))
    return op.full(ShapeExpr(shape), Constant(value), str(value.dtype))


@converter("Range")
def _range(node: OnnxNode) -> Any:
    arrays = [node.known(index) for index in range(3)]
    if any(array is None for array in arrays):
        return _range_at_run_time(node)
    if all(array.dtype != object for array in arrays):
        dtype = arrays[0].dtype
        start, limit, delta = [
            numpy.asarray(node.number(index, name))
            for index, name in enumerate(("start", "limit", "delta"))
        ]
        if delta == 0:
            raise FrontendError("its input 'delta' is 0")
        count = max(int(numpy.ceil((limit - start) / delta)), 0)
        return Constant((start + numpy.arange(count) * delta).astype(dtype))
    dtype = next(value.dtype for value in node.inputs if isinstance(value, Sizes))
    bounds = [array.reshape(()).item() for array in arrays]
    return op.arange(*[PrimValue(value) for value in bounds], dtype)


def _range_at_run_time(node: OnnxNode) -> Any:
    """Compute the number of elements first and bind it to a size."""
    start, limit, delta = [op.reshape(node[index], [1]) for index in range(3)]
    dtype = dtype_of(node[0])
    wide = [op.astype(value, "float64") for value in (start, limit, delta)]
    count = op.ceil(op.divide(op.subtract(wide[1], wide[0]), wide[2]))
    count = op.astype(op.maximum(count, Constant(numpy.zeros(1))), "int64")
    (size,) = node.run_time_sizes(node.emit(count), "count")
    steps = op.astype(op.arange(PrimValue(0), PrimValue(size), PrimValue(1), "int64"), dtype)
    return op.add(start, op.multiply(steps, delta))


_RANDOM = ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")


@converter(*_RANDOM)
def _random(node: OnnxNode) -> Any:
    """Draw numbers at import by the node's seed: a compiled model always gives the same ones."""
    is_like = node.operator.endswith("Like")
    shape = static_shape(node[0], node.operator) if is_like else node.required("shape")
    to = node.attribute("dtype")
    dtype = dtype_name(int(to), "the result") if to is not None else "float32"
    if is_like and to is None:
        dtype = dtype_of(node[0])
    seed = node.attribute("seed")
    if seed is None:
        raise node.unsupported(
            "drawing at random without a seed", "give the node the attribute 'seed'"
        )
    generator = numpy.random.default_rng(int(numpy.float32(seed).view("uint32")))
    if "Normal" in node.operator:
        numbers = generator.normal(node.attribute("mean", 0.0), node.attribute("scale", 1.0), shape)
    else:
        numbers = generator.uniform(node.attribute("low", 0.0), node.attribute("high", 1.0), shape)
    from tilesmith.runtime.dtype import DataType

    return Constant(numbers.astype(DataType(dtype).numpy()))


@converter("Multinomial")
def _multinomial(node: OnnxNode) -> Any:
    """Draw classes by their unnormalised logarithms, with numbers drawn at import by the seed."""
    seed = node.attribute("seed")
    if seed is None:
        raise node.unsupported(
            "drawing at random without a seed", "give the node the attribute 'seed'"
        )
    x, count = node[0], int(node.attribute("sample_size", 1))
    batch, classes = static_shape(x, "Multinomial", 2)
    generator = numpy.random.default_rng(int(numpy.float32(seed).view("uint32")))
    draws = Constant(generator.random((batch, count, 1)).astype("float32"))
    shares = node.emit(op.nn.softmax(op.astype(x, "float32"), -1))
    below = op.expand_dims(node.emit(op.cumsum(shares, 1)), 1)
    place = op.sum(op.astype(op.less_equal(below, draws), "int32"), [2])
    place = op.minimum(node.emit(place), scalar(classes - 1, "int32"))
    to = int(node.attribute("dtype", 6))
    return place if to == 6 else op.astype(place, dtype_name(to, "the result"))

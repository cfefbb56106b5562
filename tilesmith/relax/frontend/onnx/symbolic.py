"""Computes with sizes at import: evaluates nodes whose inputs are known up to symbolic sizes.

    Shape -> Gather -> Mul -> Concat -> Reshape

A value is a numpy array of objects: Python integers and scalar expressions. Moving elements is
numpy's work; arithmetic is done element by element.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.ir import IntImm, PrimExpr
from tilesmith.ir import Var as SymbolicVar
from tilesmith.ir import operators as arithmetic
from tilesmith.ir.expr import Select
from tilesmith.relax.expr import Constant
from tilesmith.relax.frontend.onnx.node import normal_axis
from tilesmith.relax.frontend.values import Sizes, integer
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import ShapeError, TilesmithError

__all__ = ["as_value", "evaluate"]

_INTEGERS = ("int64", "int32")


def evaluate(node: Any) -> Any:
    """Return the output of a node if it is a computation with sizes, else None."""
    function = _TABLE.get(node.operator) if not node.domain else None
    if function is None or not any(isinstance(value, Sizes) for value in node.inputs):
        return None
    arrays = [node.known(index) if node.has(index) else None for index in range(len(node))]
    if any(array is None and node.has(index) for index, array in enumerate(arrays)):
        return None
    try:
        return function(node, *arrays)
    except (ArithmeticError, IndexError, ValueError) as error:
        if isinstance(error, TilesmithError):
            raise
        # numpy moves and counts the elements: it says what does not fit
        raise ShapeError(f"its sizes cannot be computed: {error}") from None


def as_value(values: Any, dtype: Any = "int64") -> Any:
    """Return an array of integers and scalar expressions as a value: a Constant if all are
    integers.
    """
    objects = numpy.empty(numpy.shape(values), object)
    objects[...] = values
    flat = [_simple(value) for value in objects.ravel()]
    if not any(isinstance(value, PrimExpr) for value in flat):
        return Constant(numpy.asarray(flat).astype(DataType(dtype).numpy()).reshape(objects.shape))
    found = numpy.empty(len(flat), object)
    found[:] = flat
    return Sizes(found.reshape(objects.shape), dtype)


def _simple(value: Any) -> Any:
    if isinstance(value, PrimExpr) and value.dtype.is_bool:
        return bool(value.value) if isinstance(value, IntImm) else value
    if isinstance(value, (bool, numpy.bool_)):
        return bool(value)
    return integer(value)


def _dtype(node: Any) -> Any:
    """Return the dtype of the sizes among the inputs."""
    return next(value.dtype for value in node.inputs if isinstance(value, Sizes))


# Element by element


def _is_negative(value: Any) -> bool:
    return isinstance(value, (int, numpy.integer)) and value < 0


def _equal(a: Any, b: Any) -> Any:
    # A size is never negative; exporters compare with -1.
    if (isinstance(a, SymbolicVar) and _is_negative(b)) or (
        isinstance(b, SymbolicVar) and _is_negative(a)
    ):
        return False
    return arithmetic.equal(_operand(a), _operand(b))


def _divide(a: Any, b: Any) -> Any:
    """Divide as ONNX does, toward zero; for sizes, which are not negative, this is floor
    division.
    """
    if isinstance(a, int) and isinstance(b, int):
        return int(numpy.trunc(a / b))
    return arithmetic.floordiv(_operand(a), _operand(b))


def _operand(value: Any) -> Any:
    return value if isinstance(value, PrimExpr) else arithmetic.const(int(value), "int64")


def _select(condition: Any, a: Any, b: Any) -> Any:
    if isinstance(condition, (bool, numpy.bool_)):
        return a if condition else b
    return Select(condition, _operand(a), _operand(b))


def _choose(condition: Any, a: Any, b: Any) -> Any:
    condition = _simple(condition)
    return _select(condition, a, b)


def _binary(function: Callable[[Any, Any], Any], dtype: str | None = None) -> Callable[..., Any]:
    ufunc = numpy.frompyfunc(lambda a, b: _simple(function(_plain(a), _plain(b))), 2, 1)

    def convert(node: Any, a: Any, b: Any) -> Any:
        if node.inputs[0] is None or not _are_integers(a, b):
            return None
        return as_value(ufunc(a, b), dtype or _dtype(node))

    return convert


def _are_integers(*arrays: Any) -> bool:
    return all(array.dtype == object or array.dtype.kind in "iub" for array in arrays)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, numpy.generic) else value


def _with(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return ``function`` on converted operands: Python arithmetic for two integers, else scalar
    expressions.
    """
    return lambda a, b: function(_operand(a), _operand(b))


def _variadic(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    ufunc = numpy.frompyfunc(
        lambda a, b: _simple(function(_operand(_plain(a)), _operand(_plain(b)))), 2, 1
    )

    def convert(node: Any, *arrays: Any) -> Any:
        total = arrays[0]
        for array in arrays[1:]:
            total = ufunc(total, array)
        return as_value(total, _dtype(node))

    return convert


def _where(node: Any, condition: Any, a: Any, b: Any) -> Any:
    if not _are_integers(a, b):
        return None
    dtype = next(
        value.dtype if isinstance(value, Sizes) else str(node.known(index).dtype)
        for index, value in enumerate(node.inputs)
        if index > 0
    )
    return as_value(numpy.frompyfunc(_choose, 3, 1)(condition, a, b), dtype)


def _cast(node: Any, values: Any) -> Any:
    from tilesmith.relax.frontend.onnx.tensors import dtype_name

    dtype = dtype_name(node.required("to"), "the result")
    return as_value(values, dtype) if dtype in _INTEGERS and _dtype(node) in _INTEGERS else None


def _not(node: Any, values: Any) -> Any:
    def negate(value: Any) -> Any:
        value = _simple(value)
        return not value if isinstance(value, bool) else arithmetic.logical_not(value)

    return as_value(numpy.frompyfunc(negate, 1, 1)(values), "bool")


# Moving elements


def _axes(node: Any, index: int, given: Any, rank: int) -> Any:
    axes = node.attribute("axes")
    if axes is None and given is not None:
        axes = [int(axis) for axis in given.ravel()]
    return None if axes is None else tuple([normal_axis(axis, rank) for axis in axes])


def _squeeze(node: Any, values: Any, axes: Any = None) -> Any:
    return as_value(numpy.squeeze(values, _axes(node, 1, axes, values.ndim)), _dtype(node))


def _unsqueeze(node: Any, values: Any, axes: Any = None) -> Any:
    count = len(node.attribute("axes") or axes.ravel())
    return as_value(
        numpy.expand_dims(values, _axes(node, 1, axes, values.ndim + count)), _dtype(node)
    )


def _gather(node: Any, values: Any, indices: Any) -> Any:
    if indices.dtype == object:
        return None
    return as_value(numpy.take(values, indices, node.attribute("axis", 0)), _dtype(node))


def _concat(node: Any, *arrays: Any) -> Any:
    parts = [array.astype(object) for array in arrays]
    return as_value(numpy.concatenate(parts, node.required("axis")), _dtype(node))


def _slice(node: Any, values: Any, *bounds: Any) -> Any:
    if node.version < 10:
        starts, ends = node.required("starts"), node.required("ends")
        axes, steps = node.attribute("axes"), None
    else:
        if any(item is not None and item.dtype == object for item in bounds):
            return None
        starts, ends, axes, steps = [
            None if item is None else [int(value) for value in item.ravel()]
            for item in (*bounds, None, None)[:4]
        ]
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    parts: list[Any] = [slice(None)] * values.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps):
        end = None if step < 0 and end < -values.shape[axis] else end
        parts[axis] = slice(start, end, step)
    return as_value(values[tuple(parts)], _dtype(node))


def _reshape(node: Any, values: Any, shape: Any = None) -> Any:
    if shape is not None and shape.dtype == object:
        return None
    sizes = node.attribute("shape") if shape is None else [int(size) for size in shape.ravel()]
    return as_value(values.reshape(sizes), _dtype(node))


def _transpose(node: Any, values: Any) -> Any:
    return as_value(values.transpose(node.attribute("perm")), _dtype(node))


def _expand(node: Any, values: Any, shape: Any) -> Any:
    if shape.dtype == object:
        return None
    sizes = numpy.broadcast_shapes(values.shape, tuple([int(size) for size in shape]))
    return as_value(numpy.broadcast_to(values, sizes), _dtype(node))


def _reduce(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def convert(node: Any, values: Any, axes: Any = None) -> Any:
        if values.ndim != 1:
            return None
        total = _operand(values[0])
        for value in values[1:]:
            total = function(total, _operand(value))
        found = as_value(numpy.array(_simple(total), object), _dtype(node))
        if not node.flag("keepdims", True):
            return found
        array = numpy.empty(1, object)
        array[0] = _simple(total)
        return as_value(array, _dtype(node))

    return convert


_TABLE: dict[str, Callable[..., Any]] = {
    "Abs": lambda node, values: as_value(values, _dtype(node)),
    "Add": _binary(_with(arithmetic.add)),
    "And": _binary(
        lambda a, b: a and b if isinstance(a, bool) else arithmetic.logical_and(a, b), "bool"
    ),
    "Cast": _cast,
    "Concat": _concat,
    "Div": _binary(_divide),
    "Equal": _binary(_equal, "bool"),
    "Expand": _expand,
    "Gather": _gather,
    "Greater": _binary(_with(arithmetic.greater), "bool"),
    "Identity": lambda node, values: as_value(values, _dtype(node)),
    "Less": _binary(_with(arithmetic.less), "bool"),
    "Max": _variadic(arithmetic.maximum),
    "Min": _variadic(arithmetic.minimum),
    "Mod": _binary(_with(arithmetic.floormod)),
    "Mul": _binary(_with(arithmetic.multiply)),
    "Not": _not,
    "ReduceMax": _reduce(arithmetic.maximum),
    "ReduceMin": _reduce(arithmetic.minimum),
    "ReduceProd": _reduce(arithmetic.multiply),
    "ReduceSum": _reduce(arithmetic.add),
    "Reshape": _reshape,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Sub": _binary(_with(arithmetic.subtract)),
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Where": _where,
}

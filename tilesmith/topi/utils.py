"""Helpers that the computes share: shapes, constants, index arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeAlias

from tilesmith import tir
from tilesmith.arith import Analyzer, ConstIntBound
from tilesmith.ir import FloatImm, IntImm, PrimExpr, const, convert
from tilesmith.ir import operators as op
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import OpAttributeInvalid, ShapeError, TypeMismatchError
from tilesmith.te import Operation, Tensor
from tilesmith.tir.analysis import undefined_vars
from tilesmith.topi import tag

if TYPE_CHECKING:
    from tilesmith.te import Schedule

__all__ = [
    "Axes", "DType", "Number", "Shape", "arange_size", "checked_index", "equal_const_int",
    "get_const_int", "get_const_tuple", "highest", "index_from_end", "is_tensor", "largest",
    "lowest", "nonempty", "normalize_axes", "product", "ravel_index", "same_size", "simplify",
    "slice_bounds", "smallest", "traverse_inline", "unravel_index",
]  # fmt: skip

Axes: TypeAlias = int | Sequence[int] | None
"""One axis, several, or all of them (None); negative axes count from the last one."""
DType: TypeAlias = str | DataType
Number: TypeAlias = int | float | PrimExpr
Shape: TypeAlias = Sequence[int | PrimExpr]


def simplify(expr: Any) -> Any:
    """Return a simpler form of an expression; Python numbers stay."""
    return Analyzer().simplify(expr) if isinstance(expr, PrimExpr) else expr


def get_const_int(expr: Any) -> int:
    """Return the value of a constant expression."""
    if isinstance(expr, (int, IntImm)):
        return int(expr)
    simple = simplify(expr)
    if isinstance(simple, IntImm):
        return simple.value
    raise ShapeError(f"a constant integer is needed, got {expr}")


def get_const_tuple(in_tuple: Any) -> tuple:
    """Return sizes as ints where they are constant, else as expressions."""
    simple = [simplify(value) for value in in_tuple]
    return tuple([int(value) if isinstance(value, (int, IntImm)) else value for value in simple])


def equal_const_int(expr: Any, value: int) -> bool:
    """Return whether an expression is the given constant."""
    simple = simplify(expr)
    return isinstance(simple, (int, IntImm)) and int(simple) == value


def same_size(a: Any, b: Any) -> bool:
    """Return whether two sizes are provably equal."""
    if a is b:
        return True
    return Analyzer().can_prove_equal(convert(a), convert(b))


def product(sizes: Any) -> PrimExpr:
    """Return the product of sizes."""
    result: PrimExpr | None = None
    for size in sizes:
        size = convert(size)
        result = size if result is None else result * size
    return const(1, "int32") if result is None else result


def normalize_axes(axis: Any, ndim: int, what: str = "axis") -> list[int]:
    """Return axes as a sorted list of numbers from 0; None means all of them."""
    if axis is None:
        return list(range(ndim))
    axes = [axis] if isinstance(axis, (int, IntImm)) else list(axis)
    normal = []
    for one in axes:
        if not isinstance(one, (Integral, IntImm)):
            raise TypeMismatchError(f"{what} is a number from {-ndim} to {ndim - 1}, got {one!r}")
        number = int(one)
        if not -ndim <= number < ndim:
            raise ShapeError(f"{what} {number} is not within {ndim} dimensions")
        normal.append(number % ndim)
    if len(set(normal)) != len(normal):
        raise ShapeError(f"{what} {axes} names a dimension twice")
    return sorted(normal)


def ravel_index(indices: Any, shape: Any) -> PrimExpr:
    """Return the flat, row-major position of indices in a shape."""
    flat: PrimExpr | None = None
    for index, size in zip(indices, shape):
        flat = convert(index) if flat is None else flat * size + index
    return const(0, "int32") if flat is None else flat


def unravel_index(idx: PrimExpr, shape: Any) -> list[PrimExpr]:
    """Return the indices in a shape of a flat, row-major position."""
    flat = idx
    indices: list[PrimExpr] = []
    for number, size in enumerate(reversed(list(shape))):
        last = number == len(shape) - 1
        indices.append(flat if last else op.floormod(flat, size))
        flat = op.floordiv(flat, size)
    return indices[::-1]


def is_tensor(value: object) -> bool:
    """Return whether a value is a tensor rather than a number."""
    return isinstance(value, Tensor)


def arange_size(start: PrimExpr, stop: PrimExpr, step: PrimExpr) -> PrimExpr:
    """Return how many values ``start, start + step, ...`` lie before ``stop``: exactly for
    constants.
    """
    integers = start.dtype.is_integer and stop.dtype.is_integer and step.dtype.is_integer
    constants = [item.value for item in (start, stop, step) if isinstance(item, (IntImm, FloatImm))]
    dtype = op.match_types(op.match_types(start, stop)[0], step)[0].dtype if integers else "int64"
    if len(constants) == 3:
        first, last, by = constants
        if by == 0:
            raise OpAttributeInvalid("the step of arange is 0", notes=("it never gets to the end",))
        return const(max(0, math.ceil((last - first) / by)), dtype)
    if not integers:
        span = (op.cast("float32", stop) - op.cast("float32", start)) / op.cast("float32", step)
        return simplify(op.maximum(op.cast(dtype, tir.ceil(span)), const(0, dtype)))
    start, stop, step = (op.cast(dtype, item) for item in (start, stop, step))
    if isinstance(step, IntImm) and step.value < 0:
        count = op.floordiv(start - stop - step - 1, const(-step.value, dtype))
    else:
        count = op.floordiv(stop - start + step - 1, step)
    return simplify(op.maximum(count, const(0, dtype)))


_FAR = 2**31 - 1
"""An end from here on means "up to the last element", whatever the size."""


def slice_bounds(
    size: PrimExpr,
    begin: int | PrimExpr | None,
    end: int | PrimExpr | None,
    stride: int = 1,
    assume_inbound: bool = False,
) -> tuple[PrimExpr, PrimExpr]:
    """Return the first index and the number of elements of a slice by Python's rule.

    Constant negative indices count from the end; symbolic ones are taken as not negative.
    ``assume_inbound``: begin and end are known to lie within the size, so that nothing is clamped.
    """
    if stride == 0:
        raise ShapeError("a slice has stride 0")
    zero, one = const(0, size.dtype), const(1, size.dtype)
    analyzer = Analyzer()
    for item in (size, begin, end):
        if isinstance(item, PrimExpr) and not isinstance(item, IntImm):
            for variable in undefined_vars(item):
                analyzer.update(variable, ConstIntBound(0, ConstIntBound.POS_INF))
    simplify = analyzer.simplify

    def clamped(value: int | PrimExpr, low: PrimExpr, high: PrimExpr) -> PrimExpr:
        expr = simplify(op.cast(size.dtype, convert(value)))
        if assume_inbound:
            return expr
        if isinstance(expr, IntImm) and expr.value >= _FAR:
            return high
        if isinstance(expr, IntImm) and expr.value < 0:
            expr = low if expr.value <= -_FAR else expr + size
        return simplify(op.minimum(op.maximum(expr, low), high))

    if stride > 0:
        first = zero if begin is None else clamped(begin, zero, size)
        last = size if end is None else clamped(end, zero, size)
        count = op.floordiv(last - first + (stride - 1), const(stride, size.dtype))
    else:
        # An end below minus the size stands before the first element.
        first = size - one if begin is None else clamped(begin, -one, size - one)
        last = -one if end is None else clamped(end, -one, size - one)
        count = op.floordiv(first - last + (-stride - 1), const(-stride, size.dtype))
    count = simplify(count)
    return first, count if assume_inbound else simplify(op.maximum(count, zero))


def lowest(dtype: DType) -> PrimExpr:
    """Return what is not greater than any value of a dtype: minus infinity where there is one."""
    dtype = DataType(dtype)
    made: PrimExpr = (
        const(float("-inf"), dtype) if dtype.is_float and dtype.bits >= 16 else tir.min_value(dtype)
    )
    return made


def highest(dtype: DType) -> PrimExpr:
    """Return what is not less than any value of a dtype: infinity where there is one."""
    dtype = DataType(dtype)
    made: PrimExpr = (
        const(float("inf"), dtype) if dtype.is_float and dtype.bits >= 16 else tir.max_value(dtype)
    )
    return made


largest = tir.comm_reducer(lambda x, y: tir.Max(x, y), lowest, name="max")
smallest = tir.comm_reducer(lambda x, y: tir.Min(x, y), highest, name="min")


def checked_index(index: PrimExpr, size: PrimExpr, operator: str, given: PrimExpr) -> PrimExpr:
    """Return an index into an axis of ``size``; one outside is an error when the program runs.

    ``given`` is the index as the user wrote it, before negative ones were moved to the end.
    """
    size = op.cast(index.dtype, size)
    inside = op.logical_and(op.greater_equal(index, 0), op.less(index, size))
    text = f"OutOfBoundsError: {operator}: the index "
    place = " is outside of an axis of size "
    numbers = op.cast("int64", given), op.cast("int64", size)
    made: PrimExpr = tir.checked(index, inside, text, numbers[0], place, numbers[1])
    return made


def nonempty(index: PrimExpr, size: PrimExpr, operator: str) -> PrimExpr:
    """Return an index that has been moved into an axis; an axis without elements, into which
    nothing can be moved, is an error when the program runs.
    """
    text = f"OutOfBoundsError: {operator}: there is nothing to read, an axis has size 0"
    made: PrimExpr = tir.checked(index, op.greater(size, const(0, size.dtype)), text)
    return made


def index_from_end(given: PrimExpr, size: PrimExpr, operator: str) -> PrimExpr:
    """Return an index of data in which negative numbers count from the end of an axis.

    It is compared in 64 bits, before it is narrowed; one outside of the axis is an error.
    """
    if given.dtype.is_uint:
        index = given if given.dtype.bits == 64 else op.cast("int64", given)
        return op.cast(size.dtype, checked_index(index, size, operator, given))
    wide = op.cast("int64", given)
    index = tir.Select(op.less(wide, 0), wide + op.cast("int64", size), wide)
    return op.cast(size.dtype, checked_index(index, size, operator, given))


def traverse_inline(s: Schedule, final_op: Operation, callback: Callable[[Operation], Any]) -> None:
    """Inline the injective stages below an operation, and call a function with each operation,
    those that it reads before it. Inputs and outputs of the program are not inlined.
    """
    visited: set[Operation] = set()
    waiting = [(final_op, False)]
    while waiting:
        op, is_done = waiting.pop()
        if is_done:
            callback(op)
            continue
        if op in visited:
            continue
        visited.add(op)
        if tag.is_injective(op.tag):
            if not s[op].is_output:
                s[op].compute_inline()
            waiting.append((op, True))
            inner = [tensor.op for tensor in op.input_tensors if tensor.op.input_tensors]
            waiting += [(one, False) for one in reversed(inner)]
        else:
            callback(op)

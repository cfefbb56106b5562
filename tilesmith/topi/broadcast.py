"""Elementwise operations of two operands, with numpy's broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import Any

from tilesmith import tir
from tilesmith.ir import IntImm, PrimExpr, const, convert
from tilesmith.ir import operators as op
from tilesmith.ir.expr import as_prim_expr
from tilesmith.support.errors import ShapeError, TypeMismatchError
from tilesmith.te import Tensor
from tilesmith.topi import tag
from tilesmith.topi.compute import compute
from tilesmith.topi.utils import same_size

__all__ = [
    "add", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "broadcast_shape",
    "broadcast_to",
    "divide", "equal", "floor_divide", "floor_mod", "greater", "greater_equal", "left_shift",
    "less",
    "less_equal", "logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum",
    "mod",
    "multiply", "not_equal", "power", "right_shift", "subtract", "where",
]  # fmt: skip


def broadcast_shape(*shapes: Any) -> list[PrimExpr]:
    """Return the common shape of operands: sizes from the right must be equal or 1."""
    ndim = max(len(shape) for shape in shapes)
    result: list[Any] = []
    for axis in range(-ndim, 0):
        chosen: Any = None
        for shape in shapes:
            if len(shape) < -axis:
                continue
            size = convert(shape[axis])
            if chosen is None or op.is_const(chosen, 1):
                chosen = size
            elif not op.is_const(size, 1) and not same_size(size, chosen):
                if isinstance(size, IntImm) and isinstance(chosen, IntImm):
                    texts = " and ".join(f"({', '.join(map(str, shape))})" for shape in shapes)
                    raise ShapeError(
                        f"shapes {texts} do not broadcast: {chosen} and {size} differ at axis"
                        f" {axis}"
                    )
                chosen = chosen if isinstance(chosen, IntImm) else size
        result.append(chosen)
    return result


def _element(tensor: Tensor, indices: tuple, shape: Any) -> PrimExpr:
    """Return the element of an operand for an index of the result."""
    own = indices[len(indices) - len(tensor.shape) :]
    target = shape[len(shape) - len(tensor.shape) :]
    picked = []
    for index, size, wanted in zip(own, tensor.shape, target):
        stretched = op.is_const(size, 1) and not op.is_const(wanted, 1)
        picked.append(const(0, size.dtype) if stretched else index)
    return tensor(*picked)


def _operand(value: Any) -> PrimExpr:
    """Convert a number beside a tensor: it keeps its own dtype, as in scalar expressions."""
    if not isinstance(value, (PrimExpr, Number)) and not hasattr(value, "dtype"):  # or numpy's
        raise TypeMismatchError(f"an operand is a tensor, an expression or a number, got {value!r}")
    return as_prim_expr(value)


def _binary(name: str, function: Callable[[Any, Any], PrimExpr], a: Any, b: Any) -> Any:
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        return function(convert(a), convert(b))
    if not isinstance(a, Tensor):
        number = _operand(a)
        shape = list(b.shape)
        return compute(
            shape, lambda *i: function(number, b(*i)), name="T_" + name, tag=tag.ELEMWISE
        )
    if not isinstance(b, Tensor):
        number = _operand(b)
        shape = list(a.shape)
        return compute(
            shape, lambda *i: function(a(*i), number), name="T_" + name, tag=tag.ELEMWISE
        )
    shape = broadcast_shape(a.shape, b.shape)
    return compute(
        shape,
        lambda *i: function(_element(a, i, shape), _element(b, i, shape)),
        name="T_" + name,
        tag=tag.BROADCAST,
    )


def add(lhs: Any, rhs: Any) -> Any:
    """Return ``lhs + rhs``."""
    return _binary("add", op.add, lhs, rhs)


def subtract(lhs: Any, rhs: Any) -> Any:
    """Return ``lhs - rhs``."""
    return _binary("subtract", op.subtract, lhs, rhs)


def multiply(lhs: Any, rhs: Any) -> Any:
    """Return ``lhs * rhs``."""
    return _binary("multiply", op.multiply, lhs, rhs)


def divide(lhs: Any, rhs: Any) -> Any:
    """Return ``lhs / rhs``; integers are rounded toward zero."""
    return _binary("divide", _divide, lhs, rhs)


def _divide(a: Any, b: Any) -> PrimExpr:
    a, b = op.match_types(a, b)
    return op.truncdiv(a, b) if a.dtype.is_integer else op.divide(a, b)


def floor_divide(lhs: Any, rhs: Any) -> Any:
    """Return ``lhs / rhs`` rounded down."""
    return _binary("floor_divide", op.floordiv, lhs, rhs)


def mod(lhs: Any, rhs: Any) -> Any:
    """Return the remainder of division that rounds toward zero."""
    return _binary("mod", _mod, lhs, rhs)


def _mod(a: Any, b: Any) -> PrimExpr:
    a, b = op.match_types(a, b)
    return tir.fmod(a, b) if a.dtype.is_float else op.truncmod(a, b)


def floor_mod(lhs: Any, rhs: Any) -> Any:
    """Return the remainder that has the sign of the divisor."""
    return _binary("floor_mod", _floor_mod, lhs, rhs)


def _floor_mod(a: Any, b: Any) -> PrimExpr:
    a, b = op.match_types(a, b)
    return a - tir.floor(a / b) * b if a.dtype.is_float else op.floormod(a, b)


def power(lhs: Any, rhs: Any) -> Any:
    """Return ``lhs`` to the power of ``rhs``. Small constant exponents become products."""
    return _binary("power", _power, lhs, rhs)


def _power(a: Any, b: Any) -> PrimExpr:
    a, b = op.match_types(a, b)
    if op.is_const(b, 2):
        return a * a
    if op.is_const(b, 1):
        return a
    if op.is_const(b, 0.5) and a.dtype.is_float:
        return tir.sqrt(a)
    return tir.power(a, b)


def maximum(lhs: Any, rhs: Any) -> Any:
    """Return the larger of the two."""
    return _binary("maximum", op.maximum, lhs, rhs)


def minimum(lhs: Any, rhs: Any) -> Any:
    """Return the smaller of the two."""
    return _binary("minimum", op.minimum, lhs, rhs)


def equal(lhs: Any, rhs: Any) -> Any:
    """Return ``lhs == rhs``."""
    return _binary("equal", op.equal, lhs, rhs)


def not_equal(lhs: Any, rhs: Any) -> Any:
    """Return ``lhs != rhs``."""
    return _binary("not_equal", op.not_equal, lhs, rhs)


def less(lhs: Any, rhs: Any) -> Any:
    """Return ``lhs < rhs``."""
    return _binary("less", op.less, lhs, rhs)


def less_equal(lhs: Any, rhs: Any) -> Any:
    """Return ``lhs <= rhs``."""
    return _binary("less_equal", op.less_equal, lhs, rhs)


def greater(lhs: Any, rhs: Any) -> Any:
    """Return ``lhs > rhs``."""
    return _binary("greater", op.greater, lhs, rhs)


def greater_equal(lhs: Any, rhs: Any) -> Any:
    """Return ``lhs >= rhs``."""
    return _binary("greater_equal", op.greater_equal, lhs, rhs)


def logical_and(lhs: Any, rhs: Any) -> Any:
    """Return whether both are true."""
    return _binary("logical_and", op.logical_and, lhs, rhs)


def logical_or(lhs: Any, rhs: Any) -> Any:
    """Return whether at least one is true."""
    return _binary("logical_or", op.logical_or, lhs, rhs)


def logical_xor(lhs: Any, rhs: Any) -> Any:
    """Return whether exactly one of them is true."""
    return _binary("logical_xor", op.not_equal, lhs, rhs)


def logical_not(data: Any) -> Any:
    """Return the logical negation."""
    if not isinstance(data, Tensor):
        return op.logical_not(data)
    return compute(
        data.shape, lambda *i: op.logical_not(data(*i)), name="T_logical_not", tag=tag.ELEMWISE
    )


def bitwise_and(lhs: Any, rhs: Any) -> Any:
    """Return ``lhs & rhs``."""
    return _binary("bitwise_and", op.bitwise_and, lhs, rhs)


def bitwise_or(lhs: Any, rhs: Any) -> Any:
    """Return ``lhs | rhs``."""
    return _binary("bitwise_or", op.bitwise_or, lhs, rhs)


def bitwise_xor(lhs: Any, rhs: Any) -> Any:
    """Return ``lhs ^ rhs``."""
    return _binary("bitwise_xor", op.bitwise_xor, lhs, rhs)


def bitwise_not(data: Any) -> Any:
    """Return ``~data``."""
    if not isinstance(data, Tensor):
        return op.bitwise_not(data)
    return compute(
        data.shape, lambda *i: op.bitwise_not(data(*i)), name="T_bitwise_not", tag=tag.ELEMWISE
    )


def left_shift(lhs: Any, rhs: Any) -> Any:
    """Return ``lhs << rhs``."""
    return _binary("left_shift", op.shift_left, lhs, rhs)


def right_shift(lhs: Any, rhs: Any) -> Any:
    """Return ``lhs >> rhs``."""
    return _binary("right_shift", op.shift_right, lhs, rhs)


def broadcast_to(data: Tensor, shape: Any) -> Tensor:
    """Broadcast ``data`` to a shape."""
    target = [convert(size) for size in shape]
    common = broadcast_shape(data.shape, target)
    if len(common) != len(target):
        raise ShapeError(f"{len(data.shape)} dimensions cannot be broadcast to {len(target)}")

    def place(index: PrimExpr, size: PrimExpr, wanted: PrimExpr) -> PrimExpr:
        if op.is_const(size, 1):
            return index if op.is_const(wanted, 1) else const(0, size.dtype)
        if same_size(size, wanted):
            return index
        # Which of the two it is turns out when the program runs.
        is_one = op.equal(size, const(1, size.dtype))
        fits = tir.Or(is_one, op.equal(size, op.cast(size.dtype, wanted)))
        found = tir.Select(is_one, const(0, index.dtype), index)
        sizes = op.cast("int64", size), op.cast("int64", wanted)
        text = ("ShapeError: broadcast_to: an axis of size ", " cannot become one of size ")
        made: PrimExpr = tir.checked(found, fits, text[0], sizes[0], text[1], sizes[1])
        return made

    def element(*indices: PrimExpr) -> PrimExpr:
        own, sizes = indices[-len(data.shape) or len(indices) :], target[-len(data.shape) or None :]
        return data(*[place(*each) for each in zip(own, data.shape, sizes)])

    return compute(target, element, name="T_broadcast_to", tag=tag.BROADCAST)


def where(condition: Tensor, x: Any, y: Any) -> Tensor:
    """Return ``x`` where the condition holds, ``y`` elsewhere; all three broadcast."""
    tensors = [value for value in (condition, x, y) if isinstance(value, Tensor)]
    shape = broadcast_shape(*[tensor.shape for tensor in tensors])
    sample = next((value for value in (x, y) if isinstance(value, Tensor)), None)

    def element(value: Any, indices: tuple) -> Any:
        if isinstance(value, Tensor):
            return _element(value, indices, shape)
        if sample is None or isinstance(value, PrimExpr):
            return convert(value)
        return op.number_of_dtype(value, sample.dtype)  # a number is chosen as it is stored

    def choose(*indices: Any) -> PrimExpr:
        chosen = element(condition, indices)
        if not chosen.dtype.is_bool:
            chosen = op.not_equal(chosen, const(0, chosen.dtype))
        return tir.Select(chosen, *op.match_types(element(x, indices), element(y, indices)))

    return compute(shape, choose, name="T_where", tag=tag.BROADCAST)

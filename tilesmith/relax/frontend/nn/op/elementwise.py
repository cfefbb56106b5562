"""Operators that treat each element by itself; and softmax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.relax import op
from tilesmith.relax.expr import known_struct_info
from tilesmith.relax.frontend.nn.core import Tensor, wrap_nested
from tilesmith.relax.frontend.nn.op.arguments import expression, pair
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import OpAttributeInvalid

__all__ = [
    "add", "astype", "divide", "equal", "exp", "gelu", "greater", "greater_equal", "less",
    "less_equal", "maximum", "minimum", "multiply", "negative", "not_equal", "relu", "sigmoid",
    "silu", "softmax", "sqrt", "square", "subtract", "tanh", "where",
]  # fmt: skip


def _binary(operator: Callable[..., Any], a: Any, b: Any, called: str, name: str) -> Tensor:
    made: Tensor = wrap_nested(operator(*pair(a, b, called)), name)
    return made


def _unary(operator: Callable[..., Any], x: Tensor, called: str, name: str) -> Tensor:
    made: Tensor = wrap_nested(operator(expression(x, called)), name)
    return made


def add(a: Tensor, b: Tensor, name: str = "add") -> Tensor:
    """Return ``a + b``."""
    return _binary(op.add, a, b, "add", name)


def subtract(a: Tensor, b: Tensor, name: str = "subtract") -> Tensor:
    """Return ``a - b``."""
    return _binary(op.subtract, a, b, "subtract", name)


def multiply(a: Tensor, b: Tensor, name: str = "mul") -> Tensor:
    """Return ``a * b``."""
    return _binary(op.multiply, a, b, "multiply", name)


def divide(a: Tensor, b: Tensor, name: str = "divide") -> Tensor:
    """Return ``a / b``."""
    return _binary(op.divide, a, b, "divide", name)


def maximum(x1: Tensor, x2: Tensor, name: str = "maximum") -> Tensor:
    """Return the larger of two elements."""
    return _binary(op.maximum, x1, x2, "maximum", name)


def minimum(x1: Tensor, x2: Tensor, name: str = "minimum") -> Tensor:
    """Return the smaller of two elements."""
    return _binary(op.minimum, x1, x2, "minimum", name)


def less(a: Tensor, b: Tensor, name: str = "less") -> Tensor:
    """Return whether ``a < b``."""
    return _binary(op.less, a, b, "less", name)


def less_equal(a: Tensor, b: Tensor, name: str = "less_equal") -> Tensor:
    """Return whether ``a <= b``."""
    return _binary(op.less_equal, a, b, "less_equal", name)


def greater(a: Tensor, b: Tensor, name: str = "greater") -> Tensor:
    """Return whether ``a > b``."""
    return _binary(op.greater, a, b, "greater", name)


def greater_equal(a: Tensor, b: Tensor, name: str = "greater_equal") -> Tensor:
    """Return whether ``a >= b``."""
    return _binary(op.greater_equal, a, b, "greater_equal", name)


def equal(a: Tensor, b: Tensor, name: str = "equal") -> Tensor:
    """Return whether ``a == b``."""
    return _binary(op.equal, a, b, "equal", name)


def not_equal(a: Tensor, b: Tensor, name: str = "not_equal") -> Tensor:
    """Return whether ``a != b``."""
    return _binary(op.not_equal, a, b, "not_equal", name)


def where(condition: Tensor, x1: Tensor, x2: Tensor, name: str = "where") -> Tensor:
    """Return ``x1`` where a condition holds (is true, or not zero), else ``x2``."""
    test = expression(condition, "where", "condition")
    if not DataType(known_struct_info(test).dtype).is_bool:  # type: ignore[attr-defined]
        test = op.astype(test, "bool")
    made: Tensor = wrap_nested(op.where(test, *pair(x1, x2, "where")), name)
    return made


def astype(x: Tensor, dtype: str, name: str = "astype") -> Tensor:
    """Return the tensor in another data type."""
    made: Tensor = wrap_nested(op.astype(expression(x, "astype"), dtype), name)
    return made


def relu(x: Tensor, name: str = "relu") -> Tensor:
    """Return ``max(x, 0)``."""
    return _unary(op.nn.relu, x, "relu", name)


def silu(x: Tensor, name: str = "silu") -> Tensor:
    """Return ``x * sigmoid(x)``."""
    return _unary(op.nn.silu, x, "silu", name)


def gelu(x: Tensor, approximate: str | None = None, name: str = "gelu") -> Tensor:
    """Return ``x`` times the normal distribution's share below it; ``approximate="tanh"`` computes
    it by tanh.
    """
    if approximate not in (None, "none", "tanh"):
        raise OpAttributeInvalid(f"nn.op.gelu: approximate is None or 'tanh', got {approximate!r}")
    return _unary(op.nn.gelu_tanh if approximate == "tanh" else op.nn.gelu, x, "gelu", name)


def sigmoid(x: Tensor, name: str = "sigmoid") -> Tensor:
    """Return ``1 / (1 + exp(-x))``."""
    return _unary(op.sigmoid, x, "sigmoid", name)


def softmax(x: Tensor, axis: int = -1, name: str = "softmax") -> Tensor:
    """Return ``exp(x)`` divided by its sum along an axis."""
    made: Tensor = wrap_nested(op.nn.softmax(expression(x, "softmax"), axis), name)
    return made


def tanh(x: Tensor, name: str = "tanh") -> Tensor:
    """Return the hyperbolic tangent."""
    return _unary(op.tanh, x, "tanh", name)


def exp(x: Tensor, name: str = "exp") -> Tensor:
    """Return e to the power x."""
    return _unary(op.exp, x, "exp", name)


def negative(x: Tensor, name: str = "neg") -> Tensor:
    """Return ``-x``."""
    return _unary(op.negative, x, "negative", name)


def square(x: Tensor, name: str = "square") -> Tensor:
    """Return ``x * x``."""
    return _unary(op.square, x, "square", name)


def sqrt(x: Tensor, name: str = "sqrt") -> Tensor:
    """Return the square root."""
    return _unary(op.sqrt, x, "sqrt", name)

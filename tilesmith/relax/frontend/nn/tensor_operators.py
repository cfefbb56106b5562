"""What Python's operators mean for tensors of nn; numbers become tensors of the same data type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.support.lazy import resolve

__all__ = ["TensorOperators"]


def _apply(name: str, *args: Any) -> Any:
    """Call an operator of `nn.op`, which stands above tensors."""
    operator: Callable[..., Any] = resolve(f"tilesmith.relax.frontend.nn.op:{name}")
    return operator(*args)


class TensorOperators:
    """Operators and methods of `nn.Tensor`."""

    dtype: Any

    def __add__(self, other: Any) -> Any:
        return _apply("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return _apply("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return _apply("subtract", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _apply("subtract", other, self)

    def __mul__(self, other: Any) -> Any:
        return _apply("multiply", self, other)

    def __rmul__(self, other: Any) -> Any:
        return _apply("multiply", other, self)

    def __truediv__(self, other: Any) -> Any:
        return _apply("divide", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _apply("divide", other, self)

    def __neg__(self) -> Any:
        return _apply("negative", self)

    def __lt__(self, other: Any) -> Any:
        return _apply("less", self, other)

    def __le__(self, other: Any) -> Any:
        return _apply("less_equal", self, other)

    def __gt__(self, other: Any) -> Any:
        return _apply("greater", self, other)

    def __ge__(self, other: Any) -> Any:
        return _apply("greater_equal", self, other)

    def astype(self, dtype: str) -> Any:
        """Return the tensor in another data type."""
        return _apply("astype", self, dtype)

    def maximum(self, other: Any) -> Any:
        """Return the larger of two elements."""
        return _apply("maximum", self, other)

    def minimum(self, other: Any) -> Any:
        """Return the smaller of two elements."""
        return _apply("minimum", self, other)

    def reshape(self, *shape: Any) -> Any:
        """Return the elements in another shape: sizes, or one list of them."""
        given = shape[0] if len(shape) == 1 and isinstance(shape[0], (list, tuple)) else shape
        return _apply("reshape", self, given)

    def permute_dims(self, *axes: Any) -> Any:
        """Return the tensor with its axes in another order (reversed without ``axes``)."""
        given = axes[0] if len(axes) == 1 and isinstance(axes[0], (list, tuple)) else axes
        return _apply("permute_dims", self, list(given) or None)

    def repeat(self, repeats: int, axis: int | None = None) -> Any:
        """Return the tensor with each element repeated along an axis."""
        return _apply("repeat", self, repeats, axis)

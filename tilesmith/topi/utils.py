"""What the computes share: shapes, constants, index arithmetic."""

from __future__ import annotations

from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import IntImm, PrimExpr, const, convert
from tilesmith.support.errors import ShapeError
from tilesmith.te import Tensor

__all__ = [
    "equal_const_int", "get_const_int", "get_const_tuple", "normalize_axes", "product",
    "ravel_index",
    "same_size", "simplify", "unravel_index",
]  # fmt: skip


def simplify(expr: Any) -> Any:
    """A simpler form of an expression; Python numbers stay."""
    return Analyzer().simplify(expr) if isinstance(expr, PrimExpr) else expr


def get_const_int(expr: Any) -> int:
    """The int that an expression is."""
    if isinstance(expr, (int, IntImm)):
        return int(expr)
    simple = simplify(expr)
    if isinstance(simple, IntImm):
        return simple.value
    raise ShapeError(f"a constant integer is needed, got {expr}")


def get_const_tuple(values: Any) -> tuple:
    """Sizes as ints where they are constant, as expressions where not."""
    simple = [simplify(value) for value in values]
    return tuple([int(value) if isinstance(value, (int, IntImm)) else value for value in simple])


def equal_const_int(expr: Any, value: int) -> bool:
    """Whether an expression is that constant."""
    simple = simplify(expr)
    return isinstance(simple, (int, IntImm)) and int(simple) == value


def same_size(a: Any, b: Any) -> bool:
    """Whether two sizes are provably equal."""
    if a is b:
        return True
    return Analyzer().can_prove_equal(convert(a), convert(b))


def product(sizes: Any) -> PrimExpr:
    """The product of sizes."""
    result: PrimExpr | None = None
    for size in sizes:
        size = convert(size)
        result = size if result is None else result * size
    return const(1, "int32") if result is None else result


def normalize_axes(axis: Any, ndim: int, what: str = "axis") -> list[int]:
    """Axes as a sorted list of numbers from 0; None means all of them."""
    if axis is None:
        return list(range(ndim))
    axes = [axis] if isinstance(axis, (int, IntImm)) else list(axis)
    normal = []
    for one in axes:
        number = int(one)
        if not -ndim <= number < ndim:
            raise ShapeError(f"{what} {number} is not within {ndim} dimensions")
        normal.append(number % ndim)
    if len(set(normal)) != len(normal):
        raise ShapeError(f"{what} {axes} names a dimension twice")
    return sorted(normal)


def ravel_index(indices: Any, shape: Any) -> PrimExpr:
    """The flat, row-major position of indices in a shape."""
    flat: PrimExpr | None = None
    for index, size in zip(indices, shape):
        flat = convert(index) if flat is None else flat * size + index
    return const(0, "int32") if flat is None else flat


def unravel_index(flat: PrimExpr, shape: Any) -> list[PrimExpr]:
    """The indices in a shape of a flat, row-major position."""
    from tilesmith.ir.operators import floordiv, floormod

    indices: list[PrimExpr] = []
    for number, size in enumerate(reversed(list(shape))):
        last = number == len(shape) - 1
        indices.append(flat if last else floormod(flat, size))
        flat = floordiv(flat, size)
    return indices[::-1]


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor rather than a number."""
    return isinstance(value, Tensor)


__all__ += ["is_tensor"]

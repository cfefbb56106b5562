"""Operators that make, move, order and sum up elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.relax import op
from tilesmith.relax.expr import const
from tilesmith.relax.frontend.nn.core import Tensor, wrap_nested
from tilesmith.relax.frontend.nn.op.arguments import IntExpr, expression, expressions

__all__ = [
    "argsort", "broadcast_to", "chunk", "concat", "cumsum", "empty", "full", "ones", "pad",
    "permute", "permute_dims", "repeat", "reshape", "sort", "split", "squeeze", "sum", "take",
    "topk", "triu", "unsqueeze", "zeros",
]  # fmt: skip


def unsqueeze(x: Tensor, dim: int, name: str = "unsqueeze") -> Tensor:
    """Return the tensor with a new axis of size 1."""
    made: Tensor = wrap_nested(op.expand_dims(expression(x, "unsqueeze"), dim), name)
    return made


def squeeze(x: Tensor, axis: int = -1, name: str = "squeeze") -> Tensor:
    """Return the tensor without an axis of size 1."""
    made: Tensor = wrap_nested(op.squeeze(expression(x, "squeeze"), axis), name)
    return made


def concat(x: list[Tensor], dim: int, name: str = "concat") -> Tensor:
    """Return tensors one after the other along an axis."""
    made: Tensor = wrap_nested(op.concat(expressions(x, "concat"), dim), name)
    return made


def chunk(x: Tensor, chunks: int, dim: int = 0, name: str = "chunk") -> Tensor:
    """Return the tensor as a tuple of ``chunks`` parts along an axis."""
    made: Tensor = wrap_nested(op.split(expression(x, "chunk"), chunks, dim), name)
    return made


def split(
    ary: Tensor, indices_or_sections: int | Sequence[int], axis: int = 0, name: str = "split"
) -> tuple[Tensor, ...]:
    """Return the tensor as a tuple of so many parts, or of the parts between indices."""
    parts: Any = indices_or_sections
    if not isinstance(parts, int):
        parts = [int(index) for index in parts]
    made: tuple[Tensor, ...] = wrap_nested(
        op.split(expression(ary, "split", "ary"), parts, axis), name
    )
    return made


def broadcast_to(x: Tensor, shape: Sequence[IntExpr], name: str = "broadcast_to") -> Tensor:
    """Return the tensor repeated along axes of size 1 until it has a shape."""
    made: Tensor = wrap_nested(op.broadcast_to(expression(x, "broadcast_to"), list(shape)), name)
    return made


def permute_dims(x: Tensor, axes: Sequence[int] | None = None, name: str | None = None) -> Tensor:
    """Return the tensor with its axes in another order, reversed without ``axes``."""
    value = expression(x, "permute_dims")
    made: Tensor = wrap_nested(op.permute_dims(value, axes), name or "permute_dims")
    return made


def permute(x: Tensor, axes: list[int] | None, name: str = "permute") -> Tensor:
    """Return the tensor with its axes in another order, as ``permute_dims`` does."""
    return permute_dims(x, axes, name)


def reshape(x: Tensor, shape: Sequence[IntExpr], name: str = "reshape") -> Tensor:
    """Return the elements in another shape; one size may be -1."""
    made: Tensor = wrap_nested(op.reshape(expression(x, "reshape"), list(shape)), name)
    return made


def repeat(x: Tensor, repeats: int, axis: int | None = None, name: str = "repeat") -> Tensor:
    """Return the tensor with each element repeated along an axis."""
    made: Tensor = wrap_nested(op.repeat(expression(x, "repeat"), repeats, axis), name)
    return made


def take(x: Tensor, indices: Tensor, axis: int | None = None, name: str = "take") -> Tensor:
    """Return the elements at indices along an axis."""
    places = expression(indices, "take", "indices")
    made: Tensor = wrap_nested(op.take(expression(x, "take"), places, axis), name)
    return made


def sum(
    x: Tensor, axis: int | list[int] | None = None, keepdims: bool = False, name: str = "sum"
) -> Tensor:
    """Return the sum over axes, or over all."""
    made: Tensor = wrap_nested(op.sum(expression(x, "sum"), axis, keepdims), name)
    return made


def cumsum(
    data: Tensor,
    axis: int | None = None,
    dtype: str | None = None,
    exclusive: bool | None = None,
    name: str = "cumsum",
) -> Tensor:
    """Return the sum of the elements up to each one along an axis, without itself if
    ``exclusive``.
    """
    value = expression(data, "cumsum", "data")
    made: Tensor = wrap_nested(op.cumsum(value, axis, dtype, bool(exclusive)), name)
    return made


def triu(x: Tensor, diagonal: int = 0, name: str = "triu") -> Tensor:
    """Return the elements above a diagonal and zeros below."""
    made: Tensor = wrap_nested(op.triu(expression(x, "triu"), diagonal), name)
    return made


def pad(
    x: Tensor, pad: list[int], mode: str = "constant", value: int = 0, name: str = "pad"
) -> Tensor:
    """Return the tensor with elements added: ``pad`` has how many before and after, for each
    axis.
    """
    widths = [int(width) for width in pad]
    made: Tensor = wrap_nested(op.nn.pad(expression(x, "pad"), widths, value, mode), name)
    return made


def full(
    shape: Sequence[IntExpr], fill_value: Any, dtype: str = "float32", name: str = "full"
) -> Tensor:
    """Return a tensor whose elements all have one value."""
    is_number = isinstance(fill_value, (bool, int, float))
    value = const(fill_value, dtype) if is_number else expression(fill_value, "full", "fill_value")
    made: Tensor = wrap_nested(op.full(list(shape), value, dtype), name)
    return made


def zeros(shape: Sequence[IntExpr], dtype: str = "float32", name: str = "zeros") -> Tensor:
    """Return a tensor of zeros."""
    made: Tensor = wrap_nested(op.zeros(list(shape), dtype), name)
    return made


def ones(shape: Sequence[IntExpr], dtype: str = "float32", name: str = "ones") -> Tensor:
    """Return a tensor of ones."""
    made: Tensor = wrap_nested(op.ones(list(shape), dtype), name)
    return made


def empty(shape: Sequence[IntExpr], dtype: str = "float32", name: str = "empty") -> Tensor:
    """Return a tensor whose contents do not matter. They are zeros: programs are functions of
    their inputs here, so that a run can be repeated.
    """
    return zeros(shape, dtype, name)


def sort(x: Tensor, axis: int = -1, descending: bool = False, name: str = "sort") -> Tensor:
    """Return the elements in order along an axis."""
    made: Tensor = wrap_nested(op.sort(expression(x, "sort"), axis, descending), name)
    return made


def argsort(
    data: Tensor,
    axis: int = -1,
    descending: bool = False,
    dtype: str = "int32",
    name: str = "argsort",
) -> Tensor:
    """Return the indices that put the elements in order along an axis."""
    value = expression(data, "argsort", "data")
    made: Tensor = wrap_nested(op.argsort(value, axis, descending, dtype), name)
    return made


def topk(
    data: Tensor,
    k: int = 1,
    axis: int = -1,
    ret_type: str = "both",
    largest: bool = True,
    dtype: str = "int32",
    name: str = "topk",
) -> Any:
    """Return the ``k`` largest (or smallest) elements along an axis: values, indices, or both."""
    value = expression(data, "topk", "data")
    return wrap_nested(op.topk(value, k, axis, ret_type, largest, dtype), name)

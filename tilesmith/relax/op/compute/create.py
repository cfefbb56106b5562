"""Tensors out of nothing as tensor expressions."""

from __future__ import annotations

from typing import Any

from tilesmith import te, tir
from tilesmith.ir.operators import cast, const
from tilesmith.relax.op.create import arange_size
from tilesmith.topi import tag


def full(attrs: Any, shape: Any, value: Any) -> Any:
    """One value everywhere."""
    dtype = attrs.dtype or value.dtype
    return te.compute(
        tuple(shape), lambda *i: cast(dtype, value()), name="T_full", tag=tag.BROADCAST
    )


def full_like(attrs: Any, x: Any, value: Any) -> Any:
    """One value in the shape of ``x``."""
    return full(attrs, x.shape, value)


def _constant(shape: Any, dtype: Any, value: int) -> Any:
    return te.compute(
        tuple(shape), lambda *i: const(value, dtype), name="T_full", tag=tag.BROADCAST
    )


def ones(attrs: Any, shape: Any) -> Any:
    """Ones."""
    return _constant(shape, attrs.dtype or "float32", 1)


def zeros(attrs: Any, shape: Any) -> Any:
    """Zeros."""
    return _constant(shape, attrs.dtype or "float32", 0)


def ones_like(attrs: Any, x: Any) -> Any:
    """Ones in the shape of ``x``."""
    return _constant(x.shape, attrs.dtype or x.dtype, 1)


def zeros_like(attrs: Any, x: Any) -> Any:
    """Zeros in the shape of ``x``."""
    return _constant(x.shape, attrs.dtype or x.dtype, 0)


def arange(attrs: Any, start: Any, end: Any, step: Any) -> Any:
    """Evenly spaced values."""
    dtype = attrs.dtype or "int64"

    def element(i: Any) -> Any:
        return cast(dtype, start) + cast(dtype, step) * cast(dtype, i)

    return te.compute((arange_size(start, end, step),), element, name="T_arange", tag=tag.INJECTIVE)


def _triangle(x: Any, keep: Any, name: str) -> Any:
    zero = const(0, x.dtype)
    return te.compute(
        x.shape,
        lambda *i: tir.Select(keep(i[-2], i[-1]), x(*i), zero),
        name=name,
        tag=tag.INJECTIVE,
    )


def tril(attrs: Any, x: Any) -> Any:
    """The lower triangle."""
    return _triangle(x, lambda row, column: column <= row + attrs.k, "tril")


def triu(attrs: Any, x: Any) -> Any:
    """The upper triangle."""
    return _triangle(x, lambda row, column: column >= row + attrs.k, "triu")

"""Elementwise computes that topi does not name."""

from __future__ import annotations

from typing import Any

from tilesmith import te, topi
from tilesmith.topi import tag


def clip(attrs: Any, x: Any) -> Any:
    """``x`` limited to a range."""
    return topi.clip(x, attrs.min, attrs.max)


def square(attrs: Any, x: Any) -> Any:
    """``x * x``."""
    return te.compute(x.shape, lambda *i: x(*i) * x(*i), name="T_square", tag=tag.ELEMWISE)


def fused_multiply_add(attrs: Any, a: Any, b: Any, c: Any) -> Any:
    """``a * b + c``."""
    return topi.add(topi.multiply(a, b), c)

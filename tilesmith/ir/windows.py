"""Counts the windows of convolutions and pooling."""

from __future__ import annotations

from typing import TypeVar

from tilesmith.ir.expr import PrimExpr

__all__ = ["window_count"]

Size = TypeVar("Size", int, PrimExpr)


def window_count(
    size: Size, kernel: Size | int, stride: int, dilation: int = 1, is_ceiled: bool = False
) -> Size:
    """Return how many windows of ``kernel`` elements, ``dilation`` apart, begin every ``stride``
    elements in ``size`` elements (with their padding). ``is_ceiled``: a last window may stick out.
    """
    reach = (kernel - 1) * dilation
    more = stride - 1 if is_ceiled else 0
    return (size - reach - 1 + more) // stride + 1

"""Binds a buffer to a region of another one: its pointer, offset, strides and sizes get values.

sub = T.match_buffer(A[i:i+4, j], (4,), strides=(s,), elem_offset=o)      o = i * 8 + j, s = 8
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import PrimExpr, Var, const
from tilesmith.ir.operators import cast, is_const
from tilesmith.support.errors import ShapeError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferRegion

__all__ = ["ViewBinder", "row_major_strides"]


def row_major_strides(buffer: Buffer) -> list[PrimExpr]:
    """Return the strides of a buffer in elements, computed from the shape where it declares
    none."""
    if buffer.strides:
        return list(buffer.strides)
    strides: list[PrimExpr] = []
    stride: PrimExpr = const(1, buffer.shape[0].dtype) if buffer.shape else const(1, "int32")
    for size in reversed(buffer.shape):
        strides.append(stride)
        stride = stride * size
    return strides[::-1]


class ViewBinder:
    """Collects the values of the variables that declarations of views introduce.

    ``known`` are variables that have a meaning already; ``rewrite`` is what replaces those of
    ``values`` in an expression.
    """

    def __init__(self, known: set[Var], rewrite: Callable[[PrimExpr], PrimExpr]) -> None:
        self.known = known
        self.rewrite = rewrite
        self.values: dict[Var, PrimExpr] = {}
        self.analyzer = Analyzer()

    def bind_view(self, view: Buffer, source: BufferRegion, where: str, span: Any) -> None:
        """Bind the variables of a view to what the region that it shows has."""
        leading = len(source.region) - len(view.shape)
        if leading < 0 or not all(is_const(dim.extent, 1) for dim in source.region[:leading]):
            raise ShapeError(
                f"{where}: '{view.name}' with {len(view.shape)} dimensions "
                f"cannot match a region of '{source.buffer.name}' with {len(source.region)}",
                span=span,
                notes=("dimensions that the match leaves out must have extent 1",),
            )
        self.bind(view.data, source.buffer.data)
        strides = row_major_strides(source.buffer)
        offset = source.buffer.elem_offset
        for dim, stride in zip(source.region, strides):
            offset = offset + dim.min * stride
        what = f"{where}: '{view.name}', a part of '{source.buffer.name}',"
        self.agree(view.elem_offset, offset, f"{what} is said to begin at", span)
        self.require_multiple(offset, view, what, span)
        for stride, value in zip(view.strides, strides[leading:]):
            self.agree(stride, value, f"{what} is said to have the stride", span)
        for size, dim in zip(view.shape, source.region[leading:]):
            self.agree(size, dim.extent, f"{what} is said to have the size", span)

    def agree(self, declared: PrimExpr, value: PrimExpr, what: str, span: Any) -> None:
        """Bind a variable of the declaration to its value; check what is bound already."""
        value = self.analyzer.simplify(value)
        if isinstance(declared, Var) and declared not in self.values:
            if declared in self.known:  # a size of the function, for example
                if self.analyzer.can_prove_equal(declared, cast(declared.dtype, value)):
                    return
                raise ShapeError(
                    f"{what} {declared.name}, a variable that has another meaning here",
                    span=span,
                    notes=("take a new variable for what the match is to find out",),
                )
            self.bind(declared, value)
            return
        known = self.analyzer.simplify(self.rewrite(declared))
        if not self.analyzer.can_prove_equal(known, cast(known.dtype, value)):
            raise ShapeError(f"{what} {known}, it has {value}", span=span)

    def require_multiple(self, offset: PrimExpr, view: Buffer, what: str, span: Any) -> None:
        """Refuse an offset of which no value is a multiple of the declared factor."""
        factor = view.offset_factor
        values = self.analyzer.modular_set(offset)
        if factor > 1 and values.base % gcd(values.coeff, factor):
            raise ShapeError(
                f"{what} is said to begin at a multiple of {factor}, it begins at "
                f"{self.analyzer.simplify(offset)}",
                span=span,
                notes=(
                    f"let the region begin at a multiple of {factor} elements, or declare "
                    "offset_factor=1",
                ),
            )

    def bind(self, name: Any, value: PrimExpr) -> None:
        """Give a variable its value, unless it has one."""
        if isinstance(name, Var) and name not in self.values:
            self.values[name] = value if name.dtype.is_handle else cast(name.dtype, value)

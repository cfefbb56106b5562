"""LowerMatchBuffer: redirects accesses of a matched buffer to the buffer that it is a view of.

    with T.block():                             with T.block():
        sub = T.match_buffer(A[i:i+4, j], (4,))
        sub[k] = 0.0                                A[i + k, j] = 0.0

Symbolic strides, offsets and sizes of the matched buffer are replaced by those of the region. A
region that provably does not begin at a multiple of the declared ``offset_factor`` is refused.
"""

from __future__ import annotations

from collections.abc import Container
from math import gcd
from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import PrimExpr, Var, const
from tilesmith.ir.operators import cast, is_const
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import variables
from tilesmith.support.errors import ShapeError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.redirection import ViewRedirection
from tilesmith.tir.stmt import Block, For, MatchBufferRegion, Stmt

__all__ = ["lower_match", "lower_match_buffer", "row_major_strides", "without_matches"]


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


class _MatchLowerer(ViewRedirection):
    def __init__(self, known: set[Var], blocks: Container[Block] | None) -> None:
        super().__init__({})
        self.known = known  # parameters, sizes of their buffers, loop variables
        self.blocks = blocks  # whose matches are lowered; None for all blocks
        self.values: dict[Var, PrimExpr] = {}
        self.analyzer = Analyzer()

    def visit_Var(self, var: Var) -> PrimExpr:
        return self.values.get(var, var)

    def visit_For(self, loop: For) -> Stmt:
        self.known.add(loop.loop_var)
        return self.children(loop)

    def visit_Block(self, block: Block) -> Block:
        if not block.match_buffers:
            return self.children(block)
        if self.blocks is not None and block not in self.blocks:
            for match in block.match_buffers:
                view = match.buffer
                declared = (*view.shape, *view.strides, view.elem_offset)
                self.known.update([expr for expr in declared if isinstance(expr, Var)])
            return self.children(block)
        for match in block.match_buffers:
            self.match(match, block)
        return self.children(block.with_fields(match_buffers=()))

    def match(self, match: MatchBufferRegion, block: Block) -> None:
        """Record the values of the variables that a match introduces."""
        buffer, source = match.buffer, self.visit(match.source)
        leading = len(source.region) - len(buffer.shape)
        if leading < 0 or not all(is_const(dim.extent, 1) for dim in source.region[:leading]):
            raise ShapeError(
                f"block '{block.name_hint}': '{buffer.name}' with {len(buffer.shape)} dimensions "
                f"cannot match a region of '{source.buffer.name}' with {len(source.region)}",
                span=block.span,
                notes=("dimensions that the match leaves out must have extent 1",),
            )
        self.sources[buffer] = source
        self.bind(buffer.data, source.buffer.data)
        strides = row_major_strides(source.buffer)
        offset = source.buffer.elem_offset
        for dim, stride in zip(source.region, strides):
            offset = offset + dim.min * stride
        what = f"block '{block.name_hint}': '{buffer.name}', a part of '{source.buffer.name}',"
        self.agree(buffer.elem_offset, offset, f"{what} is said to begin at", block)
        self.require_multiple(offset, buffer, what, block)
        for stride, value in zip(buffer.strides, strides[leading:]):
            self.agree(stride, value, f"{what} is said to have the stride", block)
        for size, dim in zip(buffer.shape, source.region[leading:]):
            self.agree(size, dim.extent, f"{what} is said to have the size", block)

    def agree(self, declared: PrimExpr, value: PrimExpr, what: str, block: Block) -> None:
        """Bind a variable of the declaration to its value; check what is bound already."""
        value = self.analyzer.simplify(value)
        if isinstance(declared, Var) and declared not in self.values:
            if declared in self.known:  # a size of the function, for example
                if self.analyzer.can_prove_equal(declared, cast(declared.dtype, value)):
                    return
                raise ShapeError(
                    f"{what} {declared.name}, a variable that has another meaning here",
                    span=block.span,
                    notes=("take a new variable for what the match is to find out",),
                )
            self.bind(declared, value)
            return
        known = self.analyzer.simplify(self.visit(declared))
        if not self.analyzer.can_prove_equal(known, cast(known.dtype, value)):
            raise ShapeError(f"{what} {known}, it has {value}", span=block.span)

    def require_multiple(self, offset: PrimExpr, buffer: Buffer, what: str, block: Block) -> None:
        """Refuse an offset of which no value is a multiple of the declared factor."""
        factor = buffer.offset_factor
        values = self.analyzer.modular_set(offset)
        if factor > 1 and values.base % gcd(values.coeff, factor):
            raise ShapeError(
                f"{what} is said to begin at a multiple of {factor}, it begins at "
                f"{self.analyzer.simplify(offset)}",
                span=block.span,
                notes=(
                    f"let the region begin at a multiple of {factor} elements, or declare "
                    "offset_factor=1",
                ),
            )

    def bind(self, name: Any, value: PrimExpr) -> None:
        if isinstance(name, Var) and name not in self.values:
            self.values[name] = value if name.dtype.is_handle else cast(name.dtype, value)


@compiler_pass("tir.LowerMatchBuffer")
def lower_match_buffer(func: PrimFunc) -> PrimFunc:
    """Replaces matched buffers by the regions that they are views of.

    Returns ``func`` without ``match_buffers`` in its blocks.
    """
    return without_matches(func)


def lower_match(match: MatchBufferRegion, body: Stmt, known: set[Var]) -> Stmt:
    """Return a statement with a buffer that is matched in it replaced by its region. ``known`` are
    the variables that have a meaning outside.
    """
    block = Block((), (), (), match.buffer.name, body, None, (), (match,))
    return _MatchLowerer(known, None).visit(block).body


def without_matches(func: PrimFunc, blocks: Container[Block] | None = None) -> PrimFunc:
    """Return ``func`` with the matched buffers of some blocks, or of all of them, replaced by the
    regions that they are views of.
    """
    known = {*func.params, *[size for buffer in func.buffers for size in variables(buffer.shape)]}
    return func.with_body(_MatchLowerer(known, blocks).visit(func.body))

"""LowerMatchBuffer: redirects accesses of a matched buffer to the buffer that it is a view of.

    with T.block():                             with T.block():
        sub = T.match_buffer(A[i:i+4, j], (4,))
        sub[k] = 0.0                                A[i + k, j] = 0.0

Symbolic strides, offsets and sizes of the matched buffer are replaced by those of the region. A
region that provably does not begin at a multiple of the declared ``offset_factor`` is refused.
"""

from __future__ import annotations

from collections.abc import Container

from tilesmith.ir import PrimExpr, Var
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import variables
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.redirection import ViewRedirection
from tilesmith.tir.stmt import Block, For, MatchBufferRegion, Stmt
from tilesmith.tir.transform.storage.view_binder import ViewBinder

__all__ = ["lower_match_buffer", "without_matches"]


class _MatchLowerer(ViewRedirection):
    def __init__(self, known: set[Var], blocks: Container[Block] | None) -> None:
        super().__init__({})
        self.known = known  # parameters, sizes of their buffers, loop variables
        self.blocks = blocks  # whose matches are lowered; None for all blocks
        self.binder = ViewBinder(known, self.visit)

    def visit_Var(self, var: Var) -> PrimExpr:
        return self.binder.values.get(var, var)

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
        self.sources[buffer] = source
        self.binder.bind_view(buffer, source, f"block '{block.name_hint}'", block.span)


@compiler_pass("tir.LowerMatchBuffer")
def lower_match_buffer(func: PrimFunc) -> PrimFunc:
    """Replaces matched buffers by the regions that they are views of.

    Returns ``func`` without ``match_buffers`` in its blocks.
    """
    return without_matches(func)


def without_matches(func: PrimFunc, blocks: Container[Block] | None = None) -> PrimFunc:
    """Return ``func`` with the matched buffers of some blocks, or of all of them, replaced by the
    regions that they are views of.
    """
    known = {*func.params, *[size for buffer in func.buffers for size in variables(buffer.shape)]}
    return func.with_body(_MatchLowerer(known, blocks).visit(func.body))

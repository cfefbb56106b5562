"""ConvertBlocksToOpaque: replaces the iterators of blocks by the values they are bound to.

with T.block("C"):                          with T.block("C"):
    vi = T.axis.spatial(128, i * 8 + j)
    C[vi] = A[vi]                               C[i * 8 + j] = A[i * 8 + j]
"""

from __future__ import annotations

from tilesmith.ir import PrimExpr, Var
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import BufferRemapper
from tilesmith.tir.queries import uses_variable
from tilesmith.tir.stmt import Block, BlockRealize

__all__ = ["convert_blocks_to_opaque"]


class _IteratorInliner(BufferRemapper):
    def __init__(self) -> None:
        super().__init__()
        self.values: dict[Var, PrimExpr] = {}

    def visit_Var(self, var: Var) -> PrimExpr:
        return self.values.get(var, var)

    def visit_BlockRealize(self, realize: BlockRealize) -> BlockRealize:
        block = realize.block
        if block.init is not None:
            raise UnsupportedError(
                f"block '{block.name_hint}' still has an init statement",
                span=block.span,
                notes=("run LowerInitBlock before ConvertBlocksToOpaque",),
            )
        if not block.iter_vars:
            return self.children(realize)
        own = {iterator.var for iterator in block.iter_vars}
        if uses_variable(realize.predicate, own):
            raise UnsupportedError(
                f"the predicate of block '{block.name_hint}' uses iterators of the block: "
                f"{realize.predicate}",
                span=block.span,
                notes=(
                    "a predicate is about the loops around a block: write what they are bound to",
                ),
            )
        predicate = self.visit(realize.predicate)
        for iterator, value in zip(block.iter_vars, realize.iter_values):
            self.values[iterator.var] = self.visit(value)
        opaque: Block = self.visit(block.with_fields(iter_vars=()))
        return BlockRealize((), predicate, opaque, realize.span)


@compiler_pass("tir.ConvertBlocksToOpaque")
def convert_blocks_to_opaque(func: PrimFunc) -> PrimFunc:
    """Replaces iterators of blocks by their values.

    Returns ``func`` with blocks that have no iterators. Raises UnsupportedError for a block with an
    init statement, and for a predicate that uses iterators of its own block.
    """
    return func.with_body(_IteratorInliner().visit(func.body))

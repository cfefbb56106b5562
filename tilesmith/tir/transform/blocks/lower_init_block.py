"""LowerInitBlock: moves the ``init`` of a reduction under a condition on its first iteration.

with T.block("C"):                          with T.block("C"):
    vi, vk = T.axis.remap("SR", [i, k])         vi, vk = T.axis.remap("SR", [i, k])
    with T.init():                              if vk == 0:
        C[vi] = 0.0                                 C[vi] = 0.0
    C[vi] = C[vi] + A[vi, vk]                   C[vi] = C[vi] + A[vi, vk]

Where a reduction may be empty, the ``init`` also precedes it (`tir/empty_reductions.py`).
"""

from __future__ import annotations

from tilesmith.ir import Rewriter
from tilesmith.ir.operators import all_of, equal
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.tir.empty_reductions import complete_reductions
from tilesmith.tir.expr import IterVar
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import Block, IfThenElse, stmt_seq

__all__ = ["lower_init_block"]


class _InitLowerer(Rewriter):
    def visit_Block(self, block: Block) -> Block:
        block = self.children(block)
        if block.init is None:
            return block
        first = [
            equal(iterator.var, iterator.domain.min)
            for iterator in block.iter_vars
            if iterator.iter_type == IterVar.CommReduce
        ]
        init = IfThenElse(all_of(*first), block.init) if first else block.init
        return block.with_fields(init=None, body=stmt_seq(init, block.body))


@compiler_pass("tir.LowerInitBlock")
def lower_init_block(func: PrimFunc) -> PrimFunc:
    """Moves the ``init`` of reductions into the bodies of their blocks.

    Returns ``func`` with each ``init`` moved into its block's body.
    """
    return func.with_body(_InitLowerer().visit(complete_reductions(func.body)))

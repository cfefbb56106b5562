"""RemoveWeightLayoutRewriteBlock: drops layout copies of weights; callers pass weights in the new
layout.

A block annotated ``meta_schedule.layout_rewrite_preproc`` copies a parameter (or a constant) into a
buffer with another layout. The pass drops the copy: the parameter gets the shape of that buffer,
and callers have to lay the weight out beforehand. A constant is laid out here, unless
``skip_ndarray_rewrite`` says that its array is replaced elsewhere.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IntImm, Rewriter, Var, const
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import substitute
from tilesmith.tir.stmt import AllocateConst, Block, BlockRealize, Evaluate, For, Stmt

__all__ = [
    "LAYOUT_REWRITE", "remove_weight_layout_rewrite_block",
]  # fmt: skip

LAYOUT_REWRITE = "meta_schedule.layout_rewrite_preproc"


class _Remover(Rewriter):
    """Drops the copies and the memory of their targets; ``moved`` maps each weight to the buffer
    that takes its place."""

    def __init__(self) -> None:
        self.moved: dict[Buffer, Buffer] = {}  # weight → its new layout
        self.loops: list[For] = []
        self.copies: dict[Buffer, tuple[Stmt, Buffer]] = {}  # weight → the copy, its target

    def visit_For(self, loop: For) -> Stmt:
        self.loops.append(loop)
        body = self.visit(loop.body)
        self.loops.pop()
        if isinstance(body, Evaluate) and body is not loop.body:
            return body  # the loops around a copy are removed with it
        return loop if body is loop.body else loop.with_fields(body=body)

    def visit_BlockRealize(self, realize: BlockRealize) -> Stmt:
        block = realize.block
        if not block.annotations.get(LAYOUT_REWRITE):
            return self.children(realize)
        if len(block.reads) != 1 or len(block.writes) != 1:
            raise UnsupportedError(
                f"the block '{block.name_hint}' is marked as a copy of a weight, but reads "
                f"{len(block.reads)} and writes {len(block.writes)} buffers",
                span=block.span,
            )
        weight, target = block.reads[0].buffer, block.writes[0].buffer
        copy: Stmt = realize
        for loop in reversed(self.loops):
            copy = loop.with_fields(body=copy)
        self.moved[weight] = target
        self.copies[weight] = (copy, target)
        return Evaluate(const(0, "int32"))

    def visit_Block(self, block: Block) -> Block:
        new: Block = self.children(block)
        gone = set(self.moved.values())
        kept = tuple([buffer for buffer in new.alloc_buffers if buffer not in gone])
        return new if len(kept) == len(new.alloc_buffers) else new.with_fields(alloc_buffers=kept)


class _ConstantRewriter(Rewriter):
    def __init__(self, copies: dict[Var, tuple[Buffer, Stmt, Buffer]], skip: bool) -> None:
        self.copies = copies
        self.skip = skip

    def visit_AllocateConst(self, allocation: AllocateConst) -> Stmt:
        new = allocation.map_children(self.visit)
        found = self.copies.get(allocation.buffer_var)
        if found is None:
            return new
        weight, copy, target = found
        data = new.data_or_idx
        if not self.skip:
            data = _laid_out(weight, copy, target, data)
        return new.with_fields(extents=target.shape, data_or_idx=data)


def _laid_out(weight: Buffer, copy: Stmt, target: Buffer, data: Any) -> Any:
    """Return the array of a constant in its new layout."""
    import numpy

    from tilesmith.tir.interpreter import run

    if isinstance(data, int) or not all(isinstance(size, IntImm) for size in target.shape):
        raise UnsupportedError(
            f"the constant behind '{weight.name}' cannot be laid out anew here",
            notes=("pass skip_ndarray_rewrite=True and replace its array yourself",),
        )
    array = data.numpy() if hasattr(data, "numpy") else numpy.asarray(data)
    sizes = [size.value for size in target.shape if isinstance(size, IntImm)]
    result = numpy.zeros(sizes, target.dtype.numpy())
    run(PrimFunc([weight, target], copy), array, result)
    return result


@compiler_pass("tir.RemoveWeightLayoutRewriteBlock")
def remove_weight_layout_rewrite_block(
    func: PrimFunc, skip_ndarray_rewrite: bool = False
) -> PrimFunc:
    """Drops copies that only change the layout of a weight.

    Returns ``func`` whose callers pass the weights in the layout in which they are used.
    """
    remover = _Remover()
    body = remover.visit(func.body)
    if not remover.moved:
        return func
    laid_out = {
        weight: target.with_fields(data=weight.data, name=weight.name)
        for weight, target in remover.moved.items()
    }
    targets = {target: laid_out[weight] for weight, target in remover.moved.items()}
    body = substitute(body, {}, buffers=targets)
    constants = {
        weight.data: (weight, *remover.copies[weight])
        for weight in remover.moved
        if weight not in set(func.buffer_map.values())
    }
    if constants:
        body = _ConstantRewriter(constants, skip_ndarray_rewrite).visit(body)
    buffers = {param: laid_out.get(buffer, buffer) for param, buffer in func.buffer_map.items()}
    return func.with_fields(body=body, buffer_map=buffers)

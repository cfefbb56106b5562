"""Rebuilds sequences of bindings: nested ones are spliced in, unchanged ones are kept."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilesmith.relax.expr import Binding, BindingBlock, DataflowBlock, SeqExpr

__all__ = ["flatten_blocks", "with_blocks"]


def with_blocks(sequence: SeqExpr, blocks: list[BindingBlock], body: Any) -> SeqExpr:
    """Return a sequence with other blocks and result; the same object if none of them differs."""
    unchanged = body is sequence.body and len(blocks) == len(sequence.blocks)
    if unchanged and all(a is b for a, b in zip(blocks, sequence.blocks)):
        return sequence
    return SeqExpr(flatten_blocks(blocks), body, sequence.span)


def flatten_blocks(blocks: Iterable[BindingBlock]) -> tuple[BindingBlock, ...]:
    """Return blocks in which no value is a sequence: nested sequences are spliced in, and adjacent
    blocks of the same kind are joined.
    """
    result: list[BindingBlock] = []
    for block in blocks:
        pieces = _without_sequences(block)
        for piece in pieces:
            if not piece.bindings:
                continue
            if result and type(result[-1]) is type(piece) and not isinstance(piece, DataflowBlock):
                joined = (*result[-1].bindings, *piece.bindings)
                result[-1] = BindingBlock(joined, result[-1].span)
            else:
                result.append(piece)
    return tuple(result)


def _without_sequences(block: BindingBlock) -> list[BindingBlock]:
    if not any(isinstance(binding.value, SeqExpr) for binding in block.bindings):
        return [block]
    kind = type(block)
    pieces: list[BindingBlock] = []
    pending: list[Binding] = []
    for binding in block.bindings:
        if isinstance(binding.value, SeqExpr):
            inner = flatten_blocks(binding.value.blocks)
            if kind is DataflowBlock:
                pending += [item for piece in inner for item in piece.bindings]
            else:
                pieces += [kind(tuple(pending)), *inner]
                pending = []
            binding = binding.with_fields(value=binding.value.body)
        pending.append(binding)
    pieces.append(kind(tuple(pending)))
    return pieces

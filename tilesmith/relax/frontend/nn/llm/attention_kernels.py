"""Attention of queries to keys and values of sequences of different lengths, in one pass over the
keys (online softmax, arXiv:1805.02867), as kernels for the CPU.

Scores are kept in base 2. ``lse``, the logarithm of the sum of their exponentials, lets callers
join the attention over several sets of keys.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilesmith import tir
from tilesmith.relax.frontend.nn.llm.position_embedding import rotated
from tilesmith.script import tir as T

__all__ = ["LOG2_E", "Rotary", "attend", "finish", "of_pages", "of_rows", "turned", "wide"]

LOG2_E = math.log2(math.e)

Read = Callable[[Any, Any], Any]
"""Gives feature ``f`` of token ``j`` of a sequence."""


@dataclass(frozen=True)
class Rotary:
    """How features are turned by their positions, where ``mode`` is 1."""

    frequencies: Callable[..., Any]
    features: int
    mode: Any
    scale: Any
    theta: Any


def of_rows(buffer: Any, first: Any, head: Any) -> Read:
    """Return what reads a sequence whose tokens are rows from ``first`` on."""
    return lambda j, f: buffer[first + j, head, f]


def of_pages(pages: Any, table: Any, first: Any, which: int, head: Any) -> Read:
    """Return what reads a sequence whose pages stand in a table from ``first`` on; ``which`` is 0
    for keys and 1 for values.
    """
    size = pages.shape[3]
    return lambda j, f: pages[table[first + j // size], which, head, j % size, f]


def wide(read: Read) -> Read:
    """Return what reads float32."""
    return lambda j, f: tir.Cast("float32", read(j, f))


def turned(read: Read, position: Callable[[Any], Any], rotary: Rotary) -> Read:
    """Return what reads float32, turned by the positions of tokens."""
    exact = wide(read)

    def run(j: Any, f: Any) -> Any:
        at = (tir.Cast("float32", position(j)) * rotary.scale, f, rotary.features)
        turned_feature = rotated(
            lambda x: exact(j, x), at, rotary.frequencies, rotary.theta, "float32"
        )
        return tir.if_then_else(rotary.mode == 1, turned_feature, exact(j, f))

    return run


@T.macro
def attend(features, load_q, load_k, load_v, is_visible, keys, i, scale, state, total):
    """Let query ``i`` look at all keys that it may see. ``state`` becomes the largest score, the
    sum of weights, and scratch; ``total`` the weighted values.
    """
    state[0] = T.float32(-5e4)
    state[1] = T.float32(0)
    for f in T.serial(features):
        total[f] = T.float32(0)
    for j in T.serial(keys):
        if is_visible(j):
            state[2] = T.float32(0)
            for f in T.serial(features):
                state[2] = state[2] + load_q(i, f) * load_k(j, f)
            state[2] = state[2] * scale
            state[3] = T.max(state[0], state[2])
            state[0] = T.exp2(state[0] - state[3])
            state[2] = T.exp2(state[2] - state[3])
            state[1] = state[1] * state[0] + state[2]
            for f in T.serial(features):
                total[f] = total[f] * state[0] + state[2] * load_v(j, f)
            state[0] = state[3]


@T.macro
def finish(features, output, lse, row, head, state, total, dtype):
    """Write what a query has found; nothing seen gives zeros."""
    for f in T.serial(features):
        output[row, head, f] = T.Cast(dtype, total[f] / T.max(state[1], T.float32(1e-30)))
    lse[row, head] = state[0] + T.log2(T.max(state[1], T.float32(1e-30)))

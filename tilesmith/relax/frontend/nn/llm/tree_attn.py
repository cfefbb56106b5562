"""Attention of tokens that form trees: guesses of how a text goes on, one of which is taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.relax.frontend.nn.llm.attention_kernels import (
    LOG2_E,
    Rotary,
    attend,
    finish,
    of_pages,
    of_rows,
    turned,
    wide,
)
from tilesmith.relax.frontend.nn.llm.position_embedding import switch_rope_freq_func
from tilesmith.script import tir as T
from tilesmith.support.errors import ShapeError, UnsupportedError
from tilesmith.target import Target
from tilesmith.target.back_end import find_back_end
from tilesmith.tir import PrimFunc

__all__ = [
    "PAGE_SIZE",
    "check_heads",
    "paged_attention",
    "tree_attn",
    "tree_attn_with_paged_kv_cache",
]

PAGE_SIZE = 16
"""Tokens of a page of `tree_attn_with_paged_kv_cache`."""


def check_heads(h_kv: int, h_q: int, d: int, target: Any) -> None:
    """Raise an error for heads or targets that the kernels cannot serve."""
    if h_kv < 1 or h_q % h_kv:
        raise ShapeError(f"{h_q} heads of queries cannot share {h_kv} heads of keys")
    if d < 2 or d % 2:
        raise ShapeError(f"heads of {d} features cannot be turned in pairs")
    record = find_back_end(Target(target))
    if record is None or record.is_device:
        raise UnsupportedError(
            f"attention kernels are written for CPUs, got the target '{target}'",
            notes=("whole models run on 'llvm' and 'c' so far",),
        )


def tree_attn(
    h_kv: int, h_q: int, d: int, dtype: str, rope_scaling: dict[str, Any], target: Any
) -> PrimFunc:
    """Return the kernel of attention among the tokens of trees.

        batch_tree_attn(q, q_indptr, k, v, kv_indptr, q_rope_position, mn_indptr, mask, output, lse,
                        rotary_mode, rope_scale, rope_theta, attn_score_scaling_factor)

    Tree ``b`` has the rows from ``q_indptr[b]`` to ``q_indptr[b + 1]``; its mask, a row for each
    query, begins at ``mn_indptr[b]`` and is not 0 where a query sees a key.
    """
    check_heads(h_kv, h_q, d, target)
    frequencies, group = switch_rope_freq_func(rope_scaling), h_q // h_kv

    # fmt: off
    @T.prim_func
    def batch_tree_attn(
        var_q: T.handle, var_q_indptr: T.handle, var_k: T.handle, var_v: T.handle,
        var_kv_indptr: T.handle, var_q_rope_position: T.handle, var_mn_indptr: T.handle,
        var_mask: T.handle, var_output: T.handle, var_lse: T.handle, rotary_mode: T.int32,
        rope_scale: T.float32, rope_theta: T.float32, attn_score_scaling_factor: T.float32,
    ):
        # fmt: on
        T.func_attr({"tir.is_scheduled": True})
        queries = T.int32(is_size_var=True)
        keys = T.int32(is_size_var=True)
        bounds = T.int32(is_size_var=True)
        marks = T.int32(is_size_var=True)
        q = T.match_buffer(var_q, (queries, h_q, d), dtype)
        q_indptr = T.match_buffer(var_q_indptr, (bounds,), "int32")
        k = T.match_buffer(var_k, (keys, h_kv, d), dtype)
        v = T.match_buffer(var_v, (keys, h_kv, d), dtype)
        kv_indptr = T.match_buffer(var_kv_indptr, (bounds,), "int32")
        positions = T.match_buffer(var_q_rope_position, (queries,), "int32")
        mn_indptr = T.match_buffer(var_mn_indptr, (bounds,), "int32")
        mask = T.match_buffer(var_mask, (marks,), "int32")
        output = T.match_buffer(var_output, (queries, h_q, d), dtype)
        lse = T.match_buffer(var_lse, (queries, h_q), "float32")
        for h in T.parallel(h_q):
            for b in T.serial(bounds - 1):
                for i in T.serial(q_indptr[b + 1] - q_indptr[b]):
                    state = T.decl_buffer((4,), "float32", scope="local")
                    total = T.decl_buffer((d,), "float32", scope="local")
                    row = T.meta_var(q_indptr[b] + i)
                    first = T.meta_var(kv_indptr[b])
                    count = T.meta_var(kv_indptr[b + 1] - kv_indptr[b])
                    rotary = T.meta_var(Rotary(frequencies, d, rotary_mode, rope_scale, rope_theta))
                    attend(
                        d,
                        turned(of_rows(q, q_indptr[b], h), _plus(positions, q_indptr[b]), rotary),
                        turned(of_rows(k, first, h // group), _plus(positions, first), rotary),
                        wide(of_rows(v, first, h // group)),
                        _marked(mask, mn_indptr[b] + i * count),
                        count, i, attn_score_scaling_factor * T.float32(LOG2_E), state, total,
                    )  # fmt: skip
                    finish(d, output, lse, row, h, state, total, dtype)

    made: PrimFunc = batch_tree_attn
    return made


def tree_attn_with_paged_kv_cache(
    h_kv: int, h_q: int, d: int, dtype: str, rope_scaling: dict[str, Any], target: Any
) -> PrimFunc:
    """Return the kernel of attention of trees of tokens to paged keys and values, which end with
    those of the tokens themselves.

        tree_attn_paged_kv(layer, q, q_indptr, pages, page_indptr, page_values, length_info,
                           k_rope_pos_offset, q_rope_position, output, lse, rotary_mode, rope_scale,
                           rope_theta, attn_score_scaling_factor, tree_order_indptr, tree_order)

    ``tree_order`` has for each token its numbers before and after those below it; a token sees
    those above it, and all that came before the tree.
    """
    check_heads(h_kv, h_q, d, target)
    frequencies, group = switch_rope_freq_func(rope_scaling), h_q // h_kv

    # fmt: off
    @T.prim_func
    def tree_attn_paged_kv(
        layer: T.int32, var_q: T.handle, var_q_indptr: T.handle, var_pages: T.handle,
        var_page_indptr: T.handle, var_page_values: T.handle, var_length_info: T.handle,
        var_k_rope_pos_offset: T.handle, var_q_rope_position: T.handle,
        var_output: T.handle, var_lse: T.handle, rotary_mode: T.int32,
        rope_scale: T.float32, rope_theta: T.float32, attn_score_scaling_factor: T.float32,
        var_tree_order_indptr: T.handle, var_tree_order: T.handle,
    ):
        # fmt: on
        T.func_attr({"tir.is_scheduled": True})
        queries = T.int32(is_size_var=True)
        bounds = T.int32(is_size_var=True)
        batch = T.int32(is_size_var=True)
        all_pages = T.int32(is_size_var=True)
        used_pages = T.int32(is_size_var=True)
        q = T.match_buffer(var_q, (queries, h_q, d), dtype)
        q_indptr = T.match_buffer(var_q_indptr, (bounds,), "int32")
        pages = T.match_buffer(var_pages, (all_pages, 2, h_kv, PAGE_SIZE, d), dtype)
        page_indptr = T.match_buffer(var_page_indptr, (bounds,), "int32")
        page_values = T.match_buffer(var_page_values, (used_pages,), "int32")
        length_info = T.match_buffer(var_length_info, (batch,), "int32")
        k_offset = T.match_buffer(var_k_rope_pos_offset, (batch,), "int32")
        positions = T.match_buffer(var_q_rope_position, (queries,), "int32")
        output = T.match_buffer(var_output, (queries, h_q, d), dtype)
        lse = T.match_buffer(var_lse, (queries, h_q), "float32")
        order_indptr = T.match_buffer(var_tree_order_indptr, (bounds,), "int32")
        order = T.match_buffer(var_tree_order, (queries, 2), "int32")
        for h in T.parallel(h_q):
            for b in T.serial(bounds - 1):
                for i in T.serial(q_indptr[b + 1] - q_indptr[b]):
                    state = T.decl_buffer((4,), "float32", scope="local")
                    total = T.decl_buffer((d,), "float32", scope="local")
                    count = T.meta_var(
                        (page_indptr[b + 1] - page_indptr[b] - 1) * PAGE_SIZE + length_info[b]
                    )
                    before = T.meta_var(count - (order_indptr[b + 1] - order_indptr[b]))
                    rotary = T.meta_var(Rotary(frequencies, d, rotary_mode, rope_scale, rope_theta))
                    own = T.meta_var(_plus(positions, q_indptr[b]))
                    keys = T.meta_var(of_pages(pages, page_values, page_indptr[b], 0, h // group))
                    values = T.meta_var(of_pages(pages, page_values, page_indptr[b], 1, h // group))
                    attend(
                        d,
                        turned(of_rows(q, q_indptr[b], h), own, rotary),
                        turned(keys, _positions(own, k_offset[b], before), rotary),
                        wide(values),
                        _sees(order, order_indptr[b], i, before),
                        count, i, attn_score_scaling_factor * T.float32(LOG2_E), state, total,
                    )  # fmt: skip
                    finish(d, output, lse, q_indptr[b] + i, h, state, total, dtype)

    made: PrimFunc = tree_attn_paged_kv
    return made


def _plus(buffer: Any, first: Any) -> Callable[[Any], Any]:
    """Return what reads the elements of a buffer from ``first`` on."""
    return lambda j: buffer[first + j]


def _marked(mask: Any, first: Any) -> Callable[[Any], Any]:
    """Return which keys a row of a mask shows."""
    return lambda j: mask[first + j] != 0


def _positions(own: Callable[[Any], Any], offset: Any, before: Any) -> Callable[[Any], Any]:
    """Return the positions of ``before`` tokens in order, and of the tree that follows them."""
    return lambda j: T.if_then_else(j < before, offset + j, own(j - before))


def _sees(order: Any, first: Any, i: Any, before: Any) -> Callable[[Any], Any]:
    """Return which keys token ``i`` of a tree sees: all before the tree, itself, and those whose
    numbers enclose its own.
    """

    def run(j: Any) -> Any:
        other = first + j - before
        inside = T.And(
            order[other, 0] <= order[first + i, 0], order[other, 1] >= order[first + i, 1]
        )
        return T.if_then_else(j < before, T.bool(True), inside)

    return run


def _itself(j: Any) -> Any:
    return j


def _up_to(last: Any) -> Callable[[Any], Any]:
    """Return which keys a token at a position sees."""
    return lambda j: j <= last


def paged_attention(
    h_kv: int,
    h_q: int,
    d: int,
    dtype: str,
    page_size: int,
    settings: tuple[bool, float, float, dict[str, Any]],
) -> PrimFunc:
    """Return the kernel of causal attention to paged keys and values, which end with those of the
    queries themselves. ``settings``: whether queries and keys are turned here; scale, theta and
    scaling.

    paged_attention(q, q_indptr, pages, page_indptr, page_values, length_info, q_rope_position,
                    attn_score_scaling_factor, output, lse)
    """
    turns, rope_scale, rope_theta, scaling = settings
    frequencies, group = switch_rope_freq_func(scaling), h_q // h_kv
    rotary = Rotary(frequencies, d, T.int32(int(turns)), T.float32(rope_scale), rope_theta)

    # fmt: off
    @T.prim_func(private=True)
    def kernel(
        var_q: T.handle, var_q_indptr: T.handle, var_pages: T.handle,
        var_page_indptr: T.handle, var_page_values: T.handle, var_length_info: T.handle,
        var_positions: T.handle, var_factor: T.handle, var_output: T.handle,
        var_lse: T.handle,
    ):
        # fmt: on
        T.func_attr({"tir.is_scheduled": True})
        queries = T.int64(is_size_var=True)
        bounds = T.int64(is_size_var=True)
        batch = T.int64(is_size_var=True)
        all_pages = T.int64(is_size_var=True)
        used_pages = T.int64(is_size_var=True)
        q = T.match_buffer(var_q, (queries, h_q, d), dtype)
        q_indptr = T.match_buffer(var_q_indptr, (bounds,), "int32")
        pages = T.match_buffer(var_pages, (all_pages, 2, h_kv, page_size, d), dtype)
        page_indptr = T.match_buffer(var_page_indptr, (bounds,), "int32")
        page_values = T.match_buffer(var_page_values, (used_pages,), "int32")
        length_info = T.match_buffer(var_length_info, (batch,), "int32")
        positions = T.match_buffer(var_positions, (queries,), "int32")
        factor = T.match_buffer(var_factor, (1,), "float32")
        output = T.match_buffer(var_output, (queries, h_q, d), dtype)
        lse = T.match_buffer(var_lse, (queries, h_q), "float32")
        for h in T.parallel(h_q):
            for b in T.serial(bounds - T.int64(1)):
                for i in T.serial(q_indptr[b + 1] - q_indptr[b]):
                    state = T.decl_buffer((4,), "float32", scope="local")
                    total = T.decl_buffer((d,), "float32", scope="local")
                    row = T.meta_var(q_indptr[b] + i)
                    count = T.meta_var(
                        (page_indptr[b + 1] - page_indptr[b] - 1) * page_size + length_info[b]
                    )
                    first = T.meta_var(page_indptr[b])
                    attend(
                        d,
                        turned(of_rows(q, q_indptr[b], h), _plus(positions, q_indptr[b]), rotary),
                        turned(of_pages(pages, page_values, first, 0, h // group), _itself, rotary),
                        wide(of_pages(pages, page_values, first, 1, h // group)),
                        _up_to(positions[row]),
                        count, i, factor[0] * T.float32(LOG2_E), state, total,
                    )  # fmt: skip
                    finish(d, output, lse, row, h, state, total, dtype)

    made: PrimFunc = kernel
    return made

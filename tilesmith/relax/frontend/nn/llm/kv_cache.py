"""Paged caches of keys and values of many sequences.

    def create_cache(self, max_batch_size: tir.Var, …) -> PagedKVCache:          # a method
        return TIRPagedKVCache(max_batch_size=max_batch_size, …)

    def decode(self, x: Tensor, cache: PagedKVCache):
        …
        x = cache.attention_with_fused_qkv(layer, qkv, num_qo_heads)

The runtime keeps the pages (`runtime.paged_cache`); the kernels are functions of the module.
Between calls the user manages sequences by registered functions:
``vm.builtin.kv_state_add_sequence``, ``…_begin_forward``, and so on.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from tilesmith.ir import PrimExpr
from tilesmith.ir import Var as SymbolicVar
from tilesmith.relax import op as graph
from tilesmith.relax.expr import ExternFunc, PrimValue, ShapeExpr, StringImm, Var
from tilesmith.relax.frontend.nn import core
from tilesmith.relax.frontend.nn.core import Object, Tensor
from tilesmith.relax.frontend.nn.llm.position_embedding import llama_rope_with_position_map
from tilesmith.relax.frontend.nn.llm.tree_attn import check_heads, paged_attention
from tilesmith.relax.frontend.nn.op import reshape
from tilesmith.relax.struct_info import ObjectStructInfo, TensorStructInfo
from tilesmith.support.errors import ShapeError, TargetError, UnsupportedError
from tilesmith.target import Target
from tilesmith.target.gpu_machine import max_threads_per_block

__all__ = [
    "PagedKVCache", "RopeMode", "TIRPagedKVCache", "check_thread_limits",
    "get_max_num_threads_per_block",
]  # fmt: skip


def get_max_num_threads_per_block(target: Any) -> int:
    """Return how many threads a block of a target may have; for a CPU 1."""
    return max_threads_per_block(Target(target)) or 1


def check_thread_limits(target: Any, bdx: int, bdy: int, bdz: int, gdz: int) -> None:
    """Raise TargetError for more threads in a block than a target has, or no blocks along z."""
    most = get_max_num_threads_per_block(target)
    if bdx * bdy * bdz > most:
        raise TargetError(
            f"{bdx} * {bdy} * {bdz} threads in a block, but {Target(target).kind.name} has "
            f"{most} at most"
        )
    if gdz < 1:
        raise TargetError(f"there is at least one block along z, got {gdz}")


class RopeMode(enum.IntEnum):
    """Where rotary positions are applied: nowhere, before keys are stored, when they are read."""

    NONE = 0
    NORMAL = 1
    INLINE = 2


class PagedKVCache(Object):
    """A cache of keys and values, as methods take it (`spec.Object(PagedKVCache)`)."""

    def attention_with_fused_qkv(
        self,
        layer_id: int,
        qkv: Tensor,
        num_qo_heads: int,
        attn_score_scaling_factor: float = 1.0,
    ) -> Tensor:
        """Store the keys and values of new tokens, and return their queries' attention to all that
        is stored of their sequences: (batch, sequence, heads, features).

        ``qkv`` (batch, sequence, heads of all three, features) has the tokens of all sequences in
        a row. Scores are times ``attn_score_scaling_factor`` and divided by the square root of the
        number of features.
        """
        if qkv.ndim != 4:
            raise ShapeError(
                f"attention_with_fused_qkv takes (batch, sequence, heads, features), got "
                f"{qkv.shape}"
            )
        batch, length, heads, features = qkv.shape
        factor = attn_score_scaling_factor * int(features) ** -0.5
        rows = reshape(qkv, [batch * length, heads, features])
        made = graph.call_dps_packed(
            "vm.builtin.attention_kv_cache_attention_with_fused_qkv",
            [self._expr, PrimValue(int(layer_id)), _number(factor), core.as_expression(rows)],
            TensorStructInfo([batch * length, num_qo_heads, features], qkv.dtype),
        )
        found = Tensor(_expr=core.current_builder().emit(made, "attention"))
        return reshape(found, [batch, length, num_qo_heads, features])

    def get_query_positions(self, total_length: PrimExpr) -> Tensor:
        """Return the positions of the new tokens in their sequences (total_length)."""
        made = graph.call_pure_packed(
            ExternFunc("vm.builtin.attention_kv_cache_get_query_positions"),
            self._expr,
            sinfo_args=[TensorStructInfo([total_length], "int32")],
        )
        return Tensor(_expr=core.current_builder().emit(made, "positions"))


def _number(value: float) -> PrimValue:
    from tilesmith.ir import const

    return PrimValue(const(value, "float32"))


class TIRPagedKVCache(PagedKVCache):
    """A paged cache whose kernels are tensor programs; making one emits its creation."""

    def __init__(
        self,
        rope_mode: RopeMode,
        max_batch_size: Any,
        max_total_seq_len: Any,
        prefill_chunk_size: Any,
        page_size: int,
        support_sliding_window: Any,
        layer_partition: Sequence[int] | ShapeExpr,
        num_hidden_layers: int,
        num_attention_heads: int,
        num_key_value_heads: int,
        head_dim: int,
        rope_scale: float,
        rope_theta: float,
        rope_scaling: dict[str, Any],
        rope_ext_factors: Any,
        rotary_dim: int | None,
        dtype: str,
        target: Any,
        name: str = "paged_kv_cache",
    ) -> None:
        check_heads(num_key_value_heads, num_attention_heads, head_dim, target)
        # factors belong to this scaling; programs give an empty tensor with others
        if (rope_scaling or {}).get("rope_type") == "longrope":
            raise UnsupportedError(
                "a paged cache cannot scale rotary positions by 'longrope'",
                notes=("RopeMode.NONE, and llama_rope_with_position_map before the cache",),
            )
        if not isinstance(page_size, int):
            raise UnsupportedError(
                f"page_size is a number that is known when the module is exported, got {page_size}",
                notes=("kernels have the size of a page in their loops",),
            )
        if rotary_dim not in (None, head_dim) and rope_mode is RopeMode.INLINE:
            raise UnsupportedError(
                "RopeMode.INLINE turns whole heads", notes=("use RopeMode.NORMAL for a rotary_dim",)
            )
        heads = (num_attention_heads, num_key_value_heads, head_dim)
        rope = (rope_theta, rope_scale, rope_scaling, rotary_dim)
        mode = RopeMode(rope_mode)
        builder = core.current_builder()
        settings = [
            ShapeExpr(
                [max_batch_size, max_total_seq_len, prefill_chunk_size, page_size,
                 support_sliding_window]
            ),
            ShapeExpr([num_hidden_layers, *heads]),
            StringImm(dtype),
        ]  # fmt: skip
        made = graph.call_pure_packed(
            ExternFunc("vm.builtin.paged_attention_kv_cache_create"),
            *settings,
            _split_function(builder, name, heads, dtype, mode, rope),
            _attention_function(builder, name, heads, dtype, page_size, mode, rope),
            sinfo_args=[ObjectStructInfo()],
        )
        super().__init__(_expr=builder.emit(made, name), _name=name)


def _split_function(
    builder: Any, name: str, heads: tuple[int, int, int], dtype: str, mode: RopeMode, rope: Any
) -> Any:
    """Add the function that divides new tokens into queries, keys and values, and turns them."""
    q_heads, kv_heads, features = heads
    theta, scale, scaling, rotary_dim = rope
    kernel = llama_rope_with_position_map(
        theta, scale, features, q_heads, kv_heads, dtype, scaling, rotary_dim
    )
    kernel = kernel.without_attr("global_symbol")
    variable = builder.add_func(kernel, f"{name}_split_kernel")
    length = SymbolicVar("n", "int64")
    qkv = Var("qkv", TensorStructInfo([length, q_heads + 2 * kv_heads, features], dtype))
    positions = Var("positions", TensorStructInfo([length], "int32"))
    infos = [TensorStructInfo([length, n, features], dtype) for n in (q_heads, kv_heads, kv_heads)]
    applies = ShapeExpr([int(mode is RopeMode.NORMAL)])
    with builder.function(f"{name}_split", [qkv, positions]):
        with builder.dataflow():
            parts = builder.emit(graph.call_tir(variable, [qkv, positions], infos, applies))
            result = builder.emit_output(parts)
        return builder.emit_func_output(result)


def _attention_function(
    builder: Any,
    name: str,
    heads: tuple[int, int, int],
    dtype: str,
    page_size: int,
    mode: RopeMode,
    rope: Any,
) -> Any:
    """Add the function of attention to pages."""
    q_heads, kv_heads, features = heads
    theta, scale, scaling, _ = rope
    kernel = paged_attention(
        kv_heads, q_heads, features, dtype, page_size,
        (mode is RopeMode.INLINE, scale, theta, scaling),
    )  # fmt: skip
    variable = builder.add_func(kernel, f"{name}_attention_kernel")
    rows, bounds, batch, pages, used = [
        SymbolicVar(word, "int64") for word in ("n", "bounds", "batch", "pages", "used")
    ]
    shapes: list[tuple[str, list[Any], str]] = [
        ("q", [rows, q_heads, features], dtype),
        ("q_indptr", [bounds], "int32"),
        ("pages", [pages, 2, kv_heads, page_size, features], dtype),
        ("page_indptr", [bounds], "int32"),
        ("page_values", [used], "int32"),
        ("length_info", [batch], "int32"),
        ("positions", [rows], "int32"),
        ("factor", [1], "float32"),
    ]
    params = [Var(word, TensorStructInfo(shape, kind)) for word, shape, kind in shapes]
    infos = [
        TensorStructInfo([rows, q_heads, features], dtype),
        TensorStructInfo([rows, q_heads], "float32"),
    ]
    with builder.function(f"{name}_attention", params):
        with builder.dataflow():
            both = builder.emit(graph.call_tir(variable, params, infos))
            result = builder.emit_output(both[0])
        return builder.emit_func_output(result)

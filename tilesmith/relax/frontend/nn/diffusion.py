"""Layers of diffusion models: embeddings of times, attention with a context."""

from __future__ import annotations

from typing import Any

from tilesmith.relax.frontend.nn import op
from tilesmith.relax.frontend.nn.core import Module, ModuleList, Tensor
from tilesmith.relax.frontend.nn.layers import GroupNorm, Identity, Linear, activation
from tilesmith.support.errors import ShapeError, UnsupportedError

__all__ = ["Attention", "TimestepEmbedding", "Timesteps"]


class TimestepEmbedding(Module):
    """Two linear layers with an activation between; a condition is added before."""

    def __init__(
        self,
        in_channels: int,
        time_embed_dim: int,
        act_fn: str = "silu",
        out_dim: int | None = None,
        post_act_fn: str | None = None,
        cond_proj_dim: int | None = None,
    ) -> None:
        super().__init__()
        self.linear_1 = Linear(in_channels, time_embed_dim)
        self.cond_proj = None
        if cond_proj_dim is not None:
            self.cond_proj = Linear(cond_proj_dim, in_channels, bias=False)
        self.act = activation(act_fn)
        self.linear_2 = Linear(time_embed_dim, time_embed_dim if out_dim is None else out_dim)
        self.post_act = None if post_act_fn is None else activation(post_act_fn)

    def forward(self, sample: Tensor, condition: Tensor | None = None) -> Tensor:
        """Return the layer's result."""
        if condition is not None:
            if self.cond_proj is None:
                raise UnsupportedError(
                    "TimestepEmbedding: a condition needs cond_proj_dim, which was not given"
                )
            sample = sample + self.cond_proj(condition)
        result: Tensor = self.linear_2(self.act(self.linear_1(sample)))
        return result if self.post_act is None else self.post_act(result)


class Timesteps(Module):
    """Sines and cosines of times."""

    def __init__(
        self,
        num_channels: int,
        flip_sin_to_cos: bool = False,
        downscale_freq_shift: float = 1,
    ) -> None:
        super().__init__()
        self.num_channels = num_channels
        self.flip_sin_to_cos = flip_sin_to_cos
        self.downscale_freq_shift = downscale_freq_shift

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's result."""
        return op.get_timestep_embedding(
            x,
            embedding_dim=self.num_channels,
            flip_sin_to_cos=self.flip_sin_to_cos,
            downscale_freq_shift=self.downscale_freq_shift,
        )


class Attention(Module):
    """Attention of a sequence to itself, or to a context: (batch, sequence, features)."""

    def __init__(
        self,
        query_dim: int,
        cross_attention_dim: int | None = None,
        heads: int = 8,
        dim_head: int = 64,
        bias: bool = False,
        norm_num_groups: int | None = None,
        out_bias: bool = True,
        scale_qk: bool = True,
    ) -> None:
        super().__init__()
        inner, context = dim_head * heads, cross_attention_dim or query_dim
        self.inner_dim = inner
        self.cross_attention_dim = context
        self.heads = heads
        self.scale = dim_head**-0.5 if scale_qk else 1.0
        self.group_norm = None
        if norm_num_groups is not None:
            self.group_norm = GroupNorm(num_channels=query_dim, num_groups=norm_num_groups)
        self.to_q = Linear(query_dim, inner, bias=bias)
        self.to_k = Linear(context, inner, bias=bias)
        self.to_v = Linear(context, inner, bias=bias)
        self.to_out = ModuleList([Linear(inner, query_dim, bias=out_bias), Identity()])

    def forward(
        self,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        **cross_attention_kwargs: Any,
    ) -> Tensor:
        """Return the layer's result."""
        if cross_attention_kwargs:
            raise UnsupportedError(
                f"Attention knows no argument '{next(iter(cross_attention_kwargs))}'"
            )
        if hidden_states.ndim != 3:
            raise ShapeError(
                f"Attention takes (batch, sequence, features), got {hidden_states.shape}"
            )
        if self.group_norm is not None:
            hidden_states = self.group_norm(hidden_states, channel_axis=2, axes=[1])
        context = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        query, key, value = [
            self._heads(layer(source))
            for layer, source in (
                (self.to_q, hidden_states), (self.to_k, context), (self.to_v, context),
            )
        ]  # fmt: skip
        result = op.scaled_dot_product_attention(
            query, key, value, attn_mask=attention_mask, scale=self.scale
        )
        batch, length = hidden_states.shape[:2]
        made: Tensor = self.to_out(op.reshape(result, [batch, length, self.inner_dim]))
        return made

    def _heads(self, x: Tensor) -> Tensor:
        """Divide the features among the heads."""
        batch, length = x.shape[:2]
        return op.reshape(x, [batch, length, self.heads, self.inner_dim // self.heads])

"""A small Llama-style decoder in relax.frontend.nn: it writes tokens as its torch version does.

python examples/llama.py
"""

import torch

from tilesmith import te, tir
from tilesmith.relax.frontend import nn
from tilesmith.relax.frontend.nn import op, spec
from tilesmith.relax.frontend.nn.llm.position_embedding import llama_rope

LAYERS, HIDDEN, INNER, VOCABULARY = 2, 64, 128, 100
HEADS, KV_HEADS, HEAD_DIM, THETA, EPSILON = 4, 2, 16, 10000.0, 1e-5


class Attention(nn.Module):
    """Grouped-query attention with rotary positions; keys and values of earlier calls are kept."""

    def __init__(self):
        self.qkv_proj = nn.Linear(HIDDEN, (HEADS + 2 * KV_HEADS) * HEAD_DIM, bias=False)
        self.o_proj = nn.Linear(HEADS * HEAD_DIM, HIDDEN, bias=False)
        self.keys = nn.KVCache(16, [KV_HEADS, HEAD_DIM])
        self.values = nn.KVCache(16, [KV_HEADS, HEAD_DIM])

    def forward(self, x: nn.Tensor, mask: nn.Tensor, total: tir.Var) -> nn.Tensor:
        """Return the attention of new tokens to all ``total`` tokens."""
        batch, length, _ = x.shape
        qkv = self.qkv_proj(x).reshape(batch, length, HEADS + 2 * KV_HEADS, HEAD_DIM)
        q, k, v = llama_rope(qkv, total, THETA, 1.0, HEADS, KV_HEADS, {})
        seen = []
        for cache, new in ((self.keys, k), (self.values, v)):
            cache.append(op.squeeze(new, axis=0))
            seen.append(op.unsqueeze(cache.view(total), 0).repeat(HEADS // KV_HEADS, axis=2))
        found = op.scaled_dot_product_attention(q, *seen, attn_mask=mask)
        return self.o_proj(found.reshape(batch, length, HEADS * HEAD_DIM))


class Layer(nn.Module):
    """Attention, and a gated network (SwiGLU), each added to what it gets."""

    def __init__(self):
        self.input_norm = nn.RMSNorm(HIDDEN, -1, EPSILON, bias=False)
        self.attention = Attention()
        self.inner_norm = nn.RMSNorm(HIDDEN, -1, EPSILON, bias=False)
        self.gate_up_proj = nn.Linear(HIDDEN, 2 * INNER, bias=False)
        self.down_proj = nn.Linear(INNER, HIDDEN, bias=False)

    def forward(self, x: nn.Tensor, mask: nn.Tensor, total: tir.Var) -> nn.Tensor:
        """Return the layer's result."""
        x = x + self.attention(self.input_norm(x), mask, total)
        gate, up = op.split(self.gate_up_proj(self.inner_norm(x)), 2, axis=-1)
        return x + self.down_proj(op.silu(gate) * up)


class Decoder(nn.Module):
    """Token numbers in, a score for each token that may follow out."""

    def __init__(self):
        self.embedding = nn.Embedding(VOCABULARY, HIDDEN)
        self.layers = nn.ModuleList([Layer() for _ in range(LAYERS)])
        self.norm = nn.RMSNorm(HIDDEN, -1, EPSILON, bias=False)
        self.head = nn.Linear(HIDDEN, VOCABULARY, bias=False)

    def forward(self, tokens: nn.Tensor, total: tir.Var) -> nn.Tensor:
        """Return the scores after new tokens, the last of ``total``."""

        def causal(length, total):
            def element(b, h, i, j):
                is_seen = j <= i + (total - length)
                return tir.if_then_else(is_seen, tir.const(0, "float32"), tir.min_value("float32"))

            return te.compute((1, 1, length, total), element)

        x = self.embedding(tokens)
        mask = op.tensor_expr_op(causal, "causal_mask", [tokens.shape[1], total])
        for layer in self.layers:
            x = layer(x, mask, total)
        return self.head(self.norm(x))


def torch_decoder(weights: dict, tokens: torch.Tensor) -> torch.Tensor:
    """Return the same scores by plain torch, without a cache."""

    def norm(x, name):
        return weights[name] * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPSILON)

    def rotary(x):
        angles = torch.arange(x.shape[1])[:, None] / THETA ** (
            torch.arange(0, HEAD_DIM, 2) / HEAD_DIM
        )
        cos, sin = (torch.cat([f(angles)] * 2, -1)[:, None] for f in (torch.cos, torch.sin))
        first, second = x.chunk(2, -1)
        return x * cos + torch.cat([-second, first], -1) * sin

    x = weights["embedding.weight"][tokens.long()]
    for i in range(LAYERS):
        at = f"layers.{i}."
        qkv = norm(x, at + "input_norm.weight") @ weights[at + "attention.qkv_proj.weight"].T
        q, k, v = qkv.unflatten(-1, (-1, HEAD_DIM)).split([HEADS, KV_HEADS, KV_HEADS], 2)
        q, k, v = (t.transpose(1, 2) for t in (rotary(q), rotary(k), v))
        k, v = (t.repeat_interleave(HEADS // KV_HEADS, 1) for t in (k, v))
        found = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + found.transpose(1, 2).flatten(2) @ weights[at + "attention.o_proj.weight"].T
        inner = norm(x, at + "inner_norm.weight") @ weights[at + "gate_up_proj.weight"].T
        gate, up = inner.chunk(2, -1)
        x = x + (torch.nn.functional.silu(gate) * up) @ weights[at + "down_proj.weight"].T
    return norm(x, "norm.weight") @ weights["head.weight"].T


def main() -> None:
    """Write tokens with the compiled decoder and with torch, and compare."""
    torch.manual_seed(0)
    decoder = Decoder()
    weights = {
        name: torch.randn(parameter.shape) * (1.0 if "norm" in name else 0.2)
        for name, parameter in decoder.state_dict().items()
    }
    decoder.load_state_dict(weights)
    inputs = {"tokens": spec.Tensor([1, "n"], "int32"), "total": int}
    compiled = decoder.jit({"forward": inputs})

    text = torch.tensor([[7, 23, 42, 5, 61]], dtype=torch.int32)
    new, worst, written, expected = text, 0.0, [], []
    for _ in range(12):  # first the whole text, then one token at a time
        scores = compiled["forward"](new, text.shape[1])
        reference = torch_decoder(weights, text)
        worst = max(worst, (scores[0, -1] - reference[0, -1]).abs().max().item())
        new = scores[:, -1:].argmax(-1).int()
        written.append(new.item())
        expected.append(reference[0, -1].argmax().item())
        text = torch.cat([text, new], 1)
    print("tokens:", written)
    print("torch: ", expected)
    print(f"largest difference of scores: {worst:.1e}")


if __name__ == "__main__":
    main()

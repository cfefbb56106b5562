"""Well-known language models in plain torch, with random weights: their sizes are arguments, so
that tests take small ones.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


class BertLayer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = [nn.Linear(width, width) for _ in range(3)]
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-12), nn.LayerNorm(width, eps=1e-12)

    def forward(self, x, hidden):
        dim = x.shape[2] // self.heads
        split = (x.shape[0], x.shape[1], self.heads, dim)
        q, k, v = [f(x).view(split).transpose(1, 2) for f in (self.query, self.key, self.value)]
        scores = q @ k.transpose(-1, -2) / dim**0.5
        y = ((scores + hidden).softmax(-1) @ v).transpose(1, 2).flatten(2)
        x = self.norm1(x + self.out(y))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    def __init__(self, words: int, places: int, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width, 0), nn.Embedding(places, width)
        self.types, self.norm = nn.Embedding(2, width), nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList([BertLayer(width, heads) for _ in range(depth)])
        self.pooler = nn.Linear(width, width)

    def forward(self, tokens, mask):
        places = torch.arange(tokens.shape[1]).unsqueeze(0)
        types = torch.zeros_like(tokens)
        x = self.norm(self.words(tokens) + self.places(places) + self.types(types))
        hidden = (1.0 - mask[:, None, None, :].float()) * torch.finfo(torch.float32).min
        for layer in self.layers:
            x = layer(x, hidden)
        return x, torch.tanh(self.pooler(x[:, 0]))


class Gpt2Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x, key, value, seen):
        batch, new, width = x.shape
        split = (batch, new, self.heads, width // self.heads)
        q, k, v = [t.view(split).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(width, 2)]
        if key is None:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            k, v = torch.cat([key, k], 2), torch.cat([value, v], 2)
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        x = x + self.out(y.transpose(1, 2).reshape(batch, new, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh")), k, v


class Gpt2(nn.Module):
    """A decoder whose keys and values so far, layer by layer, are inputs and outputs."""

    def __init__(self, words: int, places: int, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(places, width)
        nn.init.normal_(self.words.weight, std=0.02)
        self.layers = nn.ModuleList([Gpt2Layer(width, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens, past=()):
        new, old = tokens.shape[1], past[0].shape[2] if past else 0
        places = torch.arange(old, old + new)
        x = self.words(tokens) + self.places(places)
        seen = torch.arange(old + new)[None] <= places[:, None]
        state = []
        for number, layer in enumerate(self.layers):
            key, value = past[2 * number : 2 * number + 2] if past else (None, None)
            x, key, value = layer(x, key, value, seen)
            state += [key, value]
        return (self.norm(x) @ self.words.weight.T, *state)


class RmsNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


def turned(x, cos, sin):
    """Rotate pairs of elements by angles that grow with the position."""
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


class LlamaLayer(nn.Module):
    def __init__(self, width: int, heads: int, groups: int, hidden: int, places: int) -> None:
        super().__init__()
        self.dim, narrow = width // heads, width // heads * groups
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, narrow, bias=False)
        self.value = nn.Linear(width, narrow, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up = [nn.Linear(width, hidden, bias=False) for _ in range(2)]
        self.down = nn.Linear(hidden, width, bias=False)
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)
        self.register_buffer("keys", torch.zeros(1, groups, places, self.dim))
        self.register_buffer("values", torch.zeros(1, groups, places, self.dim))

    def forward(self, x, places, cos, sin):
        new = x.shape[1]
        y = self.norm1(x)
        q, k, v = [
            f(y).view(1, new, -1, self.dim).transpose(1, 2)
            for f in (self.query, self.key, self.value)
        ]
        self.keys[:, :, places] = turned(k, cos, sin)
        self.values[:, :, places] = v
        seen = torch.arange(self.keys.shape[2])[None] <= places[:, None]
        y = F.scaled_dot_product_attention(
            turned(q, cos, sin), self.keys, self.values, attn_mask=seen, enable_gqa=True
        )
        x = x + self.out(y.transpose(1, 2).reshape(1, new, -1))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """A decoder with rotary positions and groups of queries, whose cache is in buffers."""

    def __init__(
        self, words: int, places: int, width: int, depth: int, heads: int, groups: int, hidden: int
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.layers = nn.ModuleList(
            [LlamaLayer(width, heads, groups, hidden, places) for _ in range(depth)]
        )
        self.norm, self.head = RmsNorm(width), nn.Linear(width, words, bias=False)
        dim = width // heads
        turns = 1 / 10000 ** (torch.arange(0, dim, 2) / dim)
        angles = torch.outer(torch.arange(float(places)), turns)
        angles = torch.cat([angles, angles], -1)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, tokens, places):
        x = self.words(tokens)
        cos, sin = self.cos[places], self.sin[places]
        for layer in self.layers:
            x = layer(x, places, cos, sin)
        return self.head(self.norm(x))


class T5Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.norm = heads, RmsNorm(width)
        self.query, self.key, self.value, self.out = [
            nn.Linear(width, width, bias=False) for _ in range(4)
        ]

    def forward(self, x, memory, bias):
        y = self.norm(x)
        memory = y if memory is None else memory
        q, k, v = [
            f(t).view(t.shape[0], -1, self.heads, t.shape[2] // self.heads).transpose(1, 2)
            for f, t in ((self.query, y), (self.key, memory), (self.value, memory))
        ]
        scores = q @ k.transpose(-1, -2)
        scores = scores if bias is None else scores + bias
        y = scores.float().softmax(-1).type_as(scores) @ v
        return x + self.out(y.transpose(1, 2).flatten(2))


class T5Forward(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.norm, self.up = RmsNorm(width), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return x + self.down(F.relu(self.up(self.norm(x))))


class T5(nn.Module):
    """An encoder and a decoder with relative positions in buckets."""

    def __init__(self, words: int, width: int, depth: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.words, self.bias = nn.Embedding(words, width), nn.Embedding(8, heads)
        nn.init.normal_(self.words.weight, std=0.02)
        self.encoder = nn.ModuleList()
        self.decoder = nn.ModuleList()
        for _ in range(depth):
            self.encoder += [T5Attention(width, heads), T5Forward(width, hidden)]
            self.decoder += [
                T5Attention(width, heads), T5Attention(width, heads), T5Forward(width, hidden)
            ]  # fmt: skip
        self.norm, self.last = RmsNorm(width), RmsNorm(width)

    def positions(self, count: int):
        distance = torch.arange(count)[None] - torch.arange(count)[:, None]
        far = torch.where(distance < 0, 0, 4)
        distance = distance.abs()
        grown = 2 + (torch.log(distance.float().clamp(min=1) / 2) / 1.5 * 2).to(torch.long)
        bucket = far + torch.where(distance < 2, distance, torch.clamp(grown, max=3))
        return self.bias(bucket).permute(2, 0, 1)[None]

    def forward(self, source, target):
        x, bias = self.words(source), self.positions(source.shape[1])
        for attention, forward in zip(self.encoder[::2], self.encoder[1::2]):
            x = forward(attention(x, None, bias))
        memory = self.norm(x)
        y, count = self.words(target), target.shape[1]
        bias = self.positions(count) + torch.triu(torch.full((count, count), float("-inf")), 1)
        for own, cross, forward in zip(self.decoder[::3], self.decoder[1::3], self.decoder[2::3]):
            y = forward(cross(own(y, None, bias), memory, None))
        return self.last(y) @ self.words.weight.T


class LstmLanguageModel(nn.Module):
    def __init__(self, words: int, width: int, hidden: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, hidden, 2, batch_first=True)
        self.head = nn.Linear(hidden, words)

    def forward(self, tokens, hidden, cell):
        y, (hidden, cell) = self.lstm(self.words(tokens), (hidden, cell))
        return F.log_softmax(self.head(y), -1), hidden, cell

"""Small models with random weights, written in plain torch, of the kinds that people import."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


class BasicBlock(nn.Module):
    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        self.short = nn.Sequential()
        if stride != 1 or before != after:
            self.short = nn.Sequential(
                nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
            )

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.short(x))


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
        )  # fmt: skip
        self.blocks = nn.Sequential(BasicBlock(8, 8, 1), BasicBlock(8, 16, 2))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        return self.head(torch.flatten(self.pool(self.blocks(self.stem(x))), 1))


class SqueezeExcite(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(width, width // 4, 1), nn.Conv2d(width // 4, width, 1)

    def forward(self, x):
        scale = F.adaptive_avg_pool2d(x, 1)
        return x * F.hardsigmoid(self.up(F.relu(self.down(scale))))


class InvertedResidual(nn.Module):
    """The block of MobileNetV2, V3 and EfficientNet."""

    def __init__(self, width: int, expand: int, activation: type, squeeze: bool) -> None:
        super().__init__()
        hidden = width * expand
        parts = [
            nn.Conv2d(width, hidden, 1, bias=False), nn.BatchNorm2d(hidden), activation(),
            nn.Conv2d(hidden, hidden, 3, 1, 1, groups=hidden, bias=False), nn.BatchNorm2d(hidden),
            activation(),
        ]  # fmt: skip
        if squeeze:
            parts.append(SqueezeExcite(hidden))
        parts += [nn.Conv2d(hidden, width, 1, bias=False), nn.BatchNorm2d(width)]
        self.body = nn.Sequential(*parts)

    def forward(self, x):
        return x + self.body(x)


class MobileNet(nn.Module):
    def __init__(self, activation: type, squeeze: bool) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), activation()
        )
        self.blocks = nn.Sequential(
            InvertedResidual(8, 2, activation, squeeze), InvertedResidual(8, 4, activation, squeeze)
        )
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(8, 5))

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean([2, 3]))


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNeXt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 4, 4), LayerNorm2d(8, eps=1e-6))
        self.depthwise = nn.Conv2d(8, 8, 7, padding=3, groups=8)
        self.norm = nn.LayerNorm(8, eps=1e-6)
        self.up, self.down = nn.Linear(8, 32), nn.Linear(32, 8)
        self.scale = nn.Parameter(torch.full((8, 1, 1), 0.1))
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = self.stem(x)
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.down(F.gelu(self.up(y))).permute(0, 3, 1, 2)
        return self.head((x + self.scale * y).mean((-2, -1)))


class VisionTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 8, 8)
        self.token = nn.Parameter(torch.zeros(1, 1, 16))
        self.places = nn.Parameter(torch.randn(1, 17, 16) * 0.02)
        layer = nn.TransformerEncoderLayer(
            16, 4, 32, 0.1, "gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.encoder(x)[:, 0])


class Swin(nn.Module):
    """One block of windows and one of shifted windows, then patches are merged."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, 4)
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.bias = nn.Parameter(torch.randn(49, 2) * 0.02)
        grid = torch.stack(torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij"))
        flat = grid.flatten(1)
        relative = (flat[:, :, None] - flat[:, None, :]).permute(1, 2, 0) + 3
        self.register_buffer("index", relative[..., 0] * 7 + relative[..., 1])
        self.norm = nn.LayerNorm(8)
        self.merge = nn.Linear(32, 16, bias=False)

    def windows(self, x, shift: int):
        batch, height, width, channels = x.shape
        if shift:
            x = torch.roll(x, (-shift, -shift), (1, 2))
        x = x.view(batch, height // 4, 4, width // 4, 4, channels).permute(0, 1, 3, 2, 4, 5)
        x = x.reshape(-1, 16, channels)
        q, k, v = self.qkv(x).reshape(-1, 16, 3, 2, 4).permute(2, 0, 3, 1, 4)
        scores = (q * 0.5) @ k.transpose(-2, -1)
        scores = scores + self.bias[self.index.view(-1)].view(16, 16, 2).permute(2, 0, 1)
        y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(-1, 16, channels)
        y = self.out(y).view(batch, height // 4, width // 4, 4, 4, channels)
        y = y.permute(0, 1, 3, 2, 4, 5).reshape(batch, height, width, channels)
        return torch.roll(y, (shift, shift), (1, 2)) if shift else y

    def forward(self, x):
        x = self.patches(x).permute(0, 2, 3, 1)
        for shift in (0, 2):
            x = x + self.windows(self.norm(x), shift)
        parts = [x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)]
        return self.merge(torch.cat(parts, -1))


class Bert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, 16, padding_idx=0), nn.Embedding(32, 16)
        self.types, self.norm = nn.Embedding(2, 16), nn.LayerNorm(16, eps=1e-12)
        self.query, self.key, self.value = [nn.Linear(16, 16) for _ in range(3)]
        self.out, self.up, self.down = nn.Linear(16, 16), nn.Linear(16, 32), nn.Linear(32, 16)
        self.pooler = nn.Linear(16, 16)

    def forward(self, tokens, mask):
        places = torch.arange(tokens.shape[1]).unsqueeze(0)
        types = torch.zeros_like(tokens)
        x = self.norm(self.words(tokens) + self.places(places) + self.types(types))
        split = (*tokens.shape, 4, 4)
        q, k, v = [f(x).view(split).transpose(1, 2) for f in (self.query, self.key, self.value)]
        scores = q @ k.transpose(-1, -2) / 2.0
        hidden = (1.0 - mask[:, None, None, :].float()) * torch.finfo(torch.float32).min
        y = ((scores + hidden).softmax(-1) @ v).transpose(1, 2).flatten(2)
        x = self.norm(x + self.out(y))
        x = self.norm(x + self.down(F.gelu(self.up(x))))
        return x, torch.tanh(self.pooler(x[:, 0]))


class Gpt2(nn.Module):
    """One step of a decoder whose keys and values so far are inputs and outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, 16), nn.Embedding(32, 16)
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.up, self.down = nn.Linear(16, 64), nn.Linear(64, 16)
        self.norm1, self.norm2, self.norm = nn.LayerNorm(16), nn.LayerNorm(16), nn.LayerNorm(16)

    def forward(self, tokens, past_key, past_value):
        batch, new = tokens.shape
        old = past_key.shape[2]
        places = torch.arange(old, old + new)
        x = self.words(tokens) + self.places(places)
        q, k, v = self.qkv(self.norm1(x)).split(16, 2)
        q, k, v = [t.view(batch, new, 4, 4).transpose(1, 2) for t in (q, k, v)]
        k, v = torch.cat([past_key, k], 2), torch.cat([past_value, v], 2)
        seen = torch.arange(old + new)[None] <= places[:, None]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        x = x + self.out(y.transpose(1, 2).reshape(batch, new, 16))
        x = x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))
        return self.norm(x) @ self.words.weight.T, k, v


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


class Llama(nn.Module):
    """A decoder with rotary positions and groups of queries, whose cache is a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 16)
        self.query = nn.Linear(16, 16, bias=False)
        self.key, self.value = nn.Linear(16, 8, bias=False), nn.Linear(16, 8, bias=False)
        self.out, self.norm1, self.norm2 = nn.Linear(16, 16, bias=False), RmsNorm(16), RmsNorm(16)
        self.gate, self.up = nn.Linear(16, 32, bias=False), nn.Linear(16, 32, bias=False)
        self.down, self.head = nn.Linear(32, 16, bias=False), nn.Linear(16, 50, bias=False)
        angles = torch.outer(torch.arange(8.0), 1 / 10000 ** (torch.arange(0, 4, 2) / 4.0))
        angles = torch.cat([angles, angles], -1)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        self.register_buffer("keys", torch.zeros(1, 2, 8, 4))
        self.register_buffer("values", torch.zeros(1, 2, 8, 4))

    def forward(self, tokens, places):
        x = self.words(tokens)
        new = tokens.shape[1]
        y = self.norm1(x)
        q = self.query(y).view(1, new, 4, 4).transpose(1, 2)
        k = self.key(y).view(1, new, 2, 4).transpose(1, 2)
        v = self.value(y).view(1, new, 2, 4).transpose(1, 2)
        cos, sin = self.cos[places], self.sin[places]
        q, k = turned(q, cos, sin), turned(k, cos, sin)
        self.keys[:, :, places] = k
        self.values[:, :, places] = v
        seen = torch.arange(8)[None] <= places[:, None]
        y = F.scaled_dot_product_attention(
            q, self.keys, self.values, attn_mask=seen, enable_gqa=True
        )
        x = x + self.out(y.transpose(1, 2).reshape(1, new, 16))
        y = self.norm2(x)
        return self.head(x + self.down(F.silu(self.gate(y)) * self.up(y)))


class T5(nn.Module):
    """An encoder and a decoder with relative positions in buckets."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.bias = nn.Embedding(50, 16), nn.Embedding(8, 4)
        self.layers = nn.ModuleList([nn.Linear(16, 16, bias=False) for _ in range(12)])
        self.norm = RmsNorm(16)

    def positions(self, count: int):
        distance = torch.arange(count)[None] - torch.arange(count)[:, None]
        far = torch.where(distance < 0, 0, 4)
        distance = distance.abs()
        grown = 2 + (torch.log(distance.float().clamp(min=1) / 2) / 1.5 * 2).to(torch.long)
        bucket = far + torch.where(distance < 2, distance, torch.clamp(grown, max=3))
        return self.bias(bucket).permute(2, 0, 1)[None]

    def attention(self, first: int, x, memory, bias):
        q, k, v = [
            self.layers[first + i](t).view(t.shape[0], -1, 4, 4).transpose(1, 2)
            for i, t in enumerate((x, memory, memory))
        ]
        scores = q @ k.transpose(-1, -2)
        scores = scores if bias is None else scores + bias
        y = scores.float().softmax(-1).type_as(scores) @ v
        return self.layers[first + 3](y.transpose(1, 2).flatten(2))

    def forward(self, source, target):
        x = self.words(source)
        x = x + self.attention(0, self.norm(x), self.norm(x), self.positions(source.shape[1]))
        memory = self.norm(x)
        y = self.words(target)
        count = target.shape[1]
        hidden = torch.triu(torch.full((count, count), float("-inf")), 1)
        y = y + self.attention(4, self.norm(y), self.norm(y), self.positions(count) + hidden)
        y = y + self.attention(8, self.norm(y), memory, None)
        return self.norm(y) @ self.words.weight.T


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = self.double(3, 8), self.double(8, 16)
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.last, self.head = self.double(16, 8), nn.Conv2d(8, 2, 1)
        self.smooth = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)

    @staticmethod
    def double(before: int, after: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(4, after), nn.SiLU(),
        )  # fmt: skip

    def forward(self, x):
        a = self.first(x)
        b = self.second(F.max_pool2d(a, 2))
        joined = self.last(torch.cat([a, self.up(b)], 1))
        return torch.sigmoid(self.head(joined)), self.smooth(b)


class LstmLanguageModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 8)
        self.lstm = nn.LSTM(8, 12, 2, batch_first=True)
        self.head = nn.Linear(12, 50)

    def forward(self, tokens, hidden, cell):
        y, (hidden, cell) = self.lstm(self.words(tokens), (hidden, cell))
        return F.log_softmax(self.head(y), -1), hidden, cell

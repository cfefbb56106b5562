"""Well-known image models in plain torch, with random weights: their sizes are arguments, so that
tests take small ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(before, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width),
        )  # fmt: skip
        self.short = short_cut(before, width, stride)

    def forward(self, x):
        return F.relu(self.body(x) + self.short(x))


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        after = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(before, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, after, 1, bias=False), nn.BatchNorm2d(after),
        )  # fmt: skip
        self.short = short_cut(before, after, stride)

    def forward(self, x):
        return F.relu(self.body(x) + self.short(x))


def short_cut(before: int, after: int, stride: int) -> nn.Module:
    if stride == 1 and before == after:
        return nn.Sequential()
    return nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))


class ResNet(nn.Module):
    def __init__(self, block: type, counts: Sequence[int], width: int, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
        )  # fmt: skip
        blocks, before = [], width
        for stage, count in enumerate(counts):
            for number in range(count):
                stride = 2 if stage and number == 0 else 1
                blocks.append(block(before, width << stage, stride))
                before = (width << stage) * block.expansion
        self.blocks = nn.Sequential(*blocks)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(before, classes)

    def forward(self, x):
        return self.head(torch.flatten(self.pool(self.blocks(self.stem(x))), 1))


@dataclass(frozen=True)
class Inverted:
    """The sizes of one inverted residual; ``squeezed``: those of its gate, 0 for none."""

    before: int
    hidden: int
    after: int
    kernel: int
    stride: int
    activation: type
    squeezed: int = 0
    gate: type = nn.Hardsigmoid
    inner: type = nn.ReLU


class SqueezeExcite(nn.Module):
    def __init__(self, row: Inverted) -> None:
        super().__init__()
        self.down = nn.Conv2d(row.hidden, row.squeezed, 1)
        self.up = nn.Conv2d(row.squeezed, row.hidden, 1)
        self.inner, self.gate = row.inner(), row.gate()

    def forward(self, x):
        return x * self.gate(self.up(self.inner(self.down(F.adaptive_avg_pool2d(x, 1)))))


class InvertedResidual(nn.Module):
    """The block of MobileNetV2, V3 and EfficientNet."""

    def __init__(self, row: Inverted) -> None:
        super().__init__()
        hidden, parts = row.hidden, []
        if hidden != row.before:
            parts += [nn.Conv2d(row.before, hidden, 1, bias=False), nn.BatchNorm2d(hidden),
                      row.activation()]  # fmt: skip
        parts += [
            nn.Conv2d(hidden, hidden, row.kernel, row.stride, row.kernel // 2, groups=hidden,
                      bias=False),
            nn.BatchNorm2d(hidden), row.activation(),
        ]  # fmt: skip
        if row.squeezed:
            parts.append(SqueezeExcite(row))
        parts += [nn.Conv2d(hidden, row.after, 1, bias=False), nn.BatchNorm2d(row.after)]
        self.body = nn.Sequential(*parts)
        self.is_residual = row.stride == 1 and row.before == row.after

    def forward(self, x):
        return x + self.body(x) if self.is_residual else self.body(x)


class MobileNet(nn.Module):
    def __init__(
        self, rows: Sequence[Inverted], last: int, hidden: int, classes: int, activation: type
    ) -> None:
        super().__init__()
        first, after = rows[0].before, rows[-1].after
        self.stem = nn.Sequential(
            nn.Conv2d(3, first, 3, 2, 1, bias=False), nn.BatchNorm2d(first), activation()
        )
        self.blocks = nn.Sequential(*[InvertedResidual(row) for row in rows])
        self.last = nn.Sequential(
            nn.Conv2d(after, last, 1, bias=False), nn.BatchNorm2d(last), activation()
        )
        head = [nn.Linear(last, hidden), activation()] if hidden else []
        self.head = nn.Sequential(*head, nn.Dropout(0.2), nn.Linear(hidden or last, classes))

    def forward(self, x):
        return self.head(self.last(self.blocks(self.stem(x))).mean([2, 3]))


def mobilenet_v2() -> nn.Module:
    rows, before = [], 32
    for expand, after, count, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2),
                                         (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                                         (6, 320, 1, 1)):  # fmt: skip
        for number in range(count):
            rows.append(
                Inverted(before, expand * before, after, 3, 1 if number else stride, nn.ReLU6)
            )
            before = after
    return MobileNet(rows, 1280, 0, 1000, nn.ReLU6)


def mobilenet_v3() -> nn.Module:
    """Return MobileNetV3-Large."""
    relu, swish = nn.ReLU, nn.Hardswish
    table = (
        (16, 16, 3, 1, relu, 0), (64, 24, 3, 2, relu, 0), (72, 24, 3, 1, relu, 0),
        (72, 40, 5, 2, relu, 24), (120, 40, 5, 1, relu, 32), (120, 40, 5, 1, relu, 32),
        (240, 80, 3, 2, swish, 0), (200, 80, 3, 1, swish, 0), (184, 80, 3, 1, swish, 0),
        (184, 80, 3, 1, swish, 0), (480, 112, 3, 1, swish, 120), (672, 112, 3, 1, swish, 168),
        (672, 160, 5, 2, swish, 168), (960, 160, 5, 1, swish, 240), (960, 160, 5, 1, swish, 240),
    )  # fmt: skip
    before = [16, *[row[1] for row in table]]
    return MobileNet(
        [Inverted(width, *row) for width, row in zip(before, table)], 960, 1280, 1000, swish
    )


def efficientnet_b0() -> nn.Module:
    rows, before = [], 32
    for expand, after, count, stride, kernel in ((1, 16, 1, 1, 3), (6, 24, 2, 2, 3),
                                                 (6, 40, 2, 2, 5), (6, 80, 3, 2, 3),
                                                 (6, 112, 3, 1, 5), (6, 192, 4, 2, 5),
                                                 (6, 320, 1, 1, 3)):  # fmt: skip
        for number in range(count):
            rows.append(
                Inverted(before, expand * before, after, kernel, 1 if number else stride, nn.SiLU,
                         before // 4, nn.Sigmoid, nn.SiLU)
            )  # fmt: skip
            before = after
    return MobileNet(rows, 1280, 0, 1000, nn.SiLU)


def small_mobilenet(activation: type, is_squeezed: bool) -> nn.Module:
    """Return a network of two blocks."""
    rows = [
        Inverted(8, hidden, 8, 3, 1, activation, hidden // 4 if is_squeezed else 0)
        for hidden in (16, 32)
    ]
    return MobileNet(rows, 16, 0, 5, activation)


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNeXtBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width, 1, 1), 0.1))

    def forward(self, x):
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.down(F.gelu(self.up(y))).permute(0, 3, 1, 2)
        return x + self.scale * y


class ConvNeXt(nn.Module):
    def __init__(self, depths: Sequence[int], widths: Sequence[int], classes: int) -> None:
        super().__init__()
        parts = [nn.Conv2d(3, widths[0], 4, 4), LayerNorm2d(widths[0], eps=1e-6)]
        for stage, (depth, width) in enumerate(zip(depths, widths)):
            if stage:
                before = widths[stage - 1]
                parts += [LayerNorm2d(before, eps=1e-6), nn.Conv2d(before, width, 2, 2)]
            parts += [ConvNeXtBlock(width) for _ in range(depth)]
        self.body = nn.Sequential(*parts)
        self.norm = nn.LayerNorm(widths[-1], eps=1e-6)
        self.head = nn.Linear(widths[-1], classes)

    def forward(self, x):
        return self.head(self.norm(self.body(x).mean((-2, -1))))


class VisionTransformer(nn.Module):
    def __init__(
        self, image: int, patch: int, width: int, depth: int, heads: int, classes: int
    ) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, (image // patch) ** 2 + 1, width) * 0.02)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, 0.1, "gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(
            layer, depth, nn.LayerNorm(width), enable_nested_tensor=False
        )
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.encoder(x)[:, 0])


class SwinBlock(nn.Module):
    """Attention inside of windows, which are shifted in every other block."""

    def __init__(self, width: int, heads: int, side: int, window: int, shift: int) -> None:
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift if side > window else 0
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        reach = 2 * window - 1
        self.bias = nn.Parameter(torch.randn(reach * reach, heads) * 0.02)
        axis = torch.arange(window)
        flat = torch.stack(torch.meshgrid(axis, axis, indexing="ij")).flatten(1)
        relative = (flat[:, :, None] - flat[:, None, :]).permute(1, 2, 0) + window - 1
        self.register_buffer("index", relative[..., 0] * reach + relative[..., 1])
        if self.shift:
            self.register_buffer("hidden", self._hidden(side))

    def _hidden(self, side: int):
        """Return what hides from one another pixels that a shift brought together."""
        part = torch.zeros(side)
        part[-self.window : -self.shift], part[-self.shift :] = 1, 2
        region = (3 * part[:, None] + part[None])[None, ..., None]
        region = self._divided(region)[..., 0]
        return torch.where(region[:, :, None] == region[:, None, :], 0.0, -100.0)

    def _divided(self, x):
        batch, height, width, channels = x.shape
        window = self.window
        x = x.view(batch, height // window, window, width // window, window, channels)
        return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, window * window, channels)

    def _attention(self, x):
        batch, height, width, channels = x.shape
        window, heads = self.window, self.heads
        area, dim = window * window, channels // heads
        if self.shift:
            x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
        x = self._divided(x)
        q, k, v = self.qkv(x).reshape(-1, area, 3, heads, dim).permute(2, 0, 3, 1, 4)
        scores = (q * dim**-0.5) @ k.transpose(-2, -1)
        scores = scores + self.bias[self.index.view(-1)].view(area, area, -1).permute(2, 0, 1)
        if self.shift:
            count = self.hidden.shape[0]
            scores = scores.view(-1, count, heads, area, area) + self.hidden[:, None]
            scores = scores.view(-1, heads, area, area)
        y = self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(-1, area, channels))
        y = y.view(batch, height // window, width // window, window, window, channels)
        y = y.permute(0, 1, 3, 2, 4, 5).reshape(batch, height, width, channels)
        return torch.roll(y, (self.shift, self.shift), (1, 2)) if self.shift else y

    def forward(self, x):
        x = x + self._attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class PatchMerging(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4 * width)
        self.merge = nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x):
        parts = [x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)]
        return self.merge(self.norm(torch.cat(parts, -1)))


class Swin(nn.Module):
    def __init__(
        self, image: int, window: int, width: int, depths: Sequence[int], heads: Sequence[int],
        classes: int,
    ) -> None:  # fmt: skip
        super().__init__()
        self.patches, self.norm = nn.Conv2d(3, width, 4, 4), nn.LayerNorm(width)
        parts, side = [], image // 4
        for stage, (depth, count) in enumerate(zip(depths, heads)):
            if stage:
                parts.append(PatchMerging(width))
                width, side = 2 * width, side // 2
            parts += [
                SwinBlock(width, count, side, window, window // 2 * (number % 2))
                for number in range(depth)
            ]
        self.body = nn.Sequential(*parts)
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x):
        x = self.body(self.norm(self.patches(x).permute(0, 2, 3, 1)))
        return self.head(self.last(x).mean((1, 2)))


class DoubleConvolution(nn.Sequential):
    def __init__(self, before: int, after: int) -> None:
        super().__init__(
            nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(4, after), nn.SiLU(),
            nn.Conv2d(after, after, 3, padding=1), nn.GroupNorm(4, after), nn.SiLU(),
        )  # fmt: skip


class UNet(nn.Module):
    """Halves an image and doubles it again; the coarsest features are a second result."""

    def __init__(self, width: int, levels: int, classes: int) -> None:
        super().__init__()
        widths = [width << level for level in range(levels)]
        self.downs = nn.ModuleList(
            [DoubleConvolution(a, b) for a, b in zip([3, *widths], widths)]
        )  # fmt: skip
        self.ups = nn.ModuleList(
            [nn.ConvTranspose2d(2 * one, one, 2, 2) for one in reversed(widths[:-1])]
        )
        self.joins = nn.ModuleList(
            [DoubleConvolution(2 * one, one) for one in reversed(widths[:-1])]
        )
        self.head = nn.Conv2d(width, classes, 1)
        self.smooth = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)

    def forward(self, x):
        passed = []
        for down in self.downs:
            x = down(F.max_pool2d(x, 2) if passed else x)
            passed.append(x)
        for up, join, finer in zip(self.ups, self.joins, passed[-2::-1]):
            x = join(torch.cat([finer, up(x)], 1))
        return torch.sigmoid(self.head(x)), self.smooth(passed[-1])

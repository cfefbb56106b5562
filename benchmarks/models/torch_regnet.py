"""RegNet-Y: convolutions in groups of a fixed width, with a gate per channel."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import nn


def _unit(before: int, after: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(before, after, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(after))


class RegNetBlock(nn.Module):
    def __init__(self, before: int, width: int, stride: int, group_width: int) -> None:
        super().__init__()
        self.first = _unit(before, width, 1)
        self.second = _unit(width, width, 3, stride, width // group_width)
        squeezed = max(1, round(before / 4))
        self.down, self.up = nn.Conv2d(width, squeezed, 1), nn.Conv2d(squeezed, width, 1)
        self.third = _unit(width, width, 1)
        is_same = before == width and stride == 1
        self.short_cut = nn.Identity() if is_same else _unit(before, width, 1, stride)

    def forward(self, x):
        y = F.relu(self.second(F.relu(self.first(x))))
        gate = self.up(F.relu(self.down(F.adaptive_avg_pool2d(y, 1)))).sigmoid()
        return F.relu(self.short_cut(x) + self.third(y * gate))


class RegNet(nn.Module):
    """Stages of blocks, each of which halves the image at its beginning."""

    def __init__(
        self, depths: Sequence[int], widths: Sequence[int], group_width: int, classes: int
    ) -> None:
        super().__init__()
        self.stem = _unit(3, 32, 3, 2)
        blocks, before = [], 32
        for depth, width in zip(depths, widths, strict=True):
            for place in range(depth):
                blocks.append(RegNetBlock(before, width, 1 if place else 2, group_width))
                before = width
        self.body = nn.Sequential(*blocks)
        self.head = nn.Linear(before, classes)

    def forward(self, x):
        x = self.body(F.relu(self.stem(x)))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))

"""The convolutions by which wav2vec-like models turn a wave into features: 1-d, strided, wide."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import nn

WAVE_LAYERS = ((10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (2, 2))
"""Kernel and stride of each layer."""


class WaveEncoder(nn.Module):
    """Makes one vector of `features` numbers of about 20 ms of a wave at 16 kHz."""

    def __init__(self, width: int, layers: Sequence[tuple[int, int]], features: int) -> None:
        super().__init__()
        befores = [1] + [width] * (len(layers) - 1)
        self.layers = nn.ModuleList(
            [nn.Conv1d(before, width, kernel, stride, bias=False)
             for before, (kernel, stride) in zip(befores, layers, strict=True)]
        )  # fmt: skip
        self.first_norm = nn.GroupNorm(width, width)
        self.norm = nn.LayerNorm(width)
        self.projection = nn.Linear(width, features)

    def forward(self, wave):
        x = wave[:, None]
        for place, layer in enumerate(self.layers):
            x = layer(x)
            x = F.gelu(x if place else self.first_norm(x))
        return self.projection(self.norm(x.transpose(1, 2)))

"""All layers and effects, under the module's name that users know."""

from tilesmith.relax.frontend.nn.diffusion import Attention, TimestepEmbedding, Timesteps
from tilesmith.relax.frontend.nn.effects import IOEffect, KVCache
from tilesmith.relax.frontend.nn.layers import (
    GELU,
    Conv1D,
    Conv2D,
    Conv3D,
    ConvTranspose1D,
    Embedding,
    GroupNorm,
    Identity,
    LayerNorm,
    Linear,
    ReLU,
    RMSNorm,
    SiLU,
)

__all__ = [
    "GELU", "Attention", "Conv1D", "Conv2D", "Conv3D", "ConvTranspose1D", "Embedding", "GroupNorm",
    "IOEffect", "Identity", "KVCache", "LayerNorm", "Linear", "RMSNorm", "ReLU", "SiLU",
    "TimestepEmbedding", "Timesteps",
]  # fmt: skip

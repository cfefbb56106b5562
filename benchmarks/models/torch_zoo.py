"""The models in plain torch by name, each of a realistic size and of a small one with all parts.

    from benchmarks.models.torch_zoo import ZOO
    entry = ZOO["resnet18"]
    model, inputs = entry.build(batch=1)        # in evaluation mode, weights from a seed
    model, inputs = entry.build_small()         # what the tests import

Inputs are what ``torch.export.export`` takes. ``dynamic`` names the sizes that may be left open:
for each input (in a tuple, as the inputs are) the label of an axis by its place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from benchmarks.models import torch_audio as audio
from benchmarks.models import torch_language as language
from benchmarks.models import torch_regnet as regnet
from benchmarks.models import torch_vision as vision

Inputs = tuple[Any, ...]

LIMITS = {"batch": 64, "length": 512, "old": 512}
"""The largest sizes that a dynamic model is for."""


@dataclass(frozen=True)
class Entry:
    """A model: how it is made, and what it takes for a batch (that of Llama is always 1)."""

    make: Callable[[], nn.Module]
    inputs: Callable[[int], Inputs]
    small: Callable[[], nn.Module]
    small_inputs: Callable[[], Inputs]
    dynamic: Callable[[], Inputs] | None = None

    def build(self, batch: int = 1) -> tuple[nn.Module, Inputs]:
        """Return the model of a realistic size, and inputs."""
        torch.manual_seed(0)
        return self.make().eval(), self.inputs(batch)

    def build_small(self) -> tuple[nn.Module, Inputs]:
        """Return the small model, and inputs."""
        torch.manual_seed(0)
        return self.small().eval(), self.small_inputs()

    def dynamic_shapes(self) -> Inputs | None:
        """Return what ``torch.export.export`` calls ``dynamic_shapes``; None if all are fixed."""
        if self.dynamic is None:
            return None
        dims = {
            name: torch.export.Dim(name, min=1 if name == "batch" else 2, max=largest)
            for name, largest in LIMITS.items()
        }
        return _labelled(self.dynamic(), dims)


def _labelled(given: Any, dims: dict[str, Any]) -> Any:
    if isinstance(given, dict):
        return {axis: dims[name] for axis, name in given.items()}
    return tuple([_labelled(one, dims) for one in given])


def image(size: int, batch: int = 1) -> Inputs:
    return (torch.randn(batch, 3, size, size),)


def words(*shape: int, count: int = 50) -> torch.Tensor:
    return torch.randint(1, count, shape)


def photo(batch: int) -> Inputs:
    return image(224, batch)


def small_photo() -> Inputs:
    return image(32)


def open_batch() -> Inputs:
    return ({0: "batch"},)


def _vision(make: Callable[[], nn.Module], small: Callable[[], nn.Module]) -> Entry:
    return Entry(make, photo, small, small_photo, open_batch)


def _bert_inputs(batch: int) -> Inputs:
    mask = torch.ones(batch, 128, dtype=torch.int64)
    mask[:, 120:] = 0
    return words(batch, 128, count=30522), mask


def _past(depth: int, batch: int, heads: int, old: int, dim: int) -> Inputs:
    return tuple([torch.randn(batch, heads, old, dim) for _ in range(2 * depth)])


def _gpt2() -> nn.Module:
    return language.Gpt2(50257, 1024, 768, 12, 12)


def _small_gpt2() -> nn.Module:
    return language.Gpt2(50, 32, 16, 2, 4)


ZOO: dict[str, Entry] = {
    "resnet18": _vision(
        lambda: vision.ResNet(vision.BasicBlock, (2, 2, 2, 2), 64, 1000),
        lambda: vision.ResNet(vision.BasicBlock, (1, 1), 8, 5),
    ),
    "resnet50": _vision(
        lambda: vision.ResNet(vision.Bottleneck, (3, 4, 6, 3), 64, 1000),
        lambda: vision.ResNet(vision.Bottleneck, (1, 1), 8, 5),
    ),
    "mobilenet_v2": _vision(vision.mobilenet_v2, lambda: vision.small_mobilenet(nn.ReLU6, False)),
    "mobilenet_v3": _vision(
        vision.mobilenet_v3, lambda: vision.small_mobilenet(nn.Hardswish, True)
    ),
    "efficientnet_b0": _vision(
        vision.efficientnet_b0, lambda: vision.small_mobilenet(nn.SiLU, True)
    ),
    "regnet_y": _vision(
        lambda: regnet.RegNet((1, 3, 6, 6), (48, 104, 208, 440), 8, 1000),
        lambda: regnet.RegNet((1, 1), (8, 16), 4, 5),
    ),
    "convnext_t": _vision(
        lambda: vision.ConvNeXt((3, 3, 9, 3), (96, 192, 384, 768), 1000),
        lambda: vision.ConvNeXt((1, 1), (8, 16), 5),
    ),
    "vit_b16": _vision(
        lambda: vision.VisionTransformer(224, 16, 768, 12, 12, 1000),
        lambda: vision.VisionTransformer(32, 8, 16, 2, 4, 5),
    ),
    "swin_t": _vision(
        lambda: vision.Swin(224, 7, 96, (2, 2, 6, 2), (3, 6, 12, 24), 1000),
        lambda: vision.Swin(32, 4, 8, (2, 1), (2, 4), 5),
    ),
    "bert_base": Entry(
        lambda: language.Bert(30522, 512, 768, 12, 12),
        _bert_inputs,
        lambda: language.Bert(50, 32, 16, 1, 4),
        lambda: (words(2, 6), torch.tensor([[1] * 6, [1] * 4 + [0] * 2])),
        lambda: ({0: "batch", 1: "length"},) * 2,
    ),
    "gpt2_prefill": Entry(
        _gpt2,
        lambda batch: (words(batch, 128, count=50257),),
        _small_gpt2,
        lambda: (words(1, 3),),
        lambda: ({0: "batch", 1: "length"},),
    ),
    "gpt2_decode": Entry(
        _gpt2,
        lambda batch: (words(batch, 1, count=50257), _past(12, batch, 12, 128, 64)),
        _small_gpt2,
        lambda: (words(1, 3), _past(2, 1, 4, 5, 4)),
        lambda: ({}, ({2: "old"},) * 24),
    ),
    "llama": Entry(
        lambda: language.Llama(32000, 256, 768, 8, 12, 4, 2048),
        lambda batch: (words(1, 1, count=32000), torch.tensor([100])),
        lambda: language.Llama(50, 8, 16, 1, 4, 2, 32),
        lambda: (words(1, 2), torch.tensor([0, 1])),
    ),
    "t5_small": Entry(
        lambda: language.T5(32128, 512, 6, 8, 2048),
        lambda batch: (words(batch, 128, count=32128), words(batch, 32, count=32128)),
        lambda: language.T5(50, 16, 1, 4, 32),
        lambda: (words(1, 5), words(1, 4)),
        lambda: ({0: "batch"},) * 2,
    ),
    "unet": Entry(
        lambda: vision.UNet(32, 4, 2),
        lambda batch: image(128, batch),
        lambda: vision.UNet(8, 2, 2),
        lambda: image(16),
        open_batch,
    ),
    "wav2vec": Entry(
        lambda: audio.WaveEncoder(512, audio.WAVE_LAYERS, 768),
        lambda batch: (torch.randn(batch, 16000),),
        lambda: audio.WaveEncoder(8, ((10, 5), (3, 2)), 4),
        lambda: (torch.randn(2, 60),),
        open_batch,
    ),
    "lstm": Entry(
        lambda: language.LstmLanguageModel(10000, 650, 650),
        lambda batch: (
            words(batch, 35, count=10000), torch.zeros(2, batch, 650), torch.zeros(2, batch, 650),
        ),
        lambda: language.LstmLanguageModel(50, 8, 12),
        lambda: (words(2, 3), torch.randn(2, 2, 12), torch.randn(2, 2, 12)),
        lambda: ({0: "batch"}, {1: "batch"}, {1: "batch"}),
    ),
}  # fmt: skip
"""The models by name."""

"""Builds MobileNetV2: inverted residual blocks with depthwise convolutions and ReLU6 (as Clip)."""

from __future__ import annotations

import numpy as np
import onnx

from benchmarks.models.graph import GraphWriter, image_model

# Expansion, output channels, number of blocks, stride of the first one.
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


class _Writer(GraphWriter):
    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__("mobilenetv2", rng)
        self.mean_square["image"] = 1.0
        self.limits = [
            self.constant(np.array(limit, "float32"), name)
            for limit, name in ((0.0, "relu6.min"), (6.0, "relu6.max"))
        ]

    def unit(self, x: str, channels: tuple[int, int], kernel: int, stride=1, groups=1) -> str:
        """Add convolution, normalisation, ReLU6."""
        y = self.batch_norm(self.conv(x, channels, kernel, stride, groups), channels[1])
        return self.node("Clip", [y, *self.limits], mean_square=self.mean_square[y] / 2)


def mobilenetv2(rng: np.random.Generator, batch: int = 1) -> onnx.ModelProto:
    """Build the network: 3.5 million weights, 0.3 GFLOP of multiply-adds."""
    writer = _Writer(rng)
    x, inputs = writer.unit("image", (3, 32), 3, 2), 32
    for expansion, outputs, blocks, first_stride in STAGES:
        for index in range(blocks):
            stride = first_stride if index == 0 else 1
            hidden = inputs * expansion
            y = writer.unit(x, (inputs, hidden), 1) if expansion > 1 else x
            y = writer.unit(y, (hidden, hidden), 3, stride, groups=hidden)
            y = writer.batch_norm(writer.conv(y, (hidden, outputs), 1), outputs)
            x = writer.add(x, y) if stride == 1 and inputs == outputs else y
            inputs = outputs
    x = writer.unit(x, (inputs, 1280), 1)
    return image_model(writer, writer.classifier(x, 1280, 1000), batch)

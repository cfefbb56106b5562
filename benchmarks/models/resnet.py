"""Builds ResNet-18 and ResNet-50 (stride in the 3x3 convolution), with batch normalisation as
nodes.
"""

from __future__ import annotations

import numpy as np
import onnx

from benchmarks.models.graph import GraphWriter, image_model

# The last normalisation of a branch is weaker than the others, as in trained networks: the sum of
# the branches then grows slowly with depth.
BRANCH_GAIN = (0.2, 0.6)


def _join(writer: GraphWriter, branch: str, x: str, channels: tuple[int, int], stride: int) -> str:
    """Compute relu(branch + x), with x brought to the branch's shape by a 1x1 convolution where
    necessary.
    """
    if stride == 1 and channels[0] == channels[1]:
        return writer.relu_of_sum(branch, x, is_positive=True)
    shortcut = writer.batch_norm(writer.conv(x, channels, 1, stride), channels[1])
    return writer.relu_of_sum(branch, shortcut, is_positive=False)


def _basic(writer: GraphWriter, x: str, inputs: int, width: int, stride: int) -> tuple[str, int]:
    y = writer.relu(writer.batch_norm(writer.conv(x, (inputs, width), 3, stride), width))
    y = writer.batch_norm(writer.conv(y, (width, width), 3), width, BRANCH_GAIN)
    return _join(writer, y, x, (inputs, width), stride), width


def _bottleneck(
    writer: GraphWriter, x: str, inputs: int, width: int, stride: int
) -> tuple[str, int]:
    outputs = 4 * width
    y = writer.relu(writer.batch_norm(writer.conv(x, (inputs, width), 1), width))
    y = writer.relu(writer.batch_norm(writer.conv(y, (width, width), 3, stride), width))
    y = writer.batch_norm(writer.conv(y, (width, outputs), 1), outputs, BRANCH_GAIN)
    return _join(writer, y, x, (inputs, outputs), stride), outputs


def _resnet(
    name: str, rng: np.random.Generator, block, depths: tuple[int, ...], batch: int
) -> onnx.ModelProto:
    writer = GraphWriter(name, rng)
    writer.mean_square["image"] = 1.0
    x = writer.relu(writer.batch_norm(writer.conv("image", (3, 64), 7, 2), 64))
    x = writer.node(
        "MaxPool",
        [x],
        mean_square=2 * writer.mean_square[x],
        kernel_shape=[3, 3],
        strides=[2, 2],
        pads=[1, 1, 1, 1],
    )
    channels = 64
    for stage, depth in enumerate(depths):
        for index in range(depth):
            stride = 2 if stage > 0 and index == 0 else 1
            x, channels = block(writer, x, channels, 64 << stage, stride)
    return image_model(writer, writer.classifier(x, channels, 1000), batch)


def resnet18(rng: np.random.Generator, batch: int = 1) -> onnx.ModelProto:
    """Build the network: 11.7 million weights, 1.8 GFLOP of multiply-adds."""
    return _resnet("resnet18", rng, _basic, (2, 2, 2, 2), batch)


def resnet50(rng: np.random.Generator, batch: int = 1) -> onnx.ModelProto:
    """Build the network: 25.6 million weights, 4.1 GFLOP of multiply-adds."""
    return _resnet("resnet50", rng, _bottleneck, (3, 4, 6, 3), batch)

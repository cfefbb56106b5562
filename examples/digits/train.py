"""Train a small convolutional network on handwritten digits and write it as `digits.onnx`.

    pip install torch==2.13.0 'tilesmith[onnx,demo]'
    python examples/digits/train.py

The file is part of the repository, so this script is needed only to make it anew. Seeds and the
order of the images are fixed and one thread computes: a second run gives the same weights.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
import torch
from data import split
from onnx import TensorProto, helper, numpy_helper
from torch import nn

OUTPUT = Path(__file__).with_name("digits.onnx")
EPOCHS = 30
BATCH = 64


def make_network() -> nn.Sequential:
    """Two convolutions, a pooling and two fully connected layers: 38 000 parameters."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def train(network: nn.Sequential, images: np.ndarray, labels: np.ndarray) -> None:
    """Adam on shuffled batches, the learning rate falling to zero along a cosine."""
    inputs, targets = torch.from_numpy(images), torch.from_numpy(labels)
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    for epoch in range(EPOCHS):
        total = 0.0
        for batch in torch.randperm(len(inputs)).split(BATCH):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(network(inputs[batch]), targets[batch])
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        schedule.step()
        print(f"epoch {epoch + 1:2d}  loss {total / len(inputs):.4f}")


def to_onnx(network: nn.Sequential) -> onnx.ModelProto:
    """The network with a softmax at its end, for any number of images."""
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []

    def parameter(tensor: torch.Tensor, name: str) -> str:
        weights.append(numpy_helper.from_array(tensor.detach().numpy(), name))
        return name

    value = "image"
    for index, layer in enumerate(network):
        name = f"{type(layer).__name__.lower()}_{index}"
        inputs, attributes = [value], {}
        if isinstance(layer, nn.Conv2d):
            operator = "Conv"
            attributes = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
        elif isinstance(layer, nn.Linear):
            operator, attributes = "Gemm", {"transB": 1}
        elif isinstance(layer, nn.MaxPool2d):
            operator, attributes = "MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}
        else:
            operator = {"ReLU": "Relu", "Flatten": "Flatten"}[type(layer).__name__]
        if isinstance(layer, nn.Conv2d | nn.Linear):
            inputs += [
                parameter(layer.weight, f"{name}.weight"),
                parameter(layer.bias, f"{name}.bias"),
            ]
        value = f"{name}.out"
        nodes.append(helper.make_node(operator, inputs, [value], name=name, **attributes))
    nodes.append(helper.make_node("Softmax", [value], ["probabilities"], name="softmax", axis=1))
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 10])],
        weights,
    )
    model = helper.make_model(
        graph,
        producer_name="tilesmith-digits",
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def main() -> None:
    """Train, report the accuracy, write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=OUTPUT)
    output = parser.parse_args().output
    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    train_images, held_out, train_labels, held_out_labels = split()
    network = make_network()
    train(network, train_images, train_labels)
    with torch.no_grad():
        guesses = network(torch.from_numpy(held_out)).argmax(1).numpy()
    correct = int((guesses == held_out_labels).sum())
    print(f"held-out digits: {correct} of {len(held_out)} right ({correct / len(held_out):.2%})")
    model = to_onnx(network)
    onnx.save(model, output)
    print(f"{output}: {output.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()

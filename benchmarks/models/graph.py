"""Writes ONNX graphs and tracks the mean square of each activation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

OPSET = 17


class GraphWriter:
    """Collects nodes and weights. Values are names; `mean_square[name]` estimates E[x²]."""

    def __init__(self, name: str, rng: np.random.Generator) -> None:
        self.name = name
        self.rng = rng
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.mean_square: dict[str, float] = {}
        self._count: dict[str, int] = {}

    def constant(self, value: np.ndarray, name: str) -> str:
        """Add a weight or another fixed tensor."""
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def normal(self, shape: Sequence[int], deviation: float) -> np.ndarray:
        """Return normally distributed float32 numbers."""
        return self.rng.standard_normal(shape, dtype="float32") * np.float32(deviation)

    def node(
        self, operator: str, inputs: Sequence[str], mean_square: float = 1.0, **attributes
    ) -> str:
        """Append a node with one output and return the output's name."""
        number = self._count.get(operator, 0)
        self._count[operator] = number + 1
        name = f"{operator}_{number}"
        output = f"{name}.out"
        self.nodes.append(
            helper.make_node(operator, list(inputs), [output], name=name, **attributes)
        )
        self.mean_square[output] = mean_square
        return output

    def conv(
        self,
        x: str,
        channels: tuple[int, int],
        kernel: int,
        stride: int = 1,
        groups: int = 1,
    ) -> str:
        """Add a convolution without bias and with He's initialisation; pads to keep the size."""
        inputs, outputs = channels
        fan_in = inputs // groups * kernel * kernel
        shape = (outputs, inputs // groups, kernel, kernel)
        weight = self.constant(
            self.normal(shape, np.sqrt(2 / fan_in)), f"conv{len(self.weights)}.weight"
        )
        return self.node(
            "Conv",
            [x, weight],
            mean_square=2 * self.mean_square[x],
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[kernel // 2] * 4,
            group=groups,
        )

    def batch_norm(self, x: str, channels: int, gain: tuple[float, float] = (0.7, 1.3)) -> str:
        """Normalise by statistics that fit `x`, scattered as those of trained networks are."""
        deviation = np.sqrt(self.mean_square[x])
        scale = self.rng.uniform(*gain, channels).astype("float32")
        shift = self.normal((channels,), 0.1)
        mean = self.normal((channels,), 0.1 * deviation)
        variance = (deviation**2 * self.rng.uniform(0.7, 1.4, channels)).astype("float32")
        prefix = f"bn{len(self.weights)}"
        parameters = [
            self.constant(value, f"{prefix}.{name}")
            for name, value in (
                ("weight", scale), ("bias", shift), ("mean", mean), ("var", variance),
            )
        ]  # fmt: skip
        after = float(np.mean(scale**2)) + 0.02
        return self.node("BatchNormalization", [x, *parameters], mean_square=after, epsilon=1e-5)

    def relu(self, x: str) -> str:
        """Compute max(x, 0)."""
        return self.node("Relu", [x], mean_square=self.mean_square[x] / 2)

    def add(self, a: str, b: str) -> str:
        """Add two activations."""
        return self.node("Add", [a, b], mean_square=self.mean_square[a] + self.mean_square[b])

    def relu_of_sum(self, branch: str, shortcut: str, is_positive: bool) -> str:
        """Compute max(branch + shortcut, 0); little is cut off where the shortcut is never
        negative.
        """
        total = self.mean_square[branch] + self.mean_square[shortcut]
        cut = self.mean_square[branch] / 4 if is_positive else total / 2
        return self.node("Relu", [self.add(branch, shortcut)], mean_square=total - cut)

    def classifier(self, x: str, features: int, classes: int) -> str:
        """Average over the picture, then one matrix product."""
        pooled = self.node("GlobalAveragePool", [x])
        flat = self.node("Flatten", [pooled], axis=1)
        weight = self.constant(self.normal((classes, features), 2 / np.sqrt(features)), "fc.weight")
        bias = self.constant(self.normal((classes,), 0.1), "fc.bias")
        return self.node("Gemm", [flat, weight, bias], transB=1)

    def finish(
        self, inputs: Sequence[tuple[str, int, list]], outputs: Sequence[tuple[str, str, int, list]]
    ) -> onnx.ModelProto:
        """Return the model; an input is (name, type, shape), an output (value, new name, type,
        shape).
        """
        names = {value: new for value, new, _, _ in outputs}
        for node in self.nodes:
            node.output[:] = [names.get(output, output) for output in node.output]
            node.input[:] = [names.get(name, name) for name in node.input]
        graph = helper.make_graph(
            self.nodes,
            self.name,
            [helper.make_tensor_value_info(*value) for value in inputs],
            [helper.make_tensor_value_info(*value[1:]) for value in outputs],
            self.weights,
        )
        return helper.make_model(
            graph,
            producer_name="tilesmith-benchmarks",
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=8,
        )


def image_model(writer: GraphWriter, logits: str, batch: int = 1) -> onnx.ModelProto:
    """Build a model from pictures of 224 x 224 to 1000 logits."""
    return writer.finish(
        [("image", onnx.TensorProto.FLOAT, [batch, 3, 224, 224])],
        [(logits, "logits", onnx.TensorProto.FLOAT, [batch, 1000])],
    )

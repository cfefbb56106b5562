"""Defines single kernels as ONNX models of one or a few operators: every contestant runs the
same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray


@dataclass(frozen=True)
class Workload:
    """One kernel: its model, its inputs, what it computes in numpy (where that is short), and the
    useful work of one call."""

    name: str
    model: onnx.ModelProto
    feed: dict[str, Array]
    numpy: Callable[[], list[Array]] | None
    flops: float = 0.0
    bytes: float = 0.0


def _model(nodes: list[onnx.NodeProto], feed: dict[str, Array], weights: dict[str, Array]):
    graph = helper.make_graph(
        nodes,
        "kernel",
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in feed.items()
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


def _random(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, dtype="float32")


def conv(
    name: str, channels: tuple[int, int], size: int, kernel: int, stride: int = 1, groups: int = 1
) -> Workload:
    """Return a convolution with bias and ReLU; pads to keep the size."""
    inputs, outputs = channels
    shape = (outputs, inputs // groups, kernel, kernel)
    fan_in = inputs // groups * kernel * kernel
    weights = {"w": _random(*shape, seed=1) / np.float32(np.sqrt(fan_in)), "b": _random(outputs)}
    feed = {"x": _random(1, inputs, size, size)}
    nodes = [
        helper.make_node(
            "Conv",
            ["x", "w", "b"],
            ["c"],
            kernel_shape=[kernel] * 2,
            strides=[stride] * 2,
            pads=[kernel // 2] * 4,
            group=groups,
        ),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    pixels = (size // stride) ** 2
    return Workload(name, _model(nodes, feed, weights), feed, None, 2.0 * pixels * outputs * fan_in)


def matmul(name: str, m: int, n: int, k: int, constant: bool) -> Workload:
    """Return a matrix product; `constant`: the right side is a weight."""
    a, b = _random(m, k), _random(k, n, seed=1) / np.float32(np.sqrt(k))
    feed = {"a": a} if constant else {"a": a, "b": b}
    nodes = [helper.make_node("MatMul", ["a", "b"], ["y"])]
    model = _model(nodes, feed, {"b": b} if constant else {})
    return Workload(name, model, feed, lambda: [a @ b], 2.0 * m * n * k)


def batched(name: str, count: int, m: int, n: int, k: int) -> Workload:
    """Return matrix products, one for each of `count` pairs, as attention has them."""
    a, b = _random(count, m, k), _random(count, k, n, seed=1) / np.float32(np.sqrt(k))
    feed = {"a": a, "b": b}
    model = _model([helper.make_node("MatMul", ["a", "b"], ["y"])], feed, {})
    return Workload(name, model, feed, lambda: [a @ b], 2.0 * count * m * n * k)


def softmax(name: str, rows: int, columns: int) -> Workload:
    """Return softmax over the last axis."""
    x = _random(rows, columns)

    def in_numpy() -> list[Array]:
        e = np.exp(x - x.max(-1, keepdims=True))
        return [e / e.sum(-1, keepdims=True)]

    nodes = [helper.make_node("Softmax", ["x"], ["y"], axis=-1)]
    return Workload(name, _model(nodes, {"x": x}, {}), {"x": x}, in_numpy, bytes=2.0 * x.nbytes)


def layer_norm(name: str, rows: int, columns: int) -> Workload:
    """Return layer normalisation over the last axis, as one operator."""
    x, scale, shift = _random(rows, columns), _random(columns, seed=1), _random(columns, seed=2)

    def in_numpy() -> list[Array]:
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return [(x - mean) / np.sqrt(variance + np.float32(1e-5)) * scale + shift]

    nodes = [helper.make_node("LayerNormalization", ["x", "s", "b"], ["y"], axis=-1, epsilon=1e-5)]
    model = _model(nodes, {"x": x}, {"s": scale, "b": shift})
    return Workload(name, model, {"x": x}, in_numpy, bytes=2.0 * x.nbytes)


def gelu(name: str, rows: int, columns: int) -> Workload:
    """Return x * (1 + erf(x / sqrt(2))) / 2 in small operators."""
    x = _random(rows, columns)
    weights = {
        "sqrt2": np.array(np.sqrt(2), "float32"),
        "one": np.array(1, "float32"),
        "half": np.array(0.5, "float32"),
    }
    nodes = [
        helper.make_node(operator, inputs, [output])
        for operator, inputs, output in (
            ("Div", ["x", "sqrt2"], "scaled"),
            ("Erf", ["scaled"], "erf"),
            ("Add", ["erf", "one"], "plus"),
            ("Mul", ["x", "plus"], "product"),
            ("Mul", ["product", "half"], "y"),
        )
    ]
    return Workload(name, _model(nodes, {"x": x}, weights), {"x": x}, None, bytes=2.0 * x.nbytes)


def relu_add(name: str, count: int) -> Workload:
    """Return max(a + b, 0)."""
    a, b = _random(count), _random(count, seed=1)
    nodes = [helper.make_node("Add", ["a", "b"], ["s"]), helper.make_node("Relu", ["s"], ["y"])]
    feed = {"a": a, "b": b}
    in_numpy = lambda: [np.maximum(a + b, 0)]  # noqa: E731
    return Workload(name, _model(nodes, feed, {}), feed, in_numpy, bytes=3.0 * a.nbytes)


def row_sums(name: str, rows: int, columns: int) -> Workload:
    """Return the sum of each row."""
    x = _random(rows, columns)
    weights = {"axes": np.array([1], "int64")}
    nodes = [helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)]
    in_numpy = lambda: [x.sum(1)]  # noqa: E731
    return Workload(name, _model(nodes, {"x": x}, weights), {"x": x}, in_numpy, bytes=x.nbytes)


def look_up(
    name: str, operator: str, shape: tuple[int, ...], places: tuple[int, ...], axis: int
) -> Workload:
    """Return a look-up by indices, which are all checked against the axis."""
    x = _random(*shape)
    indices = np.random.default_rng(1).integers(0, shape[axis], places)
    node = helper.make_node(operator, ["x", "i"], ["y"], axis=axis)
    take = np.take if operator == "Gather" else np.take_along_axis
    in_numpy = lambda: [take(x, indices, axis)]  # noqa: E731
    feed = {"x": x, "i": indices}
    return Workload(
        name, _model([node], feed, {}), feed, in_numpy, bytes=2.0 * in_numpy()[0].nbytes
    )


def transpose(name: str, shape: tuple[int, ...], order: tuple[int, ...]) -> Workload:
    """Return a permutation of axes, as a copy."""
    x = _random(*shape)
    node = helper.make_node("Transpose", ["x"], ["y"], perm=order)
    in_numpy = lambda: [np.ascontiguousarray(x.transpose(order))]  # noqa: E731
    return Workload(name, _model([node], {"x": x}, {}), {"x": x}, in_numpy, bytes=2.0 * x.nbytes)


KERNELS: dict[str, Callable[[str], Workload]] = {
    "conv3x3 64@56": lambda name: conv(name, (64, 64), 56, 3),
    "conv3x3 128@28": lambda name: conv(name, (128, 128), 28, 3),
    "conv3x3 256@14": lambda name: conv(name, (256, 256), 14, 3),
    "conv3x3 512@7": lambda name: conv(name, (512, 512), 7, 3),
    "conv3x3 s2 64->128@56": lambda name: conv(name, (64, 128), 56, 3, 2),
    "conv7x7 s2 3->64@224": lambda name: conv(name, (3, 64), 224, 7, 2),
    "conv1x1 256->64@56": lambda name: conv(name, (256, 64), 56, 1),
    "conv1x1 1024->256@14": lambda name: conv(name, (1024, 256), 14, 1),
    "conv1x1 512->2048@7": lambda name: conv(name, (512, 2048), 7, 1),
    "conv1x1 64->256@56": lambda name: conv(name, (64, 256), 56, 1),
    "conv1x1 s2 256->512@56": lambda name: conv(name, (256, 512), 56, 1, 2),
    "depthwise 96@112": lambda name: conv(name, (96, 96), 112, 3, groups=96),
    "depthwise s2 96@112": lambda name: conv(name, (96, 96), 112, 3, 2, groups=96),
    "depthwise 144@56": lambda name: conv(name, (144, 144), 56, 3, groups=144),
    "depthwise 384@14": lambda name: conv(name, (384, 384), 14, 3, groups=384),
    "matmul 128^3": lambda name: matmul(name, 128, 128, 128, constant=False),
    "matmul 1024^3": lambda name: matmul(name, 1024, 1024, 1024, constant=False),
    "matmul 2048^3": lambda name: matmul(name, 2048, 2048, 2048, constant=False),
    "matmul 64x3072x768 weight": lambda name: matmul(name, 64, 3072, 768, constant=True),
    "matmul batch 16x128^3": lambda name: batched(name, 16, 128, 128, 128),
    "matmul 512^3": lambda name: matmul(name, 512, 512, 512, constant=False),
    "matmul 128x768x768 weight": lambda name: matmul(name, 128, 768, 768, constant=True),
    "matmul 128x3072x768 weight": lambda name: matmul(name, 128, 3072, 768, constant=True),
    "matmul 1x4096x4096 weight": lambda name: matmul(name, 1, 4096, 4096, constant=True),
    "softmax 128x1024": lambda name: softmax(name, 128, 1024),
    "softmax 1536x128": lambda name: softmax(name, 1536, 128),
    "layer norm 128x768": lambda name: layer_norm(name, 128, 768),
    "gelu 128x3072": lambda name: gelu(name, 128, 3072),
    "relu(add) 4M": lambda name: relu_add(name, 1 << 22),
    "row sums 4096x4096": lambda name: row_sums(name, 4096, 4096),
    "transpose 96x12544": lambda name: transpose(name, (96, 12544), (1, 0)),
    "transpose 12544x96": lambda name: transpose(name, (12544, 96), (1, 0)),
    "transpose 256x3136": lambda name: transpose(name, (256, 3136), (1, 0)),
    "transpose 3x50176": lambda name: transpose(name, (1, 3, 224, 224), (0, 2, 3, 1)),
    "transpose 197x768": lambda name: transpose(name, (1, 197, 768), (0, 2, 1)),
    "transpose 1000x1000": lambda name: transpose(name, (1000, 1000), (1, 0)),
    "transpose 4096x4096": lambda name: transpose(name, (4096, 4096), (1, 0)),
    "transpose heads 197x12x64": lambda name: transpose(name, (1, 197, 12, 64), (0, 2, 1, 3)),
    "gather rows 512 of 30000x768": lambda name: look_up(name, "Gather", (30000, 768), (512,), 0),
    "gather 100000 numbers": lambda name: look_up(name, "Gather", (100000,), (100000,), 0),
    "gather columns 1000x1000": lambda name: look_up(name, "Gather", (1000, 1000), (1000,), 1),
    "gather elements 1000x1000": lambda name: look_up(
        name, "GatherElements", (1000, 1000), (1000, 1000), 1
    ),
}

"""Blocks of quantised networks, and whole ones: f32, bf16 and int8 of this compiler, and f32 and
int8 of onnxruntime.

    python -m benchmarks.run quantised

Each block is built in f32 and quantised by onnxruntime's own tool to the QDQ form: unsigned
activations, signed weights by output channel. "int8" of this compiler runs that form; "own int8"
is quantised by ``tilesmith.compile(precision="int8")`` with the same calibration data.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.contestants import Run, largest_error, onnxruntime_contestant, tilesmith_contestant
from benchmarks.models import MODELS, build_model, model_inputs

RANDOM = np.random.default_rng(0)


class _Block:
    """Nodes and weights of a block with the input x."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def convolution(self, x: str, outputs: int, inputs: int, size: int, **attributes: Any) -> str:
        """Add a convolution with bias that keeps the size of its data (at a stride of 1)."""
        groups = attributes.get("group", 1)
        shape = (outputs, inputs // groups, size, size)
        scale = np.sqrt(2 / np.prod(shape[1:]))
        names = []
        for value in (RANDOM.standard_normal(shape) * scale, RANDOM.standard_normal(outputs) * 0.1):
            names.append(f"w{len(self.weights)}")
            self.weights.append(numpy_helper.from_array(value.astype("float32"), names[-1]))
        pads = [size // 2] * 4
        return self.node("Conv", x, *names, pads=pads, kernel_shape=[size, size], **attributes)

    def model(self, result: str) -> onnx.ModelProto:
        """Return the block as a model."""
        graph = helper.make_graph(
            self.nodes, "block",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
            [helper.make_tensor_value_info(result, TensorProto.FLOAT, None)], self.weights,
        )  # fmt: skip
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def residual(channels: int, size: int) -> onnx.ModelProto:
    """Return a basic block of ResNet-18."""
    block = _Block((1, channels, size, size))
    first = block.node("Relu", block.convolution("x", channels, channels, 3))
    second = block.convolution(first, channels, channels, 3)
    return block.model(block.node("Relu", block.node("Add", second, "x")))


def inverted(channels: int, size: int, factor: int = 6) -> onnx.ModelProto:
    """Return an inverted residual block of MobileNetV2."""
    block, wide = _Block((1, channels, size, size)), channels * factor
    first = block.node("Relu", block.convolution("x", wide, channels, 1))
    second = block.node("Relu", block.convolution(first, wide, wide, 3, group=wide))
    third = block.convolution(second, channels, wide, 1)
    return block.model(block.node("Add", third, "x"))


def grouped(channels: int, size: int, groups: int) -> onnx.ModelProto:
    """Return a block of ResNeXt without its last convolution."""
    block = _Block((1, channels, size, size))
    first = block.node("Relu", block.convolution("x", channels, channels, 1))
    return block.model(
        block.node("Relu", block.convolution(first, channels, channels, 3, group=groups))
    )


BLOCKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "residual 64x56": lambda: residual(64, 56),
    "residual 256x14": lambda: residual(256, 14),
    "inverted 24x28": lambda: inverted(24, 28),
    "inverted 96x14": lambda: inverted(96, 14),
    "grouped 128x28 (32)": lambda: grouped(128, 28, 32),
    **{name: partial(build_model, name) for name in MODELS},
}


def quantised(model: onnx.ModelProto, feed: dict[str, np.ndarray]) -> onnx.ModelProto:
    """Return a model in the QDQ form, calibrated with some data."""
    from onnxruntime import quantization

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.rows: Iterator[dict[str, np.ndarray]] = iter([feed])

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self.rows, None)

    with tempfile.TemporaryDirectory() as folder:
        before, folded, after = [
            Path(folder) / f"{name}.onnx" for name in ("f32", "folded", "int8")
        ]
        onnx.save(model, before)
        quantization.quant_pre_process(before, folded, skip_symbolic_shape=True)
        quantization.quantize_static(
            folded, after, Reader(), quant_format=quantization.QuantFormat.QDQ, per_channel=True,
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
        )  # fmt: skip
        return onnx.load(after)


def contestants(name: str, threads: int) -> tuple[dict[str, Run], dict[str, float]]:
    """Return what runs a block once, by contestant, and the errors against onnxruntime's f32."""
    model = BLOCKS[name]()
    if name in MODELS:
        feed = model_inputs(name)
    else:
        shape = [size.dim_value for size in model.graph.input[0].type.tensor_type.shape.dim]
        feed = {"x": RANDOM.standard_normal(shape).astype("float32")}
    small = quantised(model, feed)
    runs = {
        "onnxruntime f32": onnxruntime_contestant(model, feed, threads),
        "onnxruntime int8": onnxruntime_contestant(small, feed, threads),
        "tilesmith f32": tilesmith_contestant(model, feed, threads),
        "tilesmith bf16": tilesmith_contestant(model, feed, threads, precision="bf16"),
        "tilesmith int8": tilesmith_contestant(small, feed, threads),
        "tilesmith own int8": tilesmith_contestant(
            model, feed, threads, precision="int8", calibration=[feed]
        ),
    }
    results = {key: run() for key, run in runs.items()}
    reference = results["onnxruntime f32"]
    errors = {key: largest_error(result, reference) for key, result in results.items()}
    errors["of int8"] = largest_error(results["tilesmith int8"], results["onnxruntime int8"])
    return runs, errors

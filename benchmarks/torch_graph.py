"""Runs an ONNX graph with torch, operator by operator: the rival "torch" on the very same model.

Weights are converted once and batch normalisation is folded into the convolution before it, as one
does for inference; the rest runs as eager torch runs it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import helper, numpy_helper

Operator = Callable[..., torch.Tensor]
OPERATORS: dict[str, Operator] = {}


def operator(name: str) -> Callable[[Operator], Operator]:
    """Register the torch version of one ONNX operator: (inputs…, **attributes) → output."""

    def register(function: Operator) -> Operator:
        OPERATORS[name] = function
        return function

    return register


for _name, _function in {
    "Add": torch.add,
    "Sub": torch.sub,
    "Mul": torch.mul,
    "Div": torch.div,
    "Pow": torch.pow,
    "Sqrt": torch.sqrt,
    "Exp": torch.exp,
    "Erf": torch.erf,
    "Tanh": torch.tanh,
    "Relu": torch.relu,
    "Sigmoid": torch.sigmoid,
    "MatMul": torch.matmul,
}.items():
    OPERATORS[_name] = _function


def _symmetric(pads: list[int] | None) -> list[int]:
    """Convert ONNX's begins and ends to torch's one number per axis."""
    if not pads:
        return [0, 0]
    half = len(pads) // 2
    if pads[:half] != pads[half:]:
        raise ValueError(f"torch cannot pad by {pads}")
    return pads[:half]


@operator("Conv")
def _conv(x, weight, bias=None, *, strides=None, pads=None, dilations=None, group=1, **_):
    function = F.conv1d if x.ndim == 3 else F.conv2d
    padding = _symmetric(pads) if pads else 0
    return function(x, weight, bias, strides or 1, padding, dilations or 1, group)


@operator("MaxPool")
def _max_pool(x, *, kernel_shape, strides=None, pads=None, **_):
    return F.max_pool2d(x, kernel_shape, strides, _symmetric(pads))


@operator("GlobalAveragePool")
def _global_average_pool(x):
    return x.mean((2, 3), keepdim=True)


@operator("BatchNormalization")
def _batch_norm(x, scale, shift, mean, variance, *, epsilon=1e-5, **_):
    return F.batch_norm(x, mean, variance, scale, shift, eps=epsilon)


@operator("LayerNormalization")
def _layer_norm(x, scale, shift, *, epsilon=1e-5, **_):
    return F.layer_norm(x, scale.shape, scale, shift, epsilon)


@operator("Clip")
def _clip(x, low, high):
    return torch.clamp(x, low, high)


@operator("Flatten")
def _flatten(x, *, axis=1):
    return x.flatten(axis)


@operator("Gemm")
def _gemm(a, b, c, *, transB=0, **_):
    return F.linear(a, b, c) if transB else torch.addmm(c, a, b)


@operator("Softmax")
def _softmax(x, *, axis=-1):
    return torch.softmax(x, axis)


@operator("ReduceMean")
def _reduce_mean(x, *, axes, keepdims=1):
    return x.mean(axes, keepdim=bool(keepdims))


@operator("ReduceSum")
def _reduce_sum(x, axes, *, keepdims=1):
    return x.sum(axes, keepdim=bool(keepdims))


@operator("Reshape")
def _reshape(x, shape):
    return x.reshape(shape)


@operator("Transpose")
def _transpose(x, *, perm):
    return x.permute(perm)


@operator("Unsqueeze")
def _unsqueeze(x, axes):
    for axis in axes:
        x = x.unsqueeze(axis)
    return x


@operator("Gather")
def _gather(x, indices, *, axis=0):
    if indices.ndim == 0:
        return x.select(axis, int(indices))
    if axis == 0:
        return F.embedding(indices, x) if x.ndim == 2 else x[indices]
    return x.index_select(axis, indices)


@operator("GatherElements")
def _gather_elements(x, indices, *, axis=0):
    return torch.gather(x, axis, indices)


@operator("Cast")
def _cast(x, *, to):
    return x.to(torch.from_numpy(np.empty(0, helper.tensor_dtype_to_np_dtype(to))).dtype)


# Inputs that torch wants as Python numbers: operator → position.
_AS_NUMBERS = {"Reshape": 1, "Unsqueeze": 1, "ReduceSum": 1}


def _fold_batch_norms(model: onnx.ModelProto, weights: dict[str, np.ndarray]) -> list[Any]:
    """Fold normalisations that follow a convolution into its weights; return the other nodes."""
    made_by = {output: node for node in model.graph.node for output in node.output}
    uses: dict[str, int] = {}
    for node in model.graph.node:
        for name in node.input:
            uses[name] = uses.get(name, 0) + 1
    nodes = []
    renamed: dict[str, str] = {}
    for node in model.graph.node:
        before = made_by.get(node.input[0]) if node.input else None
        if (
            node.op_type == "BatchNormalization"
            and before is not None
            and before.op_type == "Conv"
            and uses[node.input[0]] == 1
        ):
            epsilon = next((a.f for a in node.attribute if a.name == "epsilon"), 1e-5)
            scale, shift, mean, variance = (weights[name] for name in node.input[1:])
            factor = scale / np.sqrt(variance + epsilon)
            weight = weights[before.input[1]] * factor[:, None, None, None]
            bias = shift - mean * factor
            if len(before.input) > 2:
                bias = bias + weights[before.input[2]] * factor
            folded = next(n for n in nodes if n.output[0] == node.input[0])
            names = [f"{folded.name}.folded_weight", f"{folded.name}.folded_bias"]
            weights.update(zip(names, (weight, bias.astype(weight.dtype)), strict=True))
            folded.input[1:] = names
            renamed[node.output[0]] = node.input[0]
            continue
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = [renamed.get(name, name) for name in node.input]
        nodes.append(copy)
    return nodes


class TorchGraph:
    """An ONNX model as a function of numpy arrays, computed by torch."""

    def __init__(self, model: onnx.ModelProto) -> None:
        arrays = {w.name: numpy_helper.to_array(w) for w in model.graph.initializer}
        nodes = _fold_batch_norms(model, arrays)
        self.outputs = [output.name for output in model.graph.output]
        self.weights = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
        self.steps = []
        for node in nodes:
            if node.op_type not in OPERATORS:
                raise ValueError(f"no torch version of the operator {node.op_type}")
            attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
            position = _AS_NUMBERS.get(node.op_type)
            inputs = list(node.input)
            constants = (
                {position: arrays[inputs[position]].tolist()} if position is not None else {}
            )
            self.steps.append(
                (OPERATORS[node.op_type], inputs, constants, attributes, node.output[0])
            )

    def compute(self, feed: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        """Run the operators one by one."""
        values = {**self.weights, **feed}
        for function, inputs, constants, attributes, output in self.steps:
            arguments = [
                constants[index] if index in constants else values[name]
                for index, name in enumerate(inputs)
            ]
            values[output] = function(*arguments, **attributes)
        return [values[name].contiguous() for name in self.outputs]

    def module(self) -> torch.nn.Module:
        """Return it as a module, which torch.compile takes with its weights for constants."""
        return _Module(self)

    def __call__(self, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
        with torch.inference_mode():
            results = self.compute({name: torch.from_numpy(one) for name, one in feed.items()})
        return [one.numpy() for one in results]


class _Module(torch.nn.Module):
    def __init__(self, graph: TorchGraph) -> None:
        super().__init__()
        self.graph = graph

    def forward(self, feed: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        return self.graph.compute(feed)

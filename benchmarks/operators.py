"""Defines 44 operators as ONNX models of one node: those that have been far slower than in
onnxruntime or could not be compiled, and their neighbours, with sizes that nothing divides and
sizes that are symbolic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from benchmarks.workloads import Workload

__all__ = ["OPERATORS"]

Array = np.ndarray
OPSET = 18


def _draw(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, dtype="float32")


def _places(count: int, size: int) -> Array:
    return np.random.default_rng(1).permutation(size)[:count]


def _one(
    name: str,
    operator: str,
    inputs: Sequence[Array],
    constants: Sequence[Array] = (),
    symbolic: Mapping[int, Mapping[int, str]] | None = None,
    outputs: int = 1,
    opset: int = OPSET,
    **attributes: Any,
) -> Workload:
    """Return one operator; ``symbolic`` names axes of inputs whose size is not given."""
    names = [f"x{number}" for number in range(len(inputs) + len(constants))]
    feed = dict(zip(names, inputs))
    given = []
    for number, (label, array) in enumerate(feed.items()):
        shape: list[int | str] = list(array.shape)
        for axis, size in (symbolic or {}).get(number, {}).items():
            shape[axis] = size
        dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
        given.append(helper.make_tensor_value_info(label, dtype, shape))
    known = [numpy_helper.from_array(x, one) for x, one in zip(constants, names[len(inputs) :])]
    results = [f"y{number}" for number in range(outputs)]
    node = helper.make_node(operator, names, results, **attributes)
    # what is given back is inferred: some operators have several dtypes
    made = [onnx.ValueInfoProto(name=one) for one in results]
    graph = helper.make_graph([node], "operator", given, made, known)
    imports = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=9)
    return Workload(name, onnx.shape_inference.infer_shapes(model), feed, None)


def _top_k(name: str, shape: tuple[int, ...], count: int, axis: int = -1) -> Workload:
    return _one(name, "TopK", [_draw(*shape)], [np.array([count])], outputs=2, axis=axis)


def _matmul(name: str, left: tuple[int, ...], right: tuple[int, ...], weight: bool) -> Workload:
    a, b = _draw(*left), _draw(*right, seed=1)
    return _one(name, "MatMul", [a] if weight else [a, b], [b] if weight else [])


def _dynamic_matmul(name: str, rows: int) -> Workload:
    a, b = _draw(rows, 768), _draw(768, 768, seed=1)
    return _one(name, "MatMul", [a], [b], {0: {0: "n"}})


def _conv(
    name: str, data: tuple[int, ...], weight: tuple[int, ...], operator: str = "Conv",
    symbolic: Mapping[int, str] | None = None, **attributes: Any,
) -> Workload:  # fmt: skip
    named = {0: symbolic} if symbolic else None
    return _one(name, operator, [_draw(*data)], [_draw(*weight, seed=1)], named, **attributes)


def _transposed(
    name: str, data: tuple[int, ...], weight: tuple[int, ...], stride: int, pad: int = 0
) -> Workload:
    rank = len(data) - 2
    attributes = {"strides": [stride] * rank, "pads": [pad] * (2 * rank)}
    return _conv(name, data, weight, "ConvTranspose", **attributes)


def _scatter_nd(name: str, shape: tuple[int, ...], count: int, **attributes: Any) -> Workload:
    places = _places(count, shape[0])[:, None]
    updates = _draw(count, *shape[1:], seed=1)
    return _one(name, "ScatterND", [_draw(*shape), places, updates], **attributes)


def _scatter_elements(name: str, **attributes: Any) -> Workload:
    places = np.stack([np.random.default_rng(n).permutation(1000)[:100] for n in range(100)], 1)
    inputs = [_draw(1000, 100), places, _draw(100, 100, seed=1)]
    return _one(name, "ScatterElements", inputs, axis=0, **attributes)


def _cumsum(name: str, shape: tuple[int, ...], axis: int, **attributes: Any) -> Workload:
    return _one(name, "CumSum", [_draw(*shape)], [np.array(axis)], **attributes)


def _holes(*shape: int) -> Array:
    return (np.random.default_rng(2).random(shape) > 0.5).astype("float32")


def _unique(name: str, values: Array) -> Workload:
    return _one(name, "Unique", [values], outputs=4)


OPERATORS: dict[str, Callable[[str], Workload]] = {
    "TopK 10 of 100000": lambda name: _top_k(name, (1, 100_000), 10),
    "TopK 10 of 100x1000": lambda name: _top_k(name, (100, 1000), 10),
    "TopK 500 of 1000": lambda name: _top_k(name, (8, 1000), 500),
    "TopK 5000 of 5000": lambda name: _top_k(name, (4, 5000), 5000),
    "TopK 5 of 1000x64, axis 0": lambda name: _top_k(name, (1000, 64), 5, 0),
    "NonZero 100000": lambda name: _one(name, "NonZero", [_holes(100_000)]),
    "NonZero 250x400": lambda name: _one(name, "NonZero", [_holes(250, 400)]),
    "Unique 100000": lambda name: _unique(name, _draw(100_000)),
    "Unique 100000, 100 values": lambda name: _unique(name, np.floor(_draw(100_000) * 16)),
    "ScatterND 10000 of 100000": lambda name: _scatter_nd(name, (100_000,), 10_000),
    "ScatterND 1000 rows of 16": lambda name: _scatter_nd(name, (10_000, 16), 1000),
    "ScatterND add": lambda name: _scatter_nd(name, (10_000, 16), 1000, reduction="add"),
    "ScatterElements": lambda name: _scatter_elements(name),
    "ScatterElements add": lambda name: _scatter_elements(name, reduction="add"),
    "CumSum 10x4000": lambda name: _cumsum(name, (10, 4000), 1),
    "CumSum 4000x10, axis 0": lambda name: _cumsum(name, (4000, 10), 0),
    "CumSum exclusive, reverse": lambda name: _cumsum(
        name, (100, 1000), 1, exclusive=1, reverse=1
    ),
    "MatMul 196x768x768": lambda name: _matmul(name, (196, 768), (768, 768), True),
    "MatMul 197x768x768": lambda name: _matmul(name, (197, 768), (768, 768), True),
    "MatMul 197x768x1000": lambda name: _matmul(name, (197, 768), (768, 1000), True),
    "MatMul 197x768x773": lambda name: _matmul(name, (197, 768), (768, 773), True),
    "MatMul 127x127x127": lambda name: _matmul(name, (127, 127), (127, 127), False),
    "MatMul 12x197x64x197": lambda name: _matmul(name, (12, 197, 64), (12, 64, 197), False),
    "MatMul 12x197x197x64": lambda name: _matmul(name, (12, 197, 197), (12, 197, 64), False),
    "MatMul n=1 x768x768": lambda name: _dynamic_matmul(name, 1),
    "MatMul n=7 x768x768": lambda name: _dynamic_matmul(name, 7),
    "MatMul n=197 x768x768": lambda name: _dynamic_matmul(name, 197),
    "MatMul 12xn=197x64xn": lambda name: _one(
        name, "MatMul", [_draw(12, 197, 64), _draw(12, 64, 197, seed=1)],
        symbolic={0: {1: "n"}, 1: {2: "n"}},
    ),
    "Conv 64@28, batch n=1": lambda name: _conv(
        name, (1, 64, 28, 28), (64, 64, 3, 3), symbolic={0: "n"}, pads=[1] * 4
    ),
    "Conv 64@28, batch n=4": lambda name: _conv(
        name, (4, 64, 28, 28), (64, 64, 3, 3), symbolic={0: "n"}, pads=[1] * 4
    ),
    "Conv 32@h x w (57)": lambda name: _conv(
        name, (1, 32, 57, 57), (64, 32, 3, 3), symbolic={2: "h", 3: "w"}, pads=[1] * 4
    ),
    "Conv 32>33 @27": lambda name: _conv(name, (1, 32, 27, 27), (33, 32, 3, 3), pads=[1] * 4),
    "Conv1d 128, k3 s1": lambda name: _conv(name, (1, 128, 2000), (128, 128, 3), pads=[1, 1]),
    "Conv1d 128, k3 s2": lambda name: _conv(
        name, (1, 128, 2000), (128, 128, 3), pads=[1, 1], strides=[2]
    ),
    "Conv1d 80>100, k5 s2 @999": lambda name: _conv(
        name, (1, 80, 999), (100, 80, 5), pads=[2, 2], strides=[2]
    ),
    "ConvTranspose 2x2 s2": lambda name: _transposed(
        name, (1, 128, 32, 32), (128, 64, 2, 2), 2
    ),
    "ConvTranspose 4x4 s2": lambda name: _transposed(
        name, (1, 64, 32, 32), (64, 32, 4, 4), 2, 1
    ),
    "ConvTranspose 3x3 s2": lambda name: _transposed(
        name, (1, 64, 32, 32), (64, 32, 3, 3), 2, 1
    ),
    "ConvTranspose 3x3 s1": lambda name: _transposed(
        name, (1, 64, 32, 32), (64, 32, 3, 3), 1, 1
    ),
    "ConvTranspose1d 4 s2": lambda name: _transposed(name, (1, 128, 512), (128, 64, 4), 2, 1),
    "Softmax 64 x n=1000": lambda name: _one(
        name, "Softmax", [_draw(64, 1000)], symbolic={0: {1: "n"}}, axis=-1
    ),
    "ReduceSum 64 x n=1000": lambda name: _one(
        name, "ReduceSum", [_draw(64, 1000)], [np.array([1])], {0: {1: "n"}}
    ),
    "LayerNormalization n=128 x768": lambda name: _one(
        name, "LayerNormalization", [_draw(128, 768)], [_draw(768), _draw(768, seed=1)],
        {0: {0: "n"}},
    ),
    "ArgMax 100x1000": lambda name: _one(name, "ArgMax", [_draw(100, 1000)], axis=1),
}  # fmt: skip

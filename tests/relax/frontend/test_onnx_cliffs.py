"""Operators whose work must not grow faster than their data: from ONNX to machine code, against
onnxruntime, with ties, odd sizes and axes."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import tilesmith

onnxruntime = pytest.importorskip("onnxruntime")


def draw(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def whole(*shape, low=0, high=9, seed=0):
    return np.random.default_rng(seed).integers(low, high, shape)


def agree(op, inputs, constants=(), outputs=1, rtol=1e-4, **attributes):
    """Compile a model of one node, and compare all that it gives with what onnxruntime gives."""
    names = [f"x{number}" for number in range(len(inputs) + len(constants))]
    results = [f"y{number}" for number in range(outputs)]
    given = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
        )
        for name, value in zip(names, inputs)
    ]
    known = [numpy_helper.from_array(x, name) for x, name in zip(constants, names[len(inputs) :])]
    node = helper.make_node(op, names, results, **attributes)
    made = [onnx.ValueInfoProto(name=name) for name in results]
    graph = helper.make_graph([node], "one", given, made, known)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    model = onnx.shape_inference.infer_shapes(model)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    wanted = session.run(None, dict(zip(names, inputs)))
    got = tilesmith.compile(model, target="llvm")(*inputs)
    for one, want in zip(got if outputs > 1 else [got], wanted):
        assert one.numpy().dtype == want.dtype
        np.testing.assert_allclose(one.numpy(), want, rtol=rtol, atol=1e-4)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("count", [1, 5, 33])
@pytest.mark.parametrize("largest", [0, 1])
def test_top_k(axis, count, largest):
    x = whole(33, 35, 41, high=20).astype("float32")
    agree("TopK", [x], [np.array([count])], 2, axis=axis, largest=largest)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "min", "max"])
def test_scatter(reduction):
    places = np.random.default_rng(0).permutation(500)[:99, None] - 250
    agree("ScatterND", [draw(500, 7), places, draw(99, 7)], reduction=reduction)
    along = np.stack([np.random.default_rng(n).permutation(50)[:13] for n in range(9)], 1)
    agree("ScatterElements", [draw(50, 11), along, draw(13, 9)], axis=0, reduction=reduction)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_cumsum(axis, exclusive, reverse):
    x = draw(7, 5, 33)
    agree("CumSum", [x], [np.array(axis)], exclusive=exclusive, reverse=reverse)


CONVOLUTIONS = [
    ("ConvTranspose", (1, 5, 6, 7), (5, 4, 2, 2), {"strides": [2, 2]}),
    ("ConvTranspose", (2, 5, 6, 7), (5, 8, 4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    (
        "ConvTranspose", (1, 3, 5, 4), (3, 9, 3, 3),
        {"strides": [2, 2], "pads": [1, 0, 1, 2], "output_padding": [1, 1]},
    ),
    ("ConvTranspose", (1, 3, 5, 4), (3, 4, 5, 2), {"strides": [3, 1], "pads": [2, 0, 1, 0]}),
    ("ConvTranspose", (1, 3, 5, 4), (3, 8, 1, 2), {"strides": [3, 3]}),
    ("ConvTranspose", (1, 3, 6, 6), (3, 8, 3, 3), {"strides": [2, 2], "pads": [2, 2, 2, 2]}),
    ("ConvTranspose", (1, 3, 6, 6), (3, 16, 3, 3), {"pads": [1, 1, 1, 1]}),
    ("ConvTranspose", (1, 4, 6, 6), (4, 3, 3, 3), {"strides": [2, 2], "group": 2}),
    ("ConvTranspose", (1, 4, 6, 6), (4, 3, 3, 3), {"strides": [2, 2], "dilations": [2, 1]}),
    ("ConvTranspose", (1, 3, 11), (3, 9, 4), {"strides": [2], "pads": [1, 1]}),
    ("ConvTranspose", (1, 3, 11), (3, 1, 4), {"strides": [2]}),
    ("Conv", (2, 3, 31), (9, 3, 3), {"strides": [2], "pads": [1, 1]}),
    ("Conv", (1, 8, 31), (8, 1, 5), {"strides": [3], "pads": [2, 0], "group": 8}),
    ("Conv", (1, 3, 31), (16, 3, 3), {"strides": [2], "dilations": [2]}),
    ("Conv", (1, 8, 9, 13), (33, 8, 3, 3), {"pads": [1, 1, 1, 1]}),
]  # fmt: skip


@pytest.mark.parametrize(("op", "data", "weight", "attributes"), CONVOLUTIONS)
def test_convolutions(op, data, weight, attributes):
    agree(op, [draw(*data)], [draw(*weight, seed=1)], **attributes)


@pytest.mark.parametrize("rows", [1, 13, 97])
@pytest.mark.parametrize("columns", [7, 50, 100])
def test_products_of_odd_sizes(rows, columns):
    agree("MatMul", [draw(rows, 33)], [draw(33, columns, seed=1)], rtol=1e-3)
    agree("MatMul", [draw(3, rows, 9), draw(3, 9, columns, seed=1)], rtol=1e-3)


def grown(nodes, inputs, constants):
    """A model whose first input has a symbolic batch and size."""
    given = [helper.make_tensor_value_info(k, 1, shape) for k, shape in inputs.items()]
    known = [numpy_helper.from_array(x, name) for name, x in constants.items()]
    graph = helper.make_graph(nodes, "grown", given, [onnx.ValueInfoProto(name="y")], known)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return onnx.shape_inference.infer_shapes(model)


def test_one_artifact_serves_all_batches_and_sizes():
    node = helper.make_node
    model = grown(
        [
            node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
            node("Relu", ["a"], ["b"]),
            node("ConvTranspose", ["b", "v"], ["c"], strides=[2, 2], pads=[1, 1, 1, 1]),
            node("GlobalAveragePool", ["c"], ["d"]),
            node("Flatten", ["d"], ["e"]),
            node("Gemm", ["e", "u", "bias"], ["y"]),
        ],
        {"x": ["n", 3, "h", "w0"]},
        {
            "w": draw(16, 3, 3, 3),
            "v": draw(16, 12, 4, 4, seed=1),
            "u": draw(12, 21, seed=2),
            "bias": draw(21, seed=3),
        },
    )
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    compiled = tilesmith.compile(model, target="llvm")
    for shape in ((1, 3, 8, 8), (3, 3, 5, 17), (7, 3, 1, 2)):
        x = draw(*shape)
        np.testing.assert_allclose(
            compiled(x).numpy(), session.run(None, {"x": x})[0], rtol=1e-3, atol=1e-4
        )

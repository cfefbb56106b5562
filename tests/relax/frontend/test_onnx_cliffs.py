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

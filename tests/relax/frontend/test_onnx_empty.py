"""Tensors without elements: reductions give their identity, as onnxruntime and numpy do."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilesmith
from tilesmith.support.errors import TilesmithError

ort = pytest.importorskip("onnxruntime")
KINDS = {"float32": TensorProto.FLOAT, "int32": TensorProto.INT32}


def model(nodes, shape, constants=(), dtype="float32", result=None):
    tensors = [numpy_helper.from_array(array, name) for name, array in constants]
    kind = KINDS[dtype]
    result_kind = kind if result is None else result
    x = helper.make_tensor_value_info("x", kind, shape)
    y = helper.make_tensor_value_info("y", result_kind, None)
    graph = helper.make_graph(nodes, "g", [x], [y], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def rival(made, x):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return ort.InferenceSession(made.SerializeToString(), options).run(None, {"x": x})[0]


REDUCTIONS = ["Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare"]


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axes", [[1], [0, 1], [1, 2]])
@pytest.mark.parametrize("is_symbolic", [False, True])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name, is_symbolic, axes, keepdims):
    node = helper.make_node(f"Reduce{name}", ["x", "axes"], ["y"], keepdims=keepdims)
    shape = ["a", "b", "c"] if is_symbolic else [3, 0, 2]
    made = model([node], shape, [("axes", np.array(axes))])
    run = tilesmith.compile(made)
    empty = np.zeros((3, 0, 2), "float32")
    wanted = rival(made, empty)
    if name == "Mean":  # of nothing there is none: onnxruntime says 0
        wanted = np.full_like(wanted, np.nan)
    np.testing.assert_array_equal(run(empty).numpy(), wanted)
    if is_symbolic:
        full = np.random.default_rng(0).random((3, 5, 2)).astype("float32")
        np.testing.assert_allclose(run(full).numpy(), rival(made, full), rtol=1e-5)


@pytest.mark.parametrize("is_symbolic", [False, True])
@pytest.mark.parametrize(("name", "wanted"), [("Max", -(2**31)), ("Min", 2**31 - 1), ("Sum", 0)])
def test_reductions_of_integers(name, wanted, is_symbolic):
    node = helper.make_node(f"Reduce{name}", ["x", "axes"], ["y"], keepdims=0)
    made = model([node], ["a", "b"] if is_symbolic else [3, 0], [("axes", np.array([1]))], "int32")
    found = tilesmith.compile(made)(np.zeros((3, 0), "int32")).numpy()
    np.testing.assert_array_equal(found, np.full(3, wanted))


@pytest.mark.parametrize("is_symbolic", [False, True])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_of_integers_as_onnxruntime_does(name, is_symbolic):
    node = helper.make_node(f"Reduce{name}", ["x", "axes"], ["y"], keepdims=0)
    made = model([node], ["a", "b"] if is_symbolic else [3, 0], [("axes", np.array([1]))], "int32")
    empty = np.zeros((3, 0), "int32")
    found, wanted = tilesmith.compile(made)(empty).numpy(), rival(made, empty)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", ["Max", "Min"])
def test_extremes_of_infinities(name):
    node = helper.make_node(f"Reduce{name}", ["x", "axes"], ["y"], keepdims=0)
    made = model([node], ["a", "b"], [("axes", np.array([1]))])
    x = np.full((2, 3), -np.inf if name == "Max" else np.inf, "float32")
    np.testing.assert_array_equal(tilesmith.compile(made)(x).numpy(), x[:, 0])


@pytest.mark.parametrize("name", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("is_symbolic", [False, True])
def test_arguments_of_nothing_are_an_error(name, is_symbolic):
    node = helper.make_node(name, ["x"], ["y"], name="best", axis=1, keepdims=0)
    made = model([node], ["a", "b"] if is_symbolic else [3, 0], result=TensorProto.INT64)
    with pytest.raises(TilesmithError, match="of no elements"):
        tilesmith.compile(made)(np.zeros((3, 0), "float32"))


OTHERS = {
    "product": ([helper.make_node("MatMul", ["x", "w"], ["y"])], [("w", np.ones((0, 5), "f4"))]),
    "softmax": ([helper.make_node("Softmax", ["x"], ["y"])], []),
    "join": (
        [helper.make_node("Concat", ["x", "w"], ["y"], axis=1)],
        [("w", np.ones((3, 2), "f4"))],
    ),
    "norm": (
        [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])],
        [("w", np.ones((0, 4), "f4"))],
    ),
}  # fmt: skip


@pytest.mark.parametrize("is_symbolic", [False, True])
@pytest.mark.parametrize("name", OTHERS)
def test_other_operators(name, is_symbolic):
    nodes, constants = OTHERS[name]
    shape = [3, 0]
    if is_symbolic:
        shape = ["a", "b"] if name in ("softmax", "join") else ["a", 0]
    made = model(nodes, shape, constants)
    x = np.zeros((3, 0), "float32")
    np.testing.assert_array_equal(tilesmith.compile(made)(x).numpy(), rival(made, x))


def test_product_of_symbolic_depth():
    node = helper.make_node("MatMul", ["x", "t"], ["y"])
    turned = helper.make_node("Transpose", ["x"], ["t"])
    made = model([turned, node], ["a", "b"])
    run = tilesmith.compile(made)
    for depth in (0, 1, 7):
        x = np.random.default_rng(0).random((3, depth)).astype("float32")
        np.testing.assert_allclose(run(x).numpy(), x @ x.T, rtol=1e-5)


def test_pooling_of_no_images():
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2])
    made = model([node], ["n", 3, 4, 4])
    assert tilesmith.compile(made)(np.zeros((0, 3, 4, 4), "float32")).numpy().shape == (0, 3, 3, 3)

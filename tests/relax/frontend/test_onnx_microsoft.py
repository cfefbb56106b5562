"""Operators of com.microsoft that onnxruntime's quantiser and optimiser emit, against it."""

import numpy as np
import pytest
from onnx import helper

from tests.relax.frontend.onnx_reference import compare, make_model, one_node

RANDOM = np.random.default_rng(3)
MS = "com.microsoft"


def f32(*shape):
    return RANDOM.standard_normal(shape).astype("float32")


def u8(*shape, high=256):
    return RANDOM.integers(0, high, shape).astype("uint8")


def i8(*shape):
    return RANDOM.integers(-128, 128, shape).astype("int8")


def scale(value):
    return np.array(value, "float32")


def point(value, dtype="uint8"):
    return np.array(value, dtype)


def check(operator, feed, constants=None, outputs=1, off_by_one=False, **attributes):
    model = one_node(operator, feed, outputs, constants, domain=MS, **attributes)
    return compare(model, feed, atol=1.01 if off_by_one else 1e-5)


PARAMETERS = {"xs": scale(0.1), "xz": point(120), "ys": scale(0.04), "yz": point(100)}


@pytest.mark.parametrize("operator", ["QLinearAdd", "QLinearMul"])
def test_arithmetic_of_integers(operator):
    feed = {"a": u8(2, 3, 4), "as": scale(0.05), "az": point(128)}
    feed |= {"b": u8(4), "bs": scale(0.02), "bz": point(3)}
    check(operator, feed, {"cs": scale(0.1), "cz": point(90)}, off_by_one=True)


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("QLinearSigmoid", {}),
        ("QLinearLeakyRelu", {"alpha": 0.2}),
        ("QLinearGlobalAveragePool", {"channels_last": 0}),
        ("QLinearGlobalAveragePool", {"channels_last": 1}),
        ("QLinearAveragePool", {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ],
)
def test_functions_of_integers(operator, attributes):
    check(operator, {"x": u8(2, 3, 4, 4)}, PARAMETERS, off_by_one=True, **attributes)


def test_softmax_of_integers():
    feed = {"x": u8(2, 3, 4)}
    model = one_node("QLinearSoftmax", feed, 1, PARAMETERS, domain=MS, axis=-1)
    model.graph.node[0].attribute.append(helper.make_attribute("opset", 13))
    compare(model, feed, atol=1.01)


def test_concat_of_integers():
    feed = {"ys": scale(0.1), "yz": point(100), "a": u8(2, 3), "as": scale(0.05)}
    feed |= {"az": point(128), "b": u8(2, 4), "bs": scale(0.2), "bz": point(7)}
    constants = {name: feed.pop(name) for name in ("ys", "yz")}
    model = one_node(
        "QLinearConcat", {}, 1, {**constants, "a": feed["a"], **{
            name: feed[name] for name in ("as", "az", "b", "bs", "bz")}}, domain=MS, axis=1,
    )  # fmt: skip
    compare(model, {}, atol=1.01)


@pytest.mark.parametrize("is_quantised", [True, False])
def test_gemm_of_integers(is_quantised):
    constants = {"as": scale(0.05), "az": point(120), "b": i8(6, 5), "bs": np.abs(f32(5)) + 0.1}
    constants |= {"bz": np.zeros(5, "int8"), "c": RANDOM.integers(-99, 99, 5).astype("int32")}
    if is_quantised:
        constants |= {"ys": scale(8), "yz": point(128)}
    check("QGemm", {"a": u8(3, 6)}, constants, off_by_one=is_quantised, alpha=1.0)


def test_matmul_of_integers_to_floats():
    constants = {"b": i8(6, 5), "as": scale(0.1), "bs": scale(0.2), "az": point(100)}
    constants |= {"bz": point(0, "int8"), "c": f32(5)}
    check("MatMulIntegerToFloat", {"a": u8(3, 6)}, constants)


def test_matmul_that_quantises_its_input():
    constants = {"b": i8(6, 5), "bs": scale(0.2), "bz": point(2, "int8"), "c": f32(5)}
    model = one_node("DynamicQuantizeMatMul", {"a": f32(3, 6)}, 1, constants, domain=MS)
    compare(model, {"a": f32(3, 6)}, rtol=1e-3, atol=0.1)


def test_attention_of_integers():
    feed = {"x": u8(2, 3, 8, high=255)}
    constants = {"w": i8(8, 24), "b": f32(24), "xs": scale(0.02), "ws": scale(0.02), "": None}
    constants |= {"xz": point(128), "wz": point(0, "int8")}
    check("QAttention", feed, constants, num_heads=2)


ANGLES = np.outer(np.arange(16), 1 / 100 ** (np.arange(4) / 4))
TABLES = {"cos": np.cos(ANGLES).astype("float32"), "sin": np.sin(ANGLES).astype("float32")}


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("shape", [(2, 5, 16), (2, 2, 5, 8)])
def test_rotary_embedding(interleaved, shape):
    feed = {"x": f32(*shape), "places": RANDOM.integers(0, 16, (2, 5))}
    check("RotaryEmbedding", feed, TABLES, interleaved=interleaved)
    check("RotaryEmbedding", {**feed, "places": np.array([3])}, TABLES, interleaved=interleaved)


@pytest.mark.parametrize("window", [-1, 3])
@pytest.mark.parametrize("rotary", [0, 1])
@pytest.mark.parametrize("past", [0, 6])
def test_group_query_attention(past, rotary, window):
    """A first run (past=0) and a step of decoding, with four heads that share two of keys."""
    length = 5 if past == 0 else 1
    feed = {"q": f32(2, length, 64), "k": f32(2, length, 32), "v": f32(2, length, 32)}
    if past:
        feed |= {"pk": f32(2, 2, past, 16), "pv": f32(2, 2, past, 16)}
    total = past + length
    feed |= {"n": np.full(2, total - 1, "int32"), "t": np.array(total, "int32")}
    names = ["q", "k", "v", *(["pk", "pv"] if past else ["", ""]), "n", "t"]
    names += ["cos", "sin"] if rotary else []
    node = helper.make_node(
        "GroupQueryAttention", names, ["y", "key", "value"], domain=MS, num_heads=4,
        kv_num_heads=2, do_rotary=rotary, local_window_size=window,
    )  # fmt: skip
    inputs = {name: (str(value.dtype), value.shape) for name, value in feed.items()}
    tables = {name: np.repeat(table, 2, 1) for name, table in TABLES.items()}
    outputs = ["y", "key", "value"]
    model = make_model([node], inputs, outputs, tables if rotary else None, 17, (MS,))
    compare(model, feed, rtol=1e-3, atol=1e-4)

"""Tilesmith as a backend of the package onnx."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.relax.frontend.onnx_reference import make_model
from tilesmith.driver import onnx_backend
from tilesmith.error import FrontendError, TilesmithError, UnsupportedError
from tilesmith.support.fallbacks import collect_fallbacks

F32 = TensorProto.FLOAT


def sequence_model():
    """The sum of the two elements at the ends of a sequence, and the sequence without the last."""
    nodes = [
        helper.make_node("Constant", [], ["first"], value_int=0),
        helper.make_node("Constant", [], ["last"], value_int=-1),
        helper.make_node("SequenceAt", ["s", "first"], ["a"]),
        helper.make_node("SequenceAt", ["s", "last"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["sum"]),
        helper.make_node("SequenceErase", ["s", "last"], ["rest"]),
    ]
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(F32, None))
    graph = helper.make_graph(
        nodes, "ends", [helper.make_value_info("s", kind)],
        [helper.make_tensor_value_info("sum", F32, None), helper.make_value_info("rest", kind)],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_prepare_and_run():
    model = make_model(
        [helper.make_node("Add", ["x", "y"], ["z"])],
        {"x": ("float32", ["n"]), "y": ("float32", ["n"])}, {"z": ("float32", ["n"])},
    )  # fmt: skip
    x, y = np.arange(3, dtype="float32"), np.ones(3, "float32")
    prepared = onnx_backend.prepare(model)
    for inputs in ([x, y], {"y": y, "x": x}):
        (found,) = prepared.run(inputs)
        np.testing.assert_array_equal(found, x + 1)
    assert prepared.specialised == ""
    (found,) = onnx_backend.run_model(model.SerializeToString(), [x[:1], y[:1]])
    np.testing.assert_array_equal(found, [1])
    with pytest.raises(FrontendError, match=r"(?s)2 inputs, got 1.*x, y"):
        prepared.run([x])
    with pytest.raises(FrontendError, match="no input 'q'"):
        prepared.run({"q": x})


def test_run_node():
    node = helper.make_node("Softmax", ["x"], ["y"], axis=0)
    (found,) = onnx_backend.run_node(node, [np.zeros((2, 3), "float32")])
    np.testing.assert_allclose(found, np.full((2, 3), 0.5))


def test_devices():
    assert onnx_backend.supports_device("CPU") and onnx_backend.supports_device("CPU:0")
    assert not onnx_backend.supports_device("CUDA")
    with pytest.raises(UnsupportedError, match="no device 'CUDA'"):
        onnx_backend.prepare(sequence_model(), "CUDA")


def test_a_sequence_is_compiled_for_its_structure():
    prepared = onnx_backend.prepare(sequence_model())
    parts = [np.full((2, 2), value, "float32") for value in (1, 2, 4)]
    with collect_fallbacks() as report:
        total, rest = prepared.run([parts])
    assert prepared.specialised == "structure"
    assert any(fallback.kind == "specialisation" for fallback, _ in report.rows())
    np.testing.assert_array_equal(total, np.full((2, 2), 5))
    assert len(rest) == 2
    np.testing.assert_array_equal(rest[1], parts[1])
    total, rest = prepared.run([parts[:1]])
    np.testing.assert_array_equal(total, np.full((2, 2), 2))
    assert rest == []


def test_an_optional_input_may_be_absent():
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(F32, [2]))
    graph = helper.make_graph(
        [helper.make_node("OptionalHasElement", ["x"], ["y"])], "has",
        [helper.make_value_info("x", kind)],
        [helper.make_tensor_value_info("y", TensorProto.BOOL, [])],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    prepared = onnx_backend.prepare(model)
    assert not prepared.run([None])[0]
    assert prepared.run([np.zeros(2, "float32")])[0]


def test_what_cannot_be_compiled_says_why():
    node = helper.make_node("MyOwn", ["x"], ["y"], domain="my.domain")
    model = make_model([node], {"x": ("float32", [2])}, ["y"], domains=["my.domain"])
    with pytest.raises(TilesmithError, match=r"(?s)cannot be imported.*my\.domain\.MyOwn"):
        onnx_backend.prepare(model).run([np.zeros(2, "float32")])


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "uint2", "float4_e2m1fn"])
def test_elements_smaller_than_a_byte(dtype):
    """They come in and go out as ml_dtypes has them."""
    import ml_dtypes

    kind = getattr(ml_dtypes, dtype)
    x = np.array([[0, 1, 1], [0, 1, 0]], "float32").astype(kind)
    element = onnx.helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        [helper.make_node("Transpose", ["x"], ["y"]),
         helper.make_node("Cast", ["x"], ["z"], to=F32)], "small",
        [helper.make_tensor_value_info("x", element, [2, 3])],
        [helper.make_tensor_value_info("y", element, [3, 2]),
         helper.make_tensor_value_info("z", F32, [2, 3])],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=12)
    turned, wide = onnx_backend.run_model(model, [x])
    assert turned.dtype == x.dtype
    np.testing.assert_array_equal(turned.astype("float32"), x.T.astype("float32"))
    np.testing.assert_array_equal(wide, x.astype("float32"))

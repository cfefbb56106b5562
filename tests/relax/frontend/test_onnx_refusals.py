"""Models that are refused when they are imported: names given twice, unknown versions, sizes that
are not sizes.
"""

from __future__ import annotations

import pytest
from onnx import TensorProto, helper

from tilesmith.relax.frontend.onnx import from_onnx
from tilesmith.support.errors import FrontendError, OpAttributeInvalid

RELU = helper.make_node("Relu", ["x"], ["y"], name="first")
NEGATE = helper.make_node("Neg", ["x"], ["y"], name="second")
HALVES = helper.make_node("Split", ["x"], ["y", "y"], name="halves")
IN_PLACE = helper.make_node("Relu", ["x"], ["x"], name="in_place")


def tensor(name, sizes=(2,)):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes)


def model(nodes, inputs=("x",), outputs=("y",), weights=(), opset=17):
    graph = helper.make_graph(
        nodes, "graph", [tensor(name) for name in inputs], [tensor(name) for name in outputs],
        [helper.make_tensor(name, TensorProto.FLOAT, [2], [1.0, 2.0]) for name in weights],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (model([RELU], inputs=("x", "x")), "two inputs with the name 'x'"),
        (model([RELU], outputs=("y", "y")), "lists twice the output 'y'"),
        (model([RELU], weights=("w", "w")), "two weights with the name 'w'"),
        (model([RELU, NEGATE]), "Neg node 'second' computes 'y', which is a result of the Relu"),
        (model([HALVES]), "Split node 'halves' computes 'y', which is a result of the Split"),
        (model([IN_PLACE], outputs=("x",)), "'in_place' computes 'x', which is an input"),
        (model([RELU], weights=("y",)), "'first' computes 'y', which is a weight"),
        (model([RELU], opset=99), "the opset version 99; .* knows the versions 1 to"),
    ],
)
def test_refused(given, words):
    with pytest.raises(FrontendError, match=words):
        from_onnx(given)


def test_a_weight_may_be_the_default_of_an_input():
    from_onnx(model([helper.make_node("Add", ["x", "w"], ["y"])], ("x", "w"), weights=("w",)))


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ({"x": ("4",)}, "a size of 'x' is the text '4'"),
        ({"x": "4"}, "the shape of 'x' is a list of sizes, got '4'"),
        ([4], "shape_dict maps names of inputs"),
    ],
)
def test_sizes_that_are_texts(shapes, words):
    with pytest.raises(FrontendError, match=words):
        from_onnx(model([RELU]), shape_dict=shapes)


def test_a_text_names_a_symbolic_size():
    assert "n" in str(from_onnx(model([RELU]), shape_dict={"x": ("n",)}))


def test_a_stride_of_zero():
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="conv", strides=[0, 0])
    inputs = [tensor("x", (1, 1, 4, 4)), tensor("w", (1, 1, 2, 2))]
    graph = helper.make_graph([node], "graph", inputs, [tensor("y", None)])
    given = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    with pytest.raises(OpAttributeInvalid, match="Conv node 'conv'.*at least 1"):
        from_onnx(given)

"""Whole models, in reduced sizes, against onnxruntime."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from benchmarks.models import bert, build_model
from tests.relax.frontend.onnx_reference import compare, imported, reference
from tilesmith import relax
from tilesmith.relax.frontend.onnx import from_onnx

DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits.onnx"


@pytest.mark.parametrize("batch", [1, 3])
def test_digits_with_any_batch(batch):
    images = np.random.default_rng(batch).random((batch, 1, 8, 8), dtype="float32")
    compare(onnx.load(DIGITS), {"image": images})


def test_digits_from_a_path():
    module = from_onnx(DIGITS)
    (image,) = module["main"].params
    assert image.name_hint == "image"
    assert str(image.struct_info.shape[0]) == "batch"
    fixed = from_onnx(str(DIGITS), shape_dict={"image": (7, 1, 8, 8)})
    assert fixed["main"].params[0].struct_info.concrete_shape == (7, 1, 8, 8)
    assert fixed["main"].ret_struct_info.concrete_shape == (7, 10)


@pytest.fixture(scope="module", params=["resnet18", "resnet50", "mobilenetv2"])
def image_model(request):
    """A network whose declared sizes are taken away, so that onnxruntime takes any."""
    model = build_model(request.param)
    for item in (*model.graph.input, *model.graph.output):
        for axis, dim in enumerate(item.type.tensor_type.shape.dim):
            dim.dim_param = f"{item.name}{axis}"
    return model


@pytest.mark.parametrize(
    ("size", "given"),
    [
        ((1, 3, 32, 32), (1, 3, 32, 32)),
        ((2, 3, 35, 47), ("n", 3, 35, 47)),
        ((1, 3, 33, 40), ("n", 3, "height", "width")),
    ],
)
def test_image_models(image_model, size, given):
    image = np.random.default_rng(0).standard_normal(size).astype("float32")
    compare(image_model, {"image": image}, shape_dict={"image": given}, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("layer_norm_op", [False, True])
def test_bert(monkeypatch, layer_norm_op):
    sizes = {"LAYERS": 2, "HIDDEN": 48, "HEADS": 4, "HEAD": 12, "INTERMEDIATE": 80}
    for name, value in {**sizes, "SEQUENCE": 13, "VOCABULARY": 50, "POSITIONS": 20}.items():
        monkeypatch.setattr(bert, name, value)
    model = build_model("bert", layer_norm_op=layer_norm_op)
    compare(model, bert.inputs(np.random.default_rng(1)), rtol=1e-3, atol=1e-4)


def test_weights_as_parameters():
    model = onnx.load(DIGITS)
    module = from_onnx(model, keep_params_in_input=True)
    main = module["main"]
    assert main.attrs["num_input"] == 1
    detached, params = relax.frontend.detach_params(module)
    assert "params" not in detached["main"].attrs and len(params["main"]) == len(main.params) - 1
    for variable, value in zip(main.params[1:], params["main"]):
        assert variable.struct_info.concrete_shape == value.shape
    image = np.random.default_rng(0).random((2, 1, 8, 8), dtype="float32")
    values = [value.numpy() for value in params["main"]]
    actual = relax.interpreter.run(detached, "main", image, *values)
    np.testing.assert_allclose(actual, reference(model, {"image": image})[0], rtol=1e-4, atol=1e-6)


def test_model_with_subgraphs_and_functions_is_imported_whole():
    """A model-local function is replaced by its body, attributes included."""
    from onnx import helper

    body = [
        helper.make_node("Elu", ["a"], ["e"]),
        helper.make_node("Add", ["e", "b"], ["c"]),
    ]
    body[0].attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=1))
    function = helper.make_function(
        "own", "EluAdd", ["a", "b"], ["c"], body, [helper.make_opsetid("", 17)], ["slope"]
    )
    node = helper.make_node("EluAdd", ["x", "x"], ["y"], domain="own", slope=0.5)
    info = [helper.make_tensor_value_info(name, 1, [2, 3]) for name in ("x", "y")]
    graph = helper.make_graph([node], "g", info[:1], info[1:])
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("own", 1)],
        functions=[function],
        ir_version=8,
    )
    x = np.random.default_rng(0).standard_normal((2, 3)).astype("float32")
    expected = np.where(x > 0, x, 0.5 * (np.exp(x) - 1)) + x
    np.testing.assert_allclose(imported(model, {"x": x})[0], expected, rtol=1e-5)

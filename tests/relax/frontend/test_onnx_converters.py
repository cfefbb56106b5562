"""Converters as classes: those of the table called by hand, and those that users write."""

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.numpy_helper import from_array

import tilesmith
from tilesmith import relax
from tilesmith.ir import assert_structural_equal
from tilesmith.relax import interpreter
from tilesmith.relax.frontend.onnx import from_onnx, onnx_frontend
from tilesmith.relax.frontend.onnx.onnx_frontend import OnnxOpConverter
from tilesmith.runtime import ndarray
from tilesmith.support.errors import (
    FrontendError,
    OpAttributeInvalid,
    OpNotImplemented,
    TypeMismatchError,
)
from tilesmith.support.fallbacks import collect_fallbacks

RANDOM = np.random.default_rng(0)


def floats(*shape):
    return RANDOM.standard_normal(shape).astype("float32")


def model_of(operator, inputs, constants=(), outputs=1, domain="", opset=17, **attributes):
    """Return a model of one node; inputs and constants are arrays by name."""
    constants = dict(constants)
    names = [f"out{i}" for i in range(outputs)]
    graph = helper.make_graph(
        [helper.make_node(operator, [*inputs, *constants], names, domain=domain, **attributes)],
        "g",
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in inputs.items()
        ],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names],
        [from_array(array, name) for name, array in constants.items()],
    )
    domains = [
        helper.make_opsetid("", opset),
        *([helper.make_opsetid(domain, 1)] if domain else []),
    ]
    return helper.make_model(graph, opset_imports=domains, ir_version=8)


def function_by_class(operator, inputs, constants=(), opset=17, attributes=None):
    """Return the module that a class's converter builds for the same node."""
    bb = relax.BlockBuilder()
    variables = [
        relax.Var(name, relax.TensorStructInfo(array.shape, str(array.dtype)))
        for name, array in inputs.items()
    ]
    operands = [*variables, *[relax.Constant(array) for array in dict(constants).values()]]
    convert = getattr(onnx_frontend, operator).get_converter(opset)
    with bb.function("main", variables):
        with bb.dataflow():
            output = bb.emit_output(convert(bb, operands, attributes or {}, {}))
        bb.emit_func_output(output)
    return bb.get()


def run(module, *inputs):
    """Return the results of the function `main`."""
    found = interpreter.run(module, "main", *inputs)
    return list(found) if isinstance(found, tuple) else [found]


X, W = floats(2, 3, 8, 8), floats(4, 3, 3, 3)
NODES = {
    "Add": ("Add", {"x": floats(4, 5), "y": floats(5)}, {}, 1, {}),
    "Conv": ("Conv", {"x": X}, {"w": W}, 1, {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    "Softmax": ("Softmax", {"x": floats(4, 5)}, {}, 1, {"axis": 0}),
    "Reshape": ("Reshape", {"x": floats(4, 6)}, {"shape": np.array([3, -1])}, 1, {}),
    "TopK": ("TopK", {"x": floats(4, 9)}, {"k": np.array([3])}, 2, {}),
    "Split": ("Split", {"x": floats(4, 9)}, {"s": np.array([2, 7])}, 2, {"axis": 1}),
    "Gelu": ("Gelu", {"x": floats(4, 9)}, {}, 1, {}),
    "FastGelu": ("FastGelu", {"x": floats(4, 9), "b": floats(9)}, {}, 1, {}),
    "defined by ONNX": ("MeanVarianceNormalization", {"x": floats(2, 3, 4, 4)}, {}, 1, {}),
}


@pytest.mark.parametrize("name", NODES)
def test_a_class_makes_what_the_importer_makes(name):
    operator, inputs, constants, outputs, attributes = NODES[name]
    domain = "com.microsoft" if "Gelu" in name else ""
    model = model_of(operator, inputs, constants, outputs, domain, **attributes)
    stored = {
        key: value.encode() if isinstance(value, str) else value
        for key, value in attributes.items()
    }
    imported = from_onnx(model)
    made = function_by_class(operator, inputs, constants, attributes=stored)
    values = list(inputs.values())
    for ours, theirs in zip(run(made, *values), run(imported, *values), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_every_operator_of_the_table_has_a_class():
    supported = tilesmith.relax.frontend.onnx.supported_operators()
    own = [names for domain, names in supported.items() if domain != "house"]  # of another test
    for operators in own:
        for name in operators:
            found = getattr(onnx_frontend, name)
            assert issubclass(found, OnnxOpConverter) and found.__name__ == name
            assert callable(found.get_converter(17))
    assert issubclass(onnx_frontend.BitShift, onnx_frontend.BitwiseBase)
    assert issubclass(onnx_frontend.MaxPool, onnx_frontend.Pool)


def test_the_version_decides():
    x = relax.Var("x", relax.TensorStructInfo((2, 3, 4), "float32"))
    softmax = onnx_frontend.Softmax
    old = softmax.get_converter(11)
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(old(bb, [x], {"axis": 1}, {})))
    value = floats(2, 3, 4)
    flat = np.exp(value).reshape(2, 12)
    expected = (flat / flat.sum(1, keepdims=True)).reshape(2, 3, 4)
    np.testing.assert_allclose(run(bb.get(), value)[0], expected, rtol=1e-5)


def test_constants_are_computed_and_parameters_known():
    bb = relax.BlockBuilder()
    add = onnx_frontend.Add.get_converter(14)
    found = add(bb, [relax.const([1.0, 2.0]), relax.const([3.0, 4.0])], {}, {})
    np.testing.assert_array_equal(found.data, [4, 6])
    x = relax.Var("x", relax.TensorStructInfo((4, 6), "float32"))
    shape = relax.Var("shape", relax.TensorStructInfo((2,), "int64"))
    reshape = onnx_frontend.Reshape.get_converter(13)
    for params in ({"shape": np.array([8, 3])}, [{}, {"shape": (shape, np.array([8, 3]))}]):
        call = reshape(bb, [x, shape], {}, params)
        assert [int(size) for size in call.struct_info.shape] == [8, 3]
    sizes = reshape(bb, [x, relax.ShapeExpr([2, 12])], {}, {})
    assert_structural_equal(sizes, relax.op.reshape(x, [2, 12]))


def test_wrong_calls_are_refused():
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((4, 6), "float32"))
    with pytest.raises(FrontendError, match="how many parts"):
        onnx_frontend.Split.get_converter(13)(bb, [x], {}, {})
    with pytest.raises(OpAttributeInvalid, match="'axis'"):
        onnx_frontend.Softmax.get_converter(13)(bb, [x], {"axis": "first"}, {})
    with pytest.raises(FrontendError, match="is missing"):
        onnx_frontend.Add.get_converter(13)(bb, [x, None], {}, {})
    with pytest.raises(OpNotImplemented, match="_impl_vN"):
        onnx_frontend.Pool.get_converter(13)
    with pytest.raises(TypeMismatchError, match="integers"):
        onnx_frontend.BitwiseAnd.base_impl(bb, [x, x], {}, {})


class Scaled(OnnxOpConverter):
    """Multiplies by an attribute; from version 13 on adds the second input, if there is one."""

    @classmethod
    def _impl_v1(cls, bb, inputs, attr, params):
        return relax.op.multiply(inputs[0], relax.const(attr["scale"], "float32"))

    @classmethod
    def _impl_v13(cls, bb, inputs, attr, params):
        assert attr["mode"] == b"fast" and attr["tvm_custom"]["num_outputs"] == 1
        assert inputs[7] is None
        product = bb.emit(cls._impl_v1(bb, inputs, attr, params))
        if inputs[1] is None:
            return product
        return onnx_frontend.Add.get_converter(13)(bb, [product, inputs[1]], {}, params)


@pytest.fixture
def converters():
    """The map of converters, put back as it was."""
    found = onnx_frontend._get_convert_map()
    before = dict(found)
    yield found
    found.clear()
    found.update(before)


def test_a_class_of_ones_own_converts_its_operator(converters):
    x, y = floats(4, 5), floats(5)
    for domain in ("", "my.domain"):
        model = model_of("Scaled", {"x": x}, {"y": y}, domain=domain, scale=3.0, mode="fast")
        with pytest.raises(OpNotImplemented, match="Scaled"):
            from_onnx(model)
        converters["Scaled"] = Scaled
        found = run(from_onnx(model), x)[0]
        np.testing.assert_allclose(found, x * np.float32(3) + y, rtol=1e-6)
        old = run(from_onnx(model, opset=12), x)[0]
        np.testing.assert_allclose(old, x * np.float32(3), rtol=1e-6)
        del converters["Scaled"]


def test_a_class_takes_the_place_of_a_converter(converters):
    class Rounded(onnx_frontend.Relu):
        @classmethod
        def _impl_v1(cls, bb, inputs, attr, params):
            return relax.op.round(super()._impl_v13(bb, inputs, attr, params))

    x = floats(4, 5) * 3
    model = model_of("Relu", {"x": x})
    converters["Relu"] = Rounded
    np.testing.assert_array_equal(run(from_onnx(model), x)[0], np.round(np.maximum(x, 0)))


def test_the_function_of_the_map_may_be_replaced(monkeypatch):
    class Twice(onnx_frontend.BinaryBase):
        relax_op = relax.op.multiply
        numpy_op = np.multiply
        _impl_v1 = onnx_frontend.BinaryBase.base_impl

    class Halves(OnnxOpConverter):
        @classmethod
        def _impl_v1(cls, bb, inputs, attr, params):
            weight = onnx_frontend.get_constant(inputs[1], params)
            count = int(weight.data[0])
            return relax.op.split(inputs[0], count, 0)

    own = {**onnx_frontend._get_convert_map(), "Halves": Halves}
    monkeypatch.setattr(onnx_frontend, "_get_convert_map", lambda: own)
    x = floats(4, 5)
    model = model_of("Halves", {"x": x}, {"n": np.array([2])}, outputs=2)
    for keep in (False, True):
        module, params = relax.frontend.detach_params(from_onnx(model, keep_params_in_input=keep))
        found = run(module, x, *params.get("main", []))
        np.testing.assert_array_equal(np.vstack(found), x)
    short = model_of("Halves", {"x": x}, {"n": np.array([2])}, outputs=3)
    with pytest.raises(FrontendError, match="gives 2 outputs, the node has 3"):
        from_onnx(short)
    left, right = relax.const([2.0]), relax.const([3.0])
    bb = relax.BlockBuilder()
    product = Twice.base_impl(bb, [left, right], {}, {})
    np.testing.assert_array_equal(product.data, [6])


def test_values_that_converters_ask_for():
    x = relax.Var("x", relax.TensorStructInfo((2,), "float32"))
    known = {"x": ndarray.array(np.float32([1, 2]))}
    np.testing.assert_array_equal(onnx_frontend.get_constant(x, known).data, [1, 2])
    assert onnx_frontend.get_constant(x, [{}, {}]) is x
    assert onnx_frontend.get_prim_expr_list(relax.const([3, 4])) == [3, 4]
    assert [int(n) for n in onnx_frontend.get_prim_expr_list(relax.ShapeExpr([5, 6]))] == [5, 6]
    with pytest.raises(ValueError, match="not known at import"):
        onnx_frontend.get_prim_expr_list(x)
    info = helper.make_tensor_value_info("image", TensorProto.FLOAT16, ["n", 3, None])
    name, sizes, dtype, written, variables = onnx_frontend.get_info(info, {})
    assert (name, dtype, written) == ("image", "float16", ["n", 3, "image_2"])
    assert sizes[0] is variables["n"] and sizes[1] == 3 and sizes[2].name == "image_2"
    inputs = onnx_frontend.onnx_input([1, 2])
    assert inputs[5] is None and inputs[:4] == [1, 2, None, None] and inputs[-1] == 2


@pytest.mark.parametrize("mode, expected", [("SAME_UPPER", (1, 2)), ("SAME_LOWER", (2, 1))])
def test_padding_of_an_axis(mode, expected):
    assert onnx_frontend.Pool.get_pad_pair(10, 5, 2, mode) == expected
    with pytest.raises(OpAttributeInvalid):
        onnx_frontend.Pool.get_pad_pair(10, 5, 2, "VALID")


def test_the_cache_keeps_no_model_that_a_class_of_ones_own_converts(converters, tmp_path):
    class Negative(OnnxOpConverter):
        @classmethod
        def _impl_v1(cls, bb, inputs, attr, params):
            return relax.op.negative(inputs[0])

    x = floats(4, 5)
    path = tmp_path / "model.onnx"
    path.write_bytes(model_of("Relu", {"x": x}).SerializeToString())
    np.testing.assert_array_equal(tilesmith.compile(path)(x).numpy(), np.maximum(x, 0))
    converters["Relu"] = Negative
    with collect_fallbacks() as report:
        np.testing.assert_array_equal(tilesmith.compile(path)(x).numpy(), -x)
    assert any("converters of the program's own" in str(one) for one, _ in report.rows())
    del converters["Relu"]
    np.testing.assert_array_equal(tilesmith.compile(path)(x).numpy(), np.maximum(x, 0))

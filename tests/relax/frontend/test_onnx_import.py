"""How models are read: shapes at import, names, sizes, versions; the structure of the result."""

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.relax.frontend.onnx_reference import compare, imported, make_model, one_node
from tilesmith import ir, relax
from tilesmith.error import ShapeError
from tilesmith.relax.expr import Call, Constant, DataflowBlock, MatchCast
from tilesmith.relax.frontend.onnx import ONNXGraphImporter, from_onnx, supported_operators


def operators(module):
    """The names of the operators that `main` calls, in order."""
    found = []
    for block in module["main"].body.blocks:
        for binding in block.bindings:
            if isinstance(binding.value, Call):
                found.append(binding.value.op.name.removeprefix("relax."))
    return found


def shape_text(info):
    return [str(size) if not hasattr(size, "value") else size.value for size in info.shape]


def reshape_by_shape(symbolic=True):
    """x (n, 4, 6) → (n, 24), the shape computed by nodes as exporters write it."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Unsqueeze", ["n", "axis"], ["n1"]),
        helper.make_node("Concat", ["n1", "rest"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
    ]
    constants = {
        "zero": np.array(0, "int64"),
        "axis": np.array([0], "int64"),
        "rest": np.array([-1], "int64"),
    }
    shape = ["n" if symbolic else 5, 4, 6]
    return make_model(nodes, {"x": ("float32", shape)}, ["y"], constants)


@pytest.mark.parametrize("symbolic", [False, True])
def test_shape_computations_vanish(symbolic):
    module = from_onnx(reshape_by_shape(symbolic))
    assert operators(module) == ["reshape"]
    assert shape_text(module["main"].ret_struct_info) == ["n" if symbolic else 5, 24]
    assert all(isinstance(block, DataflowBlock) for block in module["main"].body.blocks)


def test_arithmetic_with_sizes():
    """(n * 2) // 2 - … as sizes; a comparison with -1 is decided; what is float stays out."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Slice", ["s", "zero", "one"], ["n"]),
        helper.make_node("Mul", ["n", "two"], ["twice"]),
        helper.make_node("Equal", ["n", "minus"], ["is_open"]),
        helper.make_node("Where", ["is_open", "one", "twice"], ["chosen"]),
        helper.make_node("Concat", ["chosen", "minus"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
        helper.make_node("ConstantOfShape", ["chosen"], ["z"]),
        helper.make_node("Cast", ["twice"], ["small"], to=onnx.TensorProto.INT32),
        helper.make_node("Identity", ["small"], ["w"]),
    ]
    constants = {
        "zero": np.array([0]), "one": np.array([1]), "two": np.array([2]), "minus": np.array([-1]),
    }  # fmt: skip
    model = make_model(nodes, {"x": ("float32", ["n", 4])}, ["y", "z", "w"], constants)
    x = np.arange(12, dtype="float32").reshape(3, 4)
    compare(model, {"x": x})
    module = from_onnx(model)
    assert "where" not in operators(module) and "equal" not in operators(module)
    fields = module["main"].ret_struct_info.fields
    assert shape_text(fields[0])[1] == 2 and len(shape_text(fields[1])) == 1


def test_sizes_are_not_negative():
    """What is padded and cut off again has the old size: no maximum with 0 stays behind."""
    nodes = [
        helper.make_node("Pad", ["x", "p"], ["wide"]),
        helper.make_node("Slice", ["wide", "start", "end"], ["y"]),
        helper.make_node("Add", ["x", "y"], ["z"]),
    ]
    constants = {"p": np.array([1, 1]), "start": np.array([1]), "end": np.array([-1])}
    model = make_model(nodes, {"x": ("float32", ["n"])}, ["z"], constants)
    assert shape_text(from_onnx(model)["main"].ret_struct_info) == ["n"]
    compare(model, {"x": np.arange(5, dtype="float32")})


def test_dynamic_expand_and_range():
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "one"], ["length"]),
        helper.make_node("Range", ["zero", "length", "one"], ["places"]),
        helper.make_node("Expand", ["places", "s"], ["wide"]),
        helper.make_node("Gather", ["table", "wide"], ["rows"], axis=0),
        helper.make_node("Size", ["x"], ["count"]),
    ]
    constants = {
        "zero": np.array(0), "one": np.array(1),
        "table": np.arange(30, dtype="float32").reshape(10, 3),
    }  # fmt: skip
    model = make_model(nodes, {"x": ("float32", ["batch", "length"])}, ["rows", "count"], constants)
    compare(model, {"x": np.zeros((2, 7), "float32")})


def test_shape_computed_from_data_is_bound_at_run_time():
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["r"]),
        helper.make_node("Relu", ["r"], ["y"]),
    ]
    model = make_model(nodes, {"x": ("float32", [2, 6]), "shape": ("int64", [3])}, ["y"])
    x = np.random.default_rng(0).standard_normal((2, 6)).astype("float32")
    compare(model, {"x": x, "shape": np.array([2, -1, 2])})
    compare(model, {"x": x, "shape": np.array([0, 3, -1])})
    bindings = [b for block in from_onnx(model)["main"].body.blocks for b in block.bindings]
    assert any(isinstance(binding, MatchCast) for binding in bindings)


def test_sizes_that_depend_on_data():
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"]),
        helper.make_node("Transpose", ["places"], ["rows"]),
        helper.make_node("GatherND", ["x", "rows"], ["y"]),
    ]
    model = make_model(nodes, {"x": ("float32", [3, 4])}, ["y"])
    x = np.random.default_rng(0).integers(0, 2, (3, 4)).astype("float32")
    compare(model, {"x": x})


# Inputs


def test_sizes_without_value_are_symbolic_and_shared_by_name():
    node = helper.make_node("Add", ["a", "b"], ["y"])
    model = make_model([node], {"a": ("float32", ["n", None]), "b": ("float32", ["n", 1])}, ["y"])
    module = from_onnx(model)
    a, b = module["main"].params
    assert a.struct_info.shape[0] is b.struct_info.shape[0]
    assert isinstance(a.struct_info.shape[1], ir.Var)
    assert a.struct_info.shape[1].dtype == "int64"


def test_shape_dict_fixes_a_size_everywhere():
    node = helper.make_node("Add", ["a", "b"], ["y"])
    model = make_model([node], {"a": ("float32", ["n", 3]), "b": ("float32", ["n", 3])}, ["y"])
    module = from_onnx(model, shape_dict={"a": [4, 3]})
    assert [p.struct_info.concrete_shape for p in module["main"].params] == [(4, 3), (4, 3)]


def test_shape_dict_takes_symbolic_variables_and_names():
    model = one_node("Relu", {"x": np.zeros((2, 3), "float32")})
    n = ir.Var("n", "int64")
    module = from_onnx(model, shape_dict={"x": (n, "m")})
    shape = module["main"].params[0].struct_info.shape
    assert shape[0] is n and shape[1].name == "m"


def test_dtype_dict_for_inputs_without_dtype():
    model = one_node("Relu", {"x": np.zeros((2, 3), "float32")})
    model.graph.input[0].type.tensor_type.elem_type = 0
    assert from_onnx(model)["main"].params[0].struct_info.dtype == "float32"
    assert from_onnx(model, dtype_dict="float16")["main"].params[0].struct_info.dtype == "float16"
    module = from_onnx(model, dtype_dict={"x": "float64"})
    assert module["main"].params[0].struct_info.dtype == "float64"


@pytest.mark.parametrize(
    ("name", "expected"), [("a.b/c", "a_b_c"), ("1x", "input_1x"), ("x:0", "x_0"), ("ok", "ok")]
)
def test_names_of_inputs(name, expected):
    model = one_node("Relu", {name: np.zeros((2,), "float32")})
    assert from_onnx(model)["main"].params[0].name_hint == expected
    kept = from_onnx(model, sanitize_input_names=False)
    assert kept["main"].params[0].name_hint == name


def test_initializers_are_no_inputs():
    model = one_node("Add", {"x": np.zeros(3, "float32")}, constants={"w": np.ones(3, "float32")})
    model.graph.input.append(helper.make_tensor_value_info("w", 1, [3]))
    assert [p.name_hint for p in from_onnx(model)["main"].params] == ["x"]


def test_output_that_is_an_input_or_a_constant():
    node = helper.make_node("Relu", ["x"], ["y"])
    model = make_model([node], {"x": ("float32", [2])}, ["x", "c", "y"], {"c": np.array([1.5, 2])})
    x = np.array([-1, 2], "float32")
    first, second, third = imported(model, {"x": x})
    assert first.tolist() == [-1, 2] and second.tolist() == [1.5, 2] and third.tolist() == [0, 2]


# Versions and doors


def test_opset_version_is_taken_from_the_model_or_the_caller():
    """Softmax over the last axes together (11), or over one (13)."""
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype("float32")
    old = one_node("Softmax", {"x": x}, opset=11, axis=1)
    new = one_node("Softmax", {"x": x}, opset=13, axis=1)
    compare(old, {"x": x})
    compare(new, {"x": x})
    assert np.allclose(imported(old, {"x": x}, opset=13)[0], imported(new, {"x": x})[0])


def test_importer_class():
    model = one_node("Relu", {"x": np.zeros((2, 3), "float32")})
    module = ONNXGraphImporter({"x": (4, 3)}, "float32").from_onnx(model.graph, 17)
    assert module["main"].ret_struct_info.concrete_shape == (4, 3)


def test_bytes_are_a_model_too():
    model = one_node("Relu", {"x": np.zeros((2, 3), "float32")})
    ir.assert_structural_equal(from_onnx(model.SerializeToString()), from_onnx(model))


def test_operators_that_are_defined_by_others():
    """Without a converter an operator is replaced by ONNX's own definition of it."""
    x = np.random.default_rng(0).standard_normal((4, 3)).astype("float32")
    target = np.array([0, 2, 1, 0])
    model = one_node("SoftmaxCrossEntropyLoss", {"x": x, "t": target}, reduction="sum", opset=13)
    assert "SoftmaxCrossEntropyLoss" not in supported_operators()[""]
    compare(model, {"x": x, "t": target})


def test_list_of_operators():
    known = supported_operators()
    assert {"Conv", "MatMul", "LayerNormalization", "Resize", "LSTM"} <= set(known[""])
    assert "SkipLayerNormalization" in known["com.microsoft"]
    assert len(known[""]) > 160


def test_large_constants_are_left_to_the_pass():
    weight = np.ones((300, 200), "float32")
    nodes = [
        helper.make_node("Transpose", ["w"], ["wt"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "wt"], ["y"]),
    ]
    model = make_model(nodes, {"x": ("float32", [2, 200])}, ["y"], {"w": weight})
    assert operators(from_onnx(model)) == ["permute_dims", "matmul"]
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weight[:4, :5], "w"))
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 5
    module = from_onnx(model)
    assert operators(module) == ["matmul"]
    call = module["main"].body.blocks[0].bindings[0].value
    assert isinstance(call.args[1], Constant) and call.args[1].data.shape == (5, 4)


def test_branches():
    """A branch chosen at import leaves no trace; one chosen at run time becomes `If`."""
    branches = {}
    for name, operator in (("then_branch", "Relu"), ("else_branch", "Neg")):
        out = onnx.ValueInfoProto(name=f"{name}_out")
        inner = helper.make_node(operator, ["x"], [f"{name}_out"])
        branches[name] = helper.make_graph([inner], name, [], [out])
    node = helper.make_node("If", ["c"], ["y"], **branches)
    described = {"x": ("float32", [3]), "c": ("bool", [])}
    model = make_model([node], described, {"y": ("float32", [3])})
    x = np.array([-1, 0, 2], "float32")
    for condition in (True, False):
        feed = {"x": x, "c": np.array(condition)}
        compare(model, feed)
        fixed = make_model([node], {"x": ("float32", [3])}, ["y"], {"c": np.array(condition)})
        assert operators(from_onnx(fixed)) == ["nn.relu" if condition else "negative"]


def test_module_is_well_formed():
    module = from_onnx(reshape_by_shape())
    assert relax.analysis.well_formed(module)


def test_symbolic_sizes_that_meet_are_taken_as_equal():
    """Two names for one size: the result has a known shape, and the call checks the assumption."""
    node = helper.make_node("Add", ["a", "b"], ["y"])
    model = make_model([node], {"a": ("float32", ["n", 3]), "b": ("float32", ["m", 3])}, ["y"])
    module = from_onnx(model)
    assert shape_text(module["main"].ret_struct_info) == ["n", 3]
    ones = np.ones((2, 3), "float32")
    assert np.array_equal(relax.interpreter.run(module, "main", ones, ones), ones + ones)
    with pytest.raises(ShapeError):
        relax.interpreter.run(module, "main", ones, np.ones((5, 3), "float32"))

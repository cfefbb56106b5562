"""Bad input: each mistake gives a typed error that says what, where, and what to do."""

import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.relax.frontend.onnx_reference import make_model, one_node
from tilesmith.error import (
    FrontendError,
    MissingDependencyError,
    OpAttributeUnImplemented,
    OpNotImplemented,
    TilesmithError,
    UnsupportedError,
)
from tilesmith.relax.frontend.onnx import from_onnx

X = np.zeros((2, 3), "float32")


@pytest.fixture
def good():
    return one_node("MatMul", {"x": X}, constants={"w": np.ones((3, 4), "float32")})


# Files


def test_no_such_file(tmp_path):
    with pytest.raises(FrontendError, match=r"cannot read the ONNX model .*nothing\.onnx.*No such"):
        from_onnx(tmp_path / "nothing.onnx")


@pytest.mark.parametrize(
    "content",
    [b"", b"this is not a model", b"\x08\x08", bytes(range(256)), b"PK\x03\x04" + b"0" * 50],
)
def test_not_onnx(tmp_path, content):
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(FrontendError, match=r"model\.onnx' is not an ONNX model") as caught:
        from_onnx(str(path))
    assert "export or download it again" in str(caught.value)


@pytest.mark.parametrize("part", [0.2, 0.5, 0.9, 0.99])
def test_truncated(good, tmp_path, part):
    data = good.SerializeToString()
    path = tmp_path / "model.onnx"
    path.write_bytes(data[: int(len(data) * part)])
    with pytest.raises(FrontendError):
        from_onnx(path)


def test_flipped_bytes_give_typed_errors_only(good):
    """Whatever is changed: the result is a module or an error of ours."""
    data, rng = good.SerializeToString(), np.random.default_rng(0)
    for _ in range(300):
        broken = bytearray(data)
        for place in rng.integers(0, len(data), 3):
            broken[place] = rng.integers(0, 256)
        try:
            from_onnx(bytes(broken))
        except TilesmithError:
            pass


def test_wrong_kind_of_model():
    with pytest.raises(FrontendError, match="an onnx.ModelProto, its bytes, or a path, got dict"):
        from_onnx({})


def test_external_data(good, tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(good, path, save_as_external_data=True, location="data.bin", size_threshold=0)
    module = from_onnx(path)
    assert module["main"].ret_struct_info.concrete_shape == (2, 4)
    (tmp_path / "data.bin").write_bytes(b"1234")
    with pytest.raises(FrontendError, match=r"external data of 'w' is truncated"):
        from_onnx(path)
    (tmp_path / "data.bin").unlink()
    with pytest.raises(FrontendError, match=r"external data of 'w' is missing"):
        from_onnx(path)
    with pytest.raises(FrontendError, match=r"has not been read"):
        from_onnx(onnx.load(path, load_external_data=False))


@pytest.mark.parametrize(
    "location", ["../secret.bin", "/etc/hostname", "link.bin", "a/../../secret.bin"]
)
def test_external_data_outside_of_the_folder(good, tmp_path, location):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(b"0" * 100)
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    path = folder / "model.onnx"
    onnx.save(good, path, save_as_external_data=True, location="data.bin", size_threshold=0)
    model = onnx.load(path, load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        if entry.key == "location":
            entry.value = location
    path.write_bytes(model.SerializeToString())
    with pytest.raises(FrontendError, match=r"'w' in .* lies outside of the model's folder"):
        from_onnx(path)


# Operators


def test_all_unsupported_operators_at_once():
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("StringSplit", ["a"], ["b", "c"], name="first"),
        helper.make_node("NoSuchThing", ["a"], ["d"], name="second"),
        helper.make_node("NoSuchThing", ["a"], ["e"]),
        helper.make_node("Special", ["a"], ["y"], name="third", domain="my.domain"),
    ]
    model = make_model(nodes, {"x": ("float32", [2])}, ["y"], domains=["my.domain"], opset=20)
    with pytest.raises(OpNotImplemented) as caught:
        from_onnx(model)
    text = str(caught.value)
    assert "3 operators that cannot be imported" in text
    for line in (
        "StringSplit (opset 20): first",
        "NoSuchThing (opset 20): second, →e",
        "my.domain.Special (opset 1): third",
    ):
        assert line in text
    assert "Relu" not in text and "supported_operators" in text


def test_unsupported_operator_in_a_branch():
    inner = helper.make_node("NoSuchThing", ["x"], ["o"], name="inner")
    graph = helper.make_graph([inner], "g", [], [onnx.ValueInfoProto(name="o")])
    node = helper.make_node("If", ["c"], ["y"], name="choice", then_branch=graph, else_branch=graph)
    model = make_model([node], {"x": ("float32", [2]), "c": ("bool", [])}, ["y"])
    with pytest.raises(OpNotImplemented, match=r"choice/inner"):
        from_onnx(model)


def test_wrong_shapes_name_the_node():
    model = one_node("MatMul", {"a": X, "b": np.zeros((5, 4), "float32")})
    with pytest.raises(FrontendError) as caught:
        from_onnx(model)
    text = str(caught.value)
    assert text.startswith("MatMul node 'the_node': ")
    assert "inputs: a: float32 tensor (2, 3), b: float32 tensor (5, 4)" in text


@pytest.mark.parametrize(
    ("operator", "shape", "attributes", "message"),
    [
        ("Softmax", (2, 3), {"axis": 5}, "there is no axis 5 in a tensor of rank 2"),
        ("Transpose", (2, 3), {"perm": [0, 2]}, "there is no axis 2"),
        (
            "MaxPool",
            (1, 1, 8, 8),
            {"kernel_shape": [2]},
            "'kernel_shape' has 1 numbers for 2 spatial",
        ),
        (
            "MaxPool",
            (1, 1, 4, 4),
            {"kernel_shape": [9, 9]},
            "window of 9 is larger than the padded data",
        ),
        ("AveragePool", (4, 4), {"kernel_shape": [2, 2]}, "rank 3 to 5, got rank 2"),
        ("DepthToSpace", (1, 3, 2, 2), {"blocksize": 2}, "3 channels cannot be divided"),
        ("Flatten", (2, 3), {"axis": 4}, "there is no axis 4"),
    ],
)
def test_wrong_attributes_name_the_node(operator, shape, attributes, message):
    model = one_node(operator, {"x": np.zeros(shape, "float32")}, **attributes)
    with pytest.raises(TilesmithError, match=f"{operator} node 'the_node'.*({message})"):
        from_onnx(model)


def test_missing_attribute_and_wrong_type_of_attribute():
    model = one_node("Concat", {"a": X, "b": X})
    with pytest.raises(FrontendError, match=r"Concat node 'the_node' is not valid ONNX.*axis"):
        from_onnx(model)
    model = one_node("Softmax", {"x": X}, axis="two")
    with pytest.raises(FrontendError, match=r"Softmax node 'the_node' is not valid ONNX"):
        from_onnx(model)


def test_use_that_is_not_supported():
    names = ("bins", "length", "rate", "low", "high")
    feed = {name: np.array(8, "int64") for name in names[:3]}
    feed |= {name: np.array(8, "float32") for name in names[3:]}
    words = r"MelWeightMatrix node 'the_node'.*'num_mel_bins'"
    with pytest.raises(OpAttributeUnImplemented, match=words) as caught:
        from_onnx(one_node("MelWeightMatrix", feed))
    assert "inputs: bins: int64 tensor" in str(caught.value)


# Graphs


def test_value_that_nothing_computes():
    model = make_model([helper.make_node("Relu", ["z"], ["y"])], {"x": ("float32", [2])}, ["y"])
    with pytest.raises(FrontendError, match="uses 'z' before any node computes it"):
        from_onnx(model)
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": ("float32", [2])}, ["w"])
    with pytest.raises(FrontendError, match="no node computes the output 'w'"):
        from_onnx(model)


def test_types_that_are_not_supported():
    model = one_node("Relu", {"x": X})
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.STRING
    with pytest.raises(UnsupportedError, match="input 'x' has elements of the type string"):
        from_onnx(model)
    sequence = helper.make_tensor_sequence_value_info("x", 1, None)
    model.graph.input[0].CopyFrom(sequence)
    with pytest.raises(UnsupportedError, match="input 'x' is a sequence"):
        from_onnx(model)


def test_tensor_whose_data_does_not_fit(good):
    good.graph.initializer[0].dims[0] = 7
    with pytest.raises(FrontendError, match="tensor 'w' cannot be read"):
        from_onnx(good)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shape_dict": {"z": (1, 2)}}, "shape_dict names 'z'.*not an input"),
        ({"dtype_dict": {"z": "int8"}}, "dtype_dict names 'z'.*not an input"),
        ({"shape_dict": {"x": 5}}, "shape of 'x' is a list of sizes"),
        ({"shape_dict": {"x": (1, 2, 3)}}, "gives 3 sizes for 'x', the model has 2"),
    ],
)
def test_wrong_options(good, options, message):
    with pytest.raises(FrontendError, match=message):
        from_onnx(good, **options)


def test_contradicting_sizes():
    node = helper.make_node("Add", ["a", "b"], ["y"])
    model = make_model([node], {"a": ("float32", ["n", 3]), "b": ("float32", ["n", 3])}, ["y"])
    with pytest.raises(FrontendError, match="both 4 and 5 for the size 'n'"):
        from_onnx(model, shape_dict={"a": (4, 3), "b": (5, 3)})


# The optional package


def test_without_onnx(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingDependencyError, match=r"pip install .*\[onnx\]'"):
        from_onnx("model.onnx")


def test_importing_the_importer_does_not_import_onnx():
    code = "import sys, tilesmith.relax.frontend.onnx; sys.exit('onnx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_operators_that_are_not_known_come_with_advice():
    """Also those in functions; the advice is what to do instead, or the name that is meant."""
    inner = helper.make_node("StringConcat", ["a", "a"], ["b"], name="join")
    imports = [helper.make_opsetid("", 20)]
    function = helper.make_function("my", "Own", ["a"], ["b"], [inner], imports)
    nodes = [
        helper.make_node("Own", ["x"], ["u"], domain="my"),
        helper.make_node("LayerNormalisation", ["u", "u"], ["v"], name="norm"),
        helper.make_node("Gelu", ["v"], ["y"], name="act", domain="ai.onnx.ml"),
    ]
    model = make_model(
        nodes, {"x": ("float32", [2])}, ["y"], opset=20, domains=("my", "ai.onnx.ml")
    )
    model.functions.append(function)
    with pytest.raises(OpNotImplemented) as caught:
        from_onnx(model)
    text = str(caught.value)
    assert "3 operators that cannot be imported" in text
    assert "StringConcat (opset 20): Own/join (it computes with texts" in text
    assert "norm (is 'LayerNormalization' meant?)" in text
    assert "act (known in the domain 'ai.onnx')" in text

"""Large weights are read from the file when the importer comes to them, and are the same."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tilesmith.relax.frontend.onnx import from_onnx, stored_tensors
from tilesmith.relax.frontend.onnx.model import load_model
from tilesmith.relax.frontend.onnx.stored_tensors import read_without_weights
from tilesmith.support.errors import FrontendError


@pytest.fixture(autouse=True)
def all_are_large(monkeypatch):
    monkeypatch.setattr(stored_tensors, "_LARGE", 4)


def model_of(*weights):
    """A model that gives its weights, stored as raw bytes or in typed fields."""
    nodes = [helper.make_node("Identity", [w.name], [f"{w.name}_out"]) for w in weights]
    outputs = [helper.make_tensor_value_info(f"{w.name}_out", w.data_type, None) for w in weights]
    graph = helper.make_graph(nodes, "g", [], outputs, list(weights))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def constants(module):
    found = []
    for block in module["main"].body.blocks:
        for binding in block.bindings:
            found.append(binding.value)
    body = module["main"].body.body
    return [one.data.numpy() for one in (*found, *getattr(body, "fields", [body]))
            if hasattr(one, "data")]  # fmt: skip


ARRAYS = {
    "float32": np.arange(12, dtype="float32").reshape(3, 4),
    "int64": np.array([-1, 1 << 40]),
    "float16": np.array([[0.5], [np.inf]], "float16"),
    "bfloat16": np.array([1.5, -2], ml_dtypes.bfloat16),
    "bool": np.array([True, False, True, True, False]),
    "uint8": np.zeros((0, 3), "uint8"),
    "scalar": np.array(2.5),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_contents_are_those_of_the_file(name, tmp_path):
    array = ARRAYS[name]
    model = model_of(numpy_helper.from_array(array, "w"))
    onnx.save(model, tmp_path / "m.onnx")
    loaded = load_model(tmp_path / "m.onnx")
    if array.nbytes >= 4:
        assert not loaded.proto.graph.initializer[0].raw_data
        read = loaded.stored["w"].read()
        assert read.numpy().tobytes() == array.tobytes() and read.shape == array.shape
    ours = constants(from_onnx(tmp_path / "m.onnx"))
    whole = constants(from_onnx(model))
    assert [(one.dtype, one.tobytes()) for one in ours] == [
        (one.dtype, one.tobytes()) for one in whole
    ]


def test_other_tensors_stay_in_the_model(tmp_path):
    """Typed fields, several to a byte, text, and sizes that do not fit the bytes."""
    typed = helper.make_tensor("typed", TensorProto.FLOAT, (3,), [1.0, 2.0, 3.0])
    packed = helper.make_tensor("packed", TensorProto.INT4, (8,), [1, -2, 3, -4, 5, -6, 7, -8])
    text = helper.make_tensor("text", TensorProto.STRING, (1,), [b"a long text"])
    onnx.save(model_of(typed, packed, text), tmp_path / "m.onnx")
    loaded = load_model(tmp_path / "m.onnx")
    assert not loaded.stored
    for had, has in zip((typed, packed, text), loaded.proto.graph.initializer):
        assert (numpy_helper.to_array(had) == numpy_helper.to_array(has)).all()
    wrong = numpy_helper.from_array(ARRAYS["float32"], "w")
    wrong.dims[0] = 5
    onnx.save(model_of(wrong), tmp_path / "m.onnx")
    with pytest.raises(FrontendError, match="the tensor 'w' cannot be read"):
        from_onnx(tmp_path / "m.onnx")


def test_weights_as_parameters(tmp_path):
    onnx.save(model_of(numpy_helper.from_array(ARRAYS["float32"], "w")), tmp_path / "m.onnx")
    (value,) = from_onnx(tmp_path / "m.onnx", keep_params_in_input=True)["main"].attrs["params"]
    assert (value.numpy() == ARRAYS["float32"]).all()


def test_a_file_that_shrinks_while_it_is_read(tmp_path, monkeypatch):
    path = tmp_path / "m.onnx"
    onnx.save(model_of(numpy_helper.from_array(ARRAYS["float32"], "w")), path)
    read = stored_tensors.StoredTensor.read

    def late(self):
        path.write_bytes(path.read_bytes()[:20])
        return read(self)

    monkeypatch.setattr(stored_tensors.StoredTensor, "read", late)
    with pytest.raises(FrontendError, match="the tensor 'w' cannot be read from .*m.onnx"):
        from_onnx(path)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_damaged_files_are_parsed_as_they_are(tmp_path_factory, data):
    """What is no model stays unchanged; what is one means the same."""
    original = model_of(
        numpy_helper.from_array(ARRAYS["float32"], "w"),
        numpy_helper.from_array(ARRAYS["int64"], "v"),
    ).SerializeToString()
    position = data.draw(st.integers(0, len(original) - 1))
    changed = bytearray(original)
    if data.draw(st.booleans()):
        changed[position] = data.draw(st.integers(0, 255))
    else:
        del changed[position:]
    path = tmp_path_factory.mktemp("damaged") / "m.onnx"
    path.write_bytes(changed)
    try:
        whole = onnx.load_model_from_string(bytes(changed))
    except Exception:
        whole = None
    found = read_without_weights(path)
    if whole is None:
        with pytest.raises(FrontendError):
            from_onnx(path)
        return
    parsed = onnx.load_model_from_string(found)
    assert [node.op_type for node in parsed.graph.node] == [n.op_type for n in whole.graph.node]
    assert [t.name for t in parsed.graph.initializer] == [t.name for t in whole.graph.initializer]

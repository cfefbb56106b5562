"""A model is compiled once; what the cache holds is checked, once for each state of its file."""

import os

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.numpy_helper import from_array

import tilesmith
from tilesmith.driver import model as model_module
from tilesmith.support import file_memory
from tilesmith.support.knobs import knobs

X = np.arange(8, dtype="float32").reshape(2, 4)


def write_model(path, factor):
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])],
        [from_array(np.full(4, factor, "float32"), "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setattr(file_memory, "_SECONDS_UNTIL_SETTLED", -10.0)
    path = tmp_path / "model.onnx"
    write_model(path, 2)
    with knobs.override(cache=True, cache_dir=tmp_path / "cache", workers=1):
        yield path


def entry():
    (found,) = model_module.MODEL_CACHE.entries()
    return found.path


def test_a_model_from_the_cache_is_checked_once(path, monkeypatch):
    tilesmith.compile(str(path))
    checks = []
    monkeypatch.setattr(model_module, "_checked", lambda file: checks.append(file) or "as written")
    for _ in range(3):
        np.testing.assert_array_equal(tilesmith.compile(str(path))(X).numpy(), 2 * X)
    assert checks == [entry()]


def test_a_damaged_entry_is_made_anew(path):
    tilesmith.compile(str(path))
    tilesmith.compile(str(path))
    place, content = entry(), bytearray(entry().read_bytes())
    at = content.find(np.full(4, 2, "float32").tobytes())
    assert at > 0
    content[at : at + 4] = np.float32(3).tobytes()
    moment = place.stat().st_mtime_ns
    place.write_bytes(content)
    os.utime(place, ns=(moment, moment + 1))
    np.testing.assert_array_equal(tilesmith.compile(str(path))(X).numpy(), 2 * X)


def test_a_changed_model_is_compiled_again(path):
    tilesmith.compile(str(path))
    moment = path.stat().st_mtime_ns
    write_model(path, 3)
    os.utime(path, ns=(moment, moment + 1))
    np.testing.assert_array_equal(tilesmith.compile(str(path))(X).numpy(), 3 * X)

"""Weights are in memory once: from the model's files to the constants of code, and from artifacts
that are mapped.
"""

import contextlib
import mmap
import tracemalloc

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tilesmith import relax
from tilesmith.driver.model import model_key
from tilesmith.relax.frontend.onnx import from_onnx, model_files
from tilesmith.runtime.executable import load
from tilesmith.support.cache import file_digest
from tilesmith.target import Target

WEIGHTS = np.arange(1 << 20, dtype="float32").reshape(1024, 1024) / 1024  # 4 MB


@pytest.fixture(params=["inside", "external"])
def path(request, tmp_path):
    values = [helper.make_tensor_value_info(name, 1, [1024, 1024]) for name in ("x", "y")]
    node = helper.make_node("Add", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "g", values[:1], values[1:], [
        numpy_helper.from_array(WEIGHTS, "w")])  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    external = {"save_as_external_data": True, "location": "w.bin"}
    onnx.save(made, tmp_path / "m.onnx", **(external if request.param == "external" else {}))
    return tmp_path / "m.onnx"


@contextlib.contextmanager
def at_most(count):
    """Fail where more bytes are allocated at a time; numpy's count, mapped files do not."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < count
    finally:
        tracemalloc.stop()


def address(array):
    return array.__array_interface__["data"][0]


def owner(array):
    """The object whose memory an array shows."""
    while isinstance(array, np.ndarray) and array.base is not None:
        array = array.base
    return array.obj if isinstance(array, memoryview) else array


def test_weights_are_in_memory_once(path, tmp_path):
    module = from_onnx(path)
    (call,) = [b.value for block in module["main"].body.blocks for b in block.bindings][:1]
    (constant,) = [one for one in call.args if isinstance(one, relax.Constant)]
    executable = relax.build(module, "llvm")
    assert address(executable.constants["constant_0"]) == address(constant.data.numpy_view())
    with at_most(1 << 20):
        executable.save(tmp_path / "m.tsm")
        executable.save(tmp_path / "s.tsm", params="w.safetensors")
        loaded = [load(tmp_path / name) for name in ("m.tsm", "s.tsm", "s.tsm")]
    for one in loaded:
        constants = one.constants["constant_0"]
        assert np.array_equal(constants, WEIGHTS) and isinstance(owner(constants), mmap.mmap)
    assert owner(loaded[1].constants["constant_0"]) is owner(loaded[2].constants["constant_0"])


def test_keys_of_the_cache_do_not_read_whole_files(path):
    first = model_key(path, Target("llvm"), None, {})
    with at_most(3 << 20):
        assert model_key(path, Target("llvm"), None, {}) == first
    changed = model_files(path)[-1]
    content = bytearray(changed.read_bytes())
    content[-1000] ^= 1
    changed.write_bytes(content)
    assert model_key(path, Target("llvm"), None, {}) != first
    assert file_digest(changed) != file_digest(path.parent / "m.onnx") or changed == path

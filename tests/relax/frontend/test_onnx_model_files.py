"""Which files a model consists of."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tilesmith.relax.frontend.onnx import model_files
from tilesmith.support.errors import FrontendError


@pytest.fixture
def model():
    weight = numpy_helper.from_array(np.ones((64, 64), "float32"), "w")
    values = [helper.make_tensor_value_info(name, 1, [1, 64]) for name in ("x", "y")]
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "g", values[:1], values[1:], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_one_file(model, tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    assert model_files(path) == [path]


def test_external_data(model, tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert model_files(path) == [path, tmp_path / "weights.bin"]
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(FrontendError, match=r"weights\.bin"):
        model_files(path)


def test_no_file(tmp_path):
    with pytest.raises(FrontendError, match=r"none\.onnx"):
        model_files(tmp_path / "none.onnx")

"""Tiny models in the formats that tvmc reads."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

WEIGHT = np.random.default_rng(0).standard_normal((4, 3)).astype("float32")
TEXT = """#[version = "0.0.5"]
def @main(%x: Tensor[(2, 3), float32], %w: Tensor[(4, 3), float32]) {
  %0 = nn.dense(%x, %w, units=None);
  nn.relu(%0)
}
"""


@pytest.fixture(scope="session")
def onnx_path(tmp_path_factory):
    """relu(x @ w.T) as an ONNX model with an open batch."""
    graph = helper.make_graph(
        [
            helper.make_node("Gemm", ["x", "w"], ["product"], transB=1),
            helper.make_node("Relu", ["product"], ["y"]),
        ],
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(WEIGHT, "w")],
    )
    path = tmp_path_factory.mktemp("tvmc") / "tiny.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    onnx.save(model, path)
    return str(path)


@pytest.fixture(scope="session")
def relay_path(tmp_path_factory):
    """relu(x @ w.T) as a text of Relay."""
    path = tmp_path_factory.mktemp("tvmc") / "tiny.relay"
    path.write_text(TEXT)
    return str(path)


@pytest.fixture(scope="session")
def package_path(tmp_path_factory, onnx_path):
    """The model, compiled."""
    from tilesmith.compat.tvm import tvmc

    path = tmp_path_factory.mktemp("tvmc") / "tiny.tar"
    tvmc.compile(tvmc.load(onnx_path, shape_dict={"x": [2, 3]}), "llvm", package_path=str(path))
    return str(path)

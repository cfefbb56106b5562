"""CUDA graphs of whole models, on a driver that counts calls: one launch replays all kernels."""

import numpy as np
import pytest

import tilesmith
from tests.runtime.fake_cuda import on_fake_driver
from tilesmith import relay
from tilesmith.contrib.cuda_graph import cuda_graph_executor
from tilesmith.support.errors import ExecutionError, TypeMismatchError, UnsupportedError
from tilesmith.testing import requires_c_compiler

pytestmark = requires_c_compiler.marks()
X = np.ones((4, 12), "float32")


@pytest.fixture
def fake(monkeypatch):
    with on_fake_driver(monkeypatch) as made:
        yield made


def _library(target):
    x, w = relay.var("x", shape=(4, 12)), relay.var("w", shape=(9, 12))
    module = tilesmith.IRModule.from_expr(
        relay.Function([x, w], relay.nn.softmax(relay.nn.dense(x, w)))
    )
    return relay.build(module, target, params={"w": np.ones((9, 12), "float32")})


def test_the_first_run_records_and_later_ones_replay(fake):
    device = tilesmith.cuda(1)
    module = cuda_graph_executor.GraphModuleCudaGraph(_library("nvptx")["default"](device))
    with pytest.raises(ExecutionError, match="call capture_cuda_graph first"):
        module.run_cuda_graph()
    with pytest.raises(TypeMismatchError, match="the input 'x' is not set"):
        module.run()
    module.run(x=X)
    first, x = module.get_output(0), module.get_input("x")
    before = fake.take_calls()
    assert before.count("cuStreamBeginCapture") == before.count("cuGraphLaunch") == 1
    for _ in range(2):
        module.run(x=X)
    later = fake.take_calls()[len(before) :]
    assert later.count("cuGraphLaunch") == 2
    assert not [call for call in later if call.startswith("cuLaunchKernel")]
    assert module.get_output(0) is first and module.get_input("x") is x
    assert first.device == device
    with pytest.raises(UnsupportedError, match="is not stored"):
        module.debug_get_output(0)


def test_only_models_for_cuda():
    with pytest.raises(UnsupportedError, match="are for models that were built for 'cuda'"):
        cuda_graph_executor.GraphModuleCudaGraph(_library("llvm")["default"](tilesmith.cpu()))

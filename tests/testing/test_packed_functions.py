"""Packed functions, modules of Python functions, and runs that tests of programs use."""

import gc

import numpy as np
import pytest

from tilesmith import cpu, rpc, te
from tilesmith import testing as helpers
from tilesmith.error import InternalError, OpNotImplemented
from tilesmith.lowering import build
from tilesmith.runtime import get_global_func, nd
from tilesmith.support.errors import ArtifactError, ConfigError, UnsupportedError
from tilesmith.testing import popen_pool
from tilesmith.testing.downloads import fetch_model_from_url


@pytest.mark.parametrize("value", [1, 2.5, "text", None, True, [1, 2]])
@pytest.mark.parametrize(
    "function", [helpers.echo, helpers.call_cpp_ffi, helpers.call_cpp_py_ffi, helpers.call_py_ffi]
)
def test_values_come_back(function, value):
    helpers.register_ffi()
    assert function(value) == value


def test_they_are_global_functions():
    assert get_global_func("testing.echo")(3) == 3
    assert helpers.nop(1, "a") is None and helpers.device_test(cpu(1)) == cpu(1)
    array = nd.array(np.arange(3))
    np.testing.assert_array_equal(helpers.echo(array).numpy(), array.numpy())
    assert helpers.run_check_signal(0) is None


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: helpers.ErrorTest(0, 1), ValueError, "x and y"),
        (lambda: helpers.ErrorTest(1, 1), InternalError, "cannot reach"),
        (
            lambda: helpers.test_raise_error_callback("OpNotImplemented: myop")(),
            OpNotImplemented,
            "myop",
        ),
        (lambda: helpers.test_raise_error_callback("KeyError: k")(), KeyError, "k"),
        (lambda: helpers.test_raise_error_callback("no class")(), InternalError, "no class"),
        (lambda: helpers.test_check_eq_callback("TypeError: t")(0, 1), TypeError, "t"),
    ],
)
def test_errors_keep_their_class(call, error, text):
    with pytest.raises(error, match=text):
        call()
    assert helpers.ErrorTest(2, 2) == 2
    assert helpers.test_check_eq_callback("TypeError: t")(1, 1) is None


def test_callbacks():
    seen = []
    wrapped = helpers.test_wrap_callback(lambda: seen.append(1))
    wrapped()
    helpers.test_wrap_callback(wrapped)()
    assert seen == [1, 1]

    def fail():
        raise OpNotImplemented("inner")

    with pytest.raises(OpNotImplemented, match="inner"):
        helpers.test_wrap_callback(fail)()


def test_references_are_counted():
    value = object()
    assert helpers.object_use_count(value) == 1
    other, third = value, value
    assert helpers.object_use_count(value) == 3 and other is third
    del other, third
    gc.collect()
    assert helpers.object_use_count(value) == 1


def test_modules_of_functions():
    module = helpers.FrontendTestModule()
    module.add_function("main", lambda x: x + 1)
    module.add_function("twice", lambda x: x * 2)
    assert module(1) == 2 and module["twice"](4) == 8
    named = helpers.FrontendTestModule("start")
    named.add_function("start", lambda: 7)
    assert named() == named.get_function("start")() == 7
    with pytest.raises(AttributeError, match="no function 'main'"):
        named.module["main"]


def test_state_of_workers():
    assert helpers.after_initializer() == (0, 0, 0)
    helpers.initializer(1, 2, 3)
    assert popen_pool.after_initializer() == (1, 2, 3)
    helpers.initializer(0, 0, 0)
    assert helpers.fast_summation(10) == helpers.slow_summation(10) == 55
    assert helpers.timeout_job(0) is None


@pytest.fixture(scope="module")
def doubled():
    """A module that doubles a vector of four."""
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] * 2.0, name="B")
    return build(te.create_prim_func([a, b]), target="llvm")


FAST = {"number": 1, "repeat": 2, "min_repeat_ms": 0}


@pytest.mark.parametrize("output_format", [None, "tar", "so"])
def test_local_runs(doubled, output_format):
    data, out = np.arange(4, dtype="float32"), np.zeros(4, "float32")
    results, times = helpers.local_run(
        doubled, "cpu", [data, nd.array(out)], FAST, output_format=output_format
    )
    np.testing.assert_array_equal(results[1].numpy(), data * 2)
    assert len(times.results) == 2 and times.mean > 0


def test_local_runs_are_refused(doubled):
    with pytest.raises(ConfigError, match="no option 'rounds'"):
        helpers.local_run(doubled, "cpu", [], {"rounds": 1})
    with pytest.raises(ConfigError, match="not 'ndk'"):
        helpers.local_run(doubled, "cpu", [], export_func="ndk")


def test_models_are_fetched(tmp_path):
    import hashlib

    import onnx
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "relu",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
    )
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph), path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    module = fetch_model_from_url(path.as_uri(), "onnx", digest)
    assert "main" in module and "relu" in str(module)
    with pytest.raises(ArtifactError, match="another file than expected"):
        fetch_model_from_url(path.as_uri(), "onnx", "0" * 64)
    with pytest.raises(UnsupportedError, match="'keras'"):
        fetch_model_from_url(path.as_uri(), "keras", digest)
    assert helpers.install_request_hook(depth=3) is None


def test_remote_runs(doubled):
    with rpc.Tracker(port=0, silent=True) as tracker:
        address = ("127.0.0.1", tracker.port)
        with rpc.Server(port=0, silent=True, no_fork=True, key="board", tracker_addr=address):
            config = {
                "tracker_host": "127.0.0.1", "tracker_port": tracker.port, "tracker_key": "board"
            }  # fmt: skip
            values = np.arange(4, dtype="float32")
            results, times = helpers.rpc_run(
                doubled, "cpu", [values, np.zeros(4, "float32")], FAST, config
            )
    np.testing.assert_equal(results[1].numpy(), 2 * values)
    assert results[1].device == cpu() and times.mean > 0


def test_remote_runs_need_a_tracker(doubled, monkeypatch):
    monkeypatch.delenv("TVM_TRACKER_KEY", raising=False)
    config = {"tracker_host": "127.0.0.1", "tracker_port": 1}
    with pytest.raises(ConfigError, match="tracker_key"):
        helpers.rpc_run(doubled, "cpu", [], None, config)

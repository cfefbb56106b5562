"""Compiled code in sessions: libraries, models, executors, measuring."""

import json

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import relax, relay, rpc
from tilesmith.contrib import graph_executor
from tilesmith.error import (
    ArtifactError,
    ShapeError,
    TypeMismatchError,
    UnknownMemberError,
    UnsupportedError,
)
from tilesmith.rpc.remote import RemoteModule


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model of relay, exported in three forms, its weight, and what it computes."""
    folder = tmp_path_factory.mktemp("model")
    x, w = relay.var("x", shape=(2, 8)), relay.var("w", shape=(4, 8))
    function = relay.Function([x, w], relay.nn.relu(relay.nn.dense(x, w)))
    weight = np.random.default_rng(3).random((4, 8), dtype="float32") - 0.5
    lib = relay.build(ts.IRModule.from_expr(function), "llvm", params={"w": weight})
    for suffix in ("so", "tar", "tsm"):
        lib.export_library(folder / f"net.{suffix}")
    return folder, lib, lambda values: np.maximum(values @ weight.T, 0)


@pytest.fixture
def inputs():
    return np.random.default_rng(5).random((2, 8), dtype="float32")


@pytest.mark.parametrize(
    ("remote", "name"), [("local", "add.tar"), ("process", "add.so")], indirect=["remote"]
)
def test_libraries_run_at_the_server(remote, library, name):
    remote.upload(library / name)
    module = remote.load_module(name)
    assert module.entry_name == "add" and module.type_key == "rpc"
    assert isinstance(module, ts.runtime.Module) and module.implements_function("add")
    device = remote.cpu(0)
    a, b = [ts.nd.array(np.arange(10, dtype="float32") * n, device) for n in (1, 2)]
    c = ts.nd.empty((10,), "float32", device)
    module(a, b, c)
    np.testing.assert_equal(c.numpy(), np.arange(10) * 3)
    module["add"](c, c, c)
    np.testing.assert_equal(c.numpy(), np.arange(10) * 6)
    measured = module.time_evaluator(module.entry_name, device, number=3, repeat=4)(a, b, c)
    assert len(measured.results) == 4 and measured.mean > 0
    with pytest.raises(UnknownMemberError, match="no function 'none'"):
        module["none"]
    with pytest.raises((ShapeError, TypeMismatchError, RuntimeError, ValueError)):
        module(a, b, ts.nd.empty((11,), "float32", device))


def test_measuring_is_done_at_the_server(local, library):
    local.upload(library / "add.so")
    module = local.load_module("add.so")
    x = ts.nd.array(np.zeros(4, "float32"), local.cpu())
    sent = []
    exchange = local.connection.transport.exchange
    local.connection.transport.exchange = lambda *message: sent.append(1) or exchange(*message)
    evaluate = module.time_evaluator("add", local.cpu(), number=50, repeat=2, min_repeat_ms=1)
    evaluate(x, x, x)
    assert len(sent) <= 2  # the function is looked up, and measured


def test_a_new_file_of_the_same_name_is_new_code(local, library, tmp_path):
    from tilesmith import te

    a = te.placeholder((4,), name="a")
    b = te.compute((4,), lambda i: a[i] - 1.0, name="b")
    other = ts.build(te.create_schedule(b.op), [a, b], "llvm", name="less")
    other.export_library(tmp_path / "add.so")
    local.upload(library / "add.so")
    first = local.load_module("add.so")
    local.upload(tmp_path / "add.so")
    second = local.load_module("add.so")
    assert first.function_names == ["add"] and second.function_names == ["less"]
    x = ts.nd.array(np.ones(4, "float32"), local.cpu())
    first(x, x, x)
    second(x, x)
    np.testing.assert_equal(x.numpy(), np.ones(4))


def test_files_that_are_no_code_are_said(local):
    local.upload(b"nothing", "lib.so")
    local.upload(b"nothing", "text.txt")
    for name in ("lib.so", "text.txt"):
        with pytest.raises(ArtifactError):
            local.load_module(name)


def test_modules_are_linked_at_the_server(local, library, tmp_path):
    local.upload(library / "add.tar")
    (tmp_path / "linked.so").write_bytes(local.download_linked_module("add.tar"))
    assert ts.runtime.load_module(tmp_path / "linked.so").function_names == ["add"]
    assert local.listdir() == ["add.tar"]


@pytest.mark.parametrize(
    ("remote", "suffix"),
    [("local", "so"), ("local", "tar"), ("process", "tsm")],
    indirect=["remote"],
)
def test_models_run_step_by_step(remote, model, inputs, suffix):
    folder, _, compute = model
    remote.upload(folder / f"net.{suffix}")
    device = remote.cpu(0)
    module = graph_executor.GraphModule(remote.load_module(f"net.{suffix}")["default"](device))
    module.set_input("x", inputs)
    module.run()
    assert module.get_output(0).device == device and module.get_num_inputs() == 1
    np.testing.assert_allclose(module.get_output(0).numpy(), compute(inputs), rtol=1e-5)
    assert module.benchmark(device, number=3, repeat=2).mean > 0
    out = ts.nd.empty((2, 4))
    np.testing.assert_equal(module.get_output(0, out).numpy(), module.get_output(0).numpy())


def test_models_take_their_graph_and_parameters(local, model, inputs):
    folder, lib, compute = model
    local.upload(folder / "net.so")
    there = local.load_module("net.so")
    assert isinstance(there, RemoteModule) and list(there.constants) == list(lib.params)
    module = graph_executor.create(lib.get_graph_json(), there, local.cpu(0))
    module.set_input(x=inputs, **{k: ts.nd.array(v, local.cpu()) for k, v in lib.params.items()})
    module.run()
    np.testing.assert_allclose(module.get_output(0).numpy(), compute(inputs), rtol=1e-5)
    with pytest.raises(UnsupportedError, match="constant"):
        module.set_input(next(iter(lib.params)), np.zeros((4, 8), "float32"))
    assert graph_executor.get_device(there, local.cpu(0))[1] == 1


def test_programs_and_devices_of_different_machines_are_refused(local, model):
    folder, lib, _ = model
    local.upload(folder / "net.so")
    for module, device in ((lib.get_lib(), local.cpu()), (local.load_module("net.so"), ts.cpu())):
        with pytest.raises(TypeMismatchError, match="upload"):
            graph_executor.create(lib.get_graph_json(), module, device)


def test_a_missing_input_is_said_when_measuring(model):
    module = graph_executor.GraphModule(model[1]["default"](ts.cpu()))
    with pytest.raises(TypeMismatchError, match="'x' is not set"):
        module.benchmark(ts.cpu())


@pytest.mark.parametrize("remote", ["local"], indirect=True)
def test_virtual_machines_run_at_the_server(remote, model, inputs):
    folder, _, compute = model
    remote.upload(folder / "net.so")
    machine = relax.VirtualMachine(remote.load_module("net.so"), remote.cpu())
    there = ts.nd.array(inputs, remote.cpu())
    np.testing.assert_allclose(machine["main"](there).numpy(), compute(inputs), rtol=1e-5)
    np.testing.assert_allclose(machine["main"](x=there).numpy(), compute(inputs), rtol=1e-5)
    assert machine.time_evaluator("main", remote.cpu(), number=2)(there).mean > 0
    machine.set_input("main", inputs)
    machine.invoke_stateful("main")
    assert machine.get_outputs("main").device == remote.cpu()
    np.testing.assert_allclose(machine.get_outputs("main").numpy(), compute(inputs), rtol=1e-5)


def test_functions_of_libraries_tell_no_inputs(local, library):
    local.upload(library / "add.so")
    with pytest.raises(UnknownMemberError, match="tells nothing"):
        _ = local.load_module("add.so")["add"].signature
    with pytest.raises(UnknownMemberError, match="no function 'main'"):
        graph_executor.GraphModule(local.load_module("add.so"))


def test_a_library_runs_in_a_process_of_its_own(library):
    with rpc.PopenSession(library / "add.so") as session:
        x = ts.nd.array(np.ones(4, "float32"), session.cpu())
        session.system_lib()["add"](x, x, x)
        np.testing.assert_equal(x.numpy(), np.full(4, 2))
    with pytest.raises(OSError, match="no library"):
        rpc.PopenSession(library / "none.so")


def test_the_old_name_of_the_executor_takes_any_arguments(model, inputs):
    from tilesmith.compat.tvm import graph_runtime

    _, lib, compute = model
    for arguments, named in (
        ((ts.cpu(),), {}),
        ((), {"ctx": ts.cpu()}),
        ((), {"device": ts.cpu()}),
    ):
        module = graph_runtime.create(lib.get_graph_json(), lib.get_lib(), *arguments, **named)
        module.run(x=inputs)
        np.testing.assert_allclose(module.get_output(0).numpy(), compute(inputs), rtol=1e-5)
    assert {"nodes", "arg_nodes"} <= set(json.loads(lib.get_graph_json()))

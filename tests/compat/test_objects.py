"""What programs for `import tvm` ask of objects, nodes and the runtime."""

from __future__ import annotations

import importlib
import json

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.compat.tvm import install, uninstall
from tilesmith.support.errors import ArtifactError, TypeMismatchError, UnsupportedError


@pytest.fixture
def tvm():
    """The package of users' programs."""
    install()
    yield importlib.import_module("tvm")
    uninstall()


def test_classes_of_the_users_own(tvm):
    from tilesmith.ir.node import child

    @tvm.register_object("tests.Pair")
    class Pair(tvm.runtime.Object):
        left: tvm.runtime.Object = child()
        right: tvm.runtime.Object = child()

    pair = Pair(tvm.tir.IntImm("int32", 1), tvm.tir.IntImm("int32", 2))
    text = tvm.ir.save_json(pair)
    assert "tests.Pair" in text and type(tvm.ir.load_json(text)) is Pair
    assert pair.legacy_repr() == "tests.Pair(left=1, right=2)"

    @tvm.register_object
    class Single(tvm.Object):
        """A node without fields."""

    assert Single.node_key == "Single"
    with pytest.raises(TypeMismatchError, match="no class of nodes"):
        tvm.register_object("tests.int")(int)


def test_objects_that_stand_for_expressions(tvm):
    class Half(tvm.runtime.ObjectGeneric):
        def __init__(self, value):
            self.value = value

        def asobject(self):
            return self.value // 2

    assert (
        int(tvm.tir.const(1, "int32") + tvm.runtime.convert(Half(tvm.tir.IntImm("int32", 8)))) == 5
    )
    assert tvm.runtime.convert_to_object([1, "a"])[1] == "a"
    assert isinstance(tvm.nd.array(np.zeros(2)), tvm.runtime.ObjectTypes)
    assert not isinstance(Half(1), tvm.runtime.ObjectTypes)
    with pytest.raises(NotImplementedError, match="ObjectGeneric"):
        tvm.runtime.ObjectGeneric().asobject()


def test_values_of_extension_classes_are_pointers(tvm):
    @tvm.register_extension
    class Handle:
        _tvm_tcode = 17
        _tvm_handle = 0x1234

    seen = tvm.runtime.convert(lambda pointer: pointer.value)
    assert seen(Handle()) == 0x1234
    with pytest.raises(UnsupportedError, match="not made from results"):
        tvm.register_extension(Handle, lambda pointer: Handle())
    with pytest.raises(TypeMismatchError, match="_tvm_handle"):
        tvm.register_extension(int)
    assert tvm.runtime.packed_func.PackedFuncHandle(3).value == 3


def test_older_names_warn(tvm):
    @tvm.ir.base.deprecated("old", "new")
    def old(value):
        return value + 1

    with pytest.warns(DeprecationWarning, match="old is deprecated, use new instead"):
        assert old(1) == 2


def test_the_hook_ends_processes(tvm, monkeypatch):
    seen, ended = [], []

    class Process:
        def terminate(self):
            ended.append(self)

    monkeypatch.setattr("multiprocessing.active_children", lambda: [Process(), Process()])
    tvm.tvm_wrap_excepthook(lambda *args: seen.append(args))(ValueError, ValueError("x"), None)
    assert seen[0][0] is ValueError and len(ended) == 2


def test_devices_have_their_short_names(tvm):
    for module in (tvm, tvm.runtime, tvm.nd, importlib.import_module("tvm.runtime.ndarray")):
        assert module.cl(1) == ts.opencl(1) and module.mtl(0) == ts.metal(0)
    assert importlib.import_module("tvm.runtime.module").enabled("llvm")
    assert not importlib.import_module("tvm.runtime.module").enabled("unheard-of")
    assert tvm.runtime.container.ADT(3, [1]).tag == 3


def test_what_tvm_saved_is_named(tvm):
    upgrade = importlib.import_module("tvm.ir.json_compact").upgrade_json
    ours = tvm.ir.save_json(tvm.tir.IntImm("int32", 1))
    assert upgrade(ours) == ours
    theirs = {"root": 1, "nodes": [{"type_key": ""}], "attrs": {"tvm_version": "0.8.0"}}
    with pytest.raises(ArtifactError, match=r"saved by TVM 0\.8\.0"):
        upgrade(json.dumps(theirs))
    for text in ("{", "[]", '{"nodes": []}'):
        with pytest.raises(ArtifactError):
            upgrade(text)


VALUE = np.arange(4, dtype="float32")


@pytest.fixture(scope="module")
def executable():
    """A model: twice its input."""
    from tilesmith import relax

    block = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((4,), "float32"))
    with block.function("main", [x]):
        block.emit_func_output(block.emit(relax.op.add(x, x)))
    return relax.build(block.get(), "llvm")


def test_profiles_of_models(tvm, executable):
    vm = tvm.runtime.relax_vm.VirtualMachine(executable, tvm.cpu())
    report = vm.profile("main", tvm.nd.array(VALUE))
    assert isinstance(report, tvm.runtime.Report) and "main" in report.table()
    row = report.calls[0]
    assert row["Name"] == "main" and row["Duration (us)"].microseconds > 0
    assert row["Count"].count == 1 and row["Percent"].percent == 100
    assert type(report).from_json(report.json()).calls == report.calls


def test_the_profiler(tvm, executable):
    module = importlib.import_module("tvm.runtime.profiler_vm")
    profiling = importlib.import_module("tvm.runtime.profiling")

    class Collector(profiling.MetricCollector):
        def init(self, devices):
            self.devices = [one.device for one in devices]

        def start(self, device):
            return device

        def stop(self, started):
            return {"Events": profiling.Count(7)}

    profiler, collector = module.VirtualMachineProfiler(executable, tvm.cpu()), Collector()
    assert module.enabled() and profiler.get_stat() == ""
    report = profiler.profile(tvm.nd.array(VALUE), func_name="main", collectors=[collector])
    assert report.calls[0]["Events"].count == 7 and collector.devices == [tvm.cpu()]
    assert profiler.get_stat().splitlines()[0].startswith("Name")


def test_models_run_step_by_step(tvm, executable):
    module = importlib.import_module("tvm.runtime.executor").AotModule(executable)
    assert module.get_input_name(0) == "x" and module.get_num_inputs() == 1
    module.run(x=VALUE)
    np.testing.assert_array_equal(module.get_output(0).numpy(), VALUE * 2)
    with pytest.raises(KeyError):
        module.get_input_name(1)

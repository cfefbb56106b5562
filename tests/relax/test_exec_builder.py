"""Programs of the virtual machine built by hand, and instruments."""

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import relax
from tilesmith.relax import VMInstrumentReturnKind
from tilesmith.runtime.executable import Executable
from tilesmith.script import relax as R
from tilesmith.support.errors import (
    DiagnosticError,
    ExecutionError,
    TypeMismatchError,
    UnsupportedError,
)


@pytest.fixture(scope="module", autouse=True)
def functions():
    ts.register_func("exec.add", lambda a, b: ts.nd.array(a.numpy() + b.numpy()), override=True)
    ts.register_func("exec.less", lambda a, b: ts.nd.array(a.numpy() < b.numpy()), override=True)
    ts.register_func("exec.fill", lambda a, n: ts.nd.array(np.full(a.shape, n)), override=True)
    ts.register_func(
        "exec.kinds", lambda *x: " ".join([type(v).__name__ for v in x]), override=True
    )


def int64(*values):
    return np.array(values, "int64")


def powers():
    """Doubles a value while it is less than a limit."""
    ib = relax.ExecBuilder()
    with ib.function("main", num_inputs=2, param_names=["value", "limit"]):
        ib.emit_call("exec.less", [ib.r(0), ib.r(1)], ib.r(2))
        ib.emit_if(ib.r(2), 3)
        ib.emit_call("double", [ib.r(0)], ib.r(0))
        ib.emit_goto(-3)
        ib.emit_ret(ib.r(0))
    with ib.function("double", num_inputs=1):
        ib.emit_call("exec.add", [ib.r(0), ib.r(0)], ib.r(1))
        ib.emit_ret(ib.r(1))
    return ib.get()


def test_jumps_and_calls(tmp_path):
    executable = powers()
    vm = relax.VirtualMachine(executable, ts.cpu())
    assert vm["main"](int64(3), int64(20)).numpy().tolist() == [24]
    assert vm["main"](value=int64(50), limit=int64(20)).numpy().tolist() == [50]
    executable.save(tmp_path / "m.tsm")
    assert ts.runtime.load_module(tmp_path / "m.tsm")["double"](int64(4)).numpy().tolist() == [8]
    text = executable.as_text()
    assert "unless r2 goto +3" in text and "goto -3" in text and "return r0" in text


def test_constants_and_operands():
    ib = relax.ExecBuilder()
    with ib.function("main", num_inputs=0):
        ib.emit_call(
            "exec.kinds",
            [np.zeros(2), (2, 3), "text", ts.DataType("int8"), ib.imm(4), 2.5, ib.void_arg(),
             ib.vm_state()],
            ib.r(0),
        )  # fmt: skip
        ib.emit_call("exec.kinds", [ib.r(0)])
        ib.emit_ret(ib.r(0))
    with ib.function("fill", num_inputs=1):
        tensor = ib.convert_constant(ts.nd.array(np.ones((2, 1), "int64")))
        assert ib.c(tensor.value) == tensor
        ib.emit_call("exec.fill", [tensor, ib.r(0)], ib.r(1))
        ib.emit_ret(ib.r(1))
    executable = ib.get()
    for one in (executable, remade(executable)):
        kinds = one["main"]().split()
        assert len(kinds) == 8 and kinds[4:6] == ["int", "float"] and kinds[6] == "NoneType"
        assert one["fill"](7).numpy().tolist() == [[7], [7]]


def remade(executable) -> Executable:
    names: dict = {}
    exec(executable.as_python(), names)
    return names["executable"]


def test_as_python():
    assert remade(powers())(int64(1), int64(9)).numpy().tolist() == [16]
    built = ts.relax.build(simple_model(), "llvm")
    with pytest.raises(UnsupportedError, match="native code: main"):
        built.as_python()


def test_functions_as_operands():
    ib = relax.ExecBuilder()
    ib.declare_function("later", relax.exec_builder.VMFuncKind.VM_FUNC)
    with ib.function("main", num_inputs=1):
        ib.emit_call("exec.apply", [ib.f("later"), ib.r(0)], ib.r(1))
        ib.emit_ret(ib.r(1))
    with pytest.raises(UnsupportedError, match="not built: later"):
        ib.get()
    with ib.function("later", num_inputs=1):
        ib.emit_call("exec.add", [ib.r(0), ib.r(0)], ib.r(1))
        ib.emit_ret(ib.r(1))
    ts.register_func("exec.apply", lambda f, x: f(x), override=True)
    assert ib.get()(int64(6)).numpy().tolist() == [12]


def test_deep_recursion():
    ib = relax.ExecBuilder()
    with ib.function("main", num_inputs=1):
        ib.emit_if(ib.r(0), 4)
        ib.emit_call("exec.minus_one", [ib.r(0)], ib.r(1))
        ib.emit_call("main", [ib.r(1)], ib.r(0))
        ib.emit_ret(ib.r(0))
        ib.emit_ret(ib.imm(5))
    ts.register_func("exec.minus_one", lambda n: n - 1, override=True)
    assert ib.get()(20000) == 5


def test_refusals():
    ib = relax.ExecBuilder()
    with pytest.raises(DiagnosticError, match="needs a function"):
        ib.emit_goto(1)
    with pytest.raises(DiagnosticError, match="nothing writes: r1"), ib.function("a", 1):
        ib.emit_ret(ib.r(1))
    with pytest.raises(DiagnosticError, match="does not return"), ib.function("b", 1):
        ib.emit_goto(0)
    with pytest.raises(DiagnosticError, match="is there already"):
        ib.function("b", 1)
    with pytest.raises(TypeMismatchError, match="from 0 on"):
        ib.r(-1)
    with pytest.raises(TypeMismatchError, match="a constant is"):
        ib.convert_constant(object())
    jump = relax.ExecBuilder()
    with jump.function("main", 0):
        jump.emit_goto(40)
        jump.emit_ret(jump.imm(1))
    with pytest.raises(ExecutionError, match="jumps to 40"):
        jump.get()()


# Instruments


def simple_model():
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((2, 3), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            total = builder.emit(relax.op.sum(relax.op.exp(x), axis=1))
            out = builder.emit_output(relax.op.nn.softmax(total))
        builder.emit_func_output(out)
    return builder.get()


def test_an_instrument_sees_and_skips_calls():
    vm = relax.VirtualMachine(powers(), ts.cpu())
    seen = []

    def watch(function, name, before_run, result, *arguments):
        seen.append((name, before_run, None if result is None else result.numpy().tolist()))
        if name == "double" and len(seen) > 8:
            return VMInstrumentReturnKind.SKIP_RUN
        return VMInstrumentReturnKind.NO_OP

    vm.set_instrument(watch)
    vm["double"](int64(5))
    assert seen == [("exec.add", True, None), ("exec.add", False, [10])]
    vm.set_instrument(None)
    assert vm["main"](int64(3), int64(5)).numpy().tolist() == [6] and len(seen) == 2


def test_kernels_are_seen(tmp_path):
    executable = ts.relax.build(simple_model(), "llvm")
    vm = relax.VirtualMachine(executable, ts.cpu())
    kernels = {}

    def watch(function, name, before_run, result, *arguments):
        if not before_run:
            kernels[name] = [one.numpy() for one in arguments]

    vm.set_instrument(watch)
    x = np.arange(6, dtype="float32").reshape(2, 3) / 5
    out = vm["main"](x).numpy()
    total = np.exp(x).sum(1)
    np.testing.assert_allclose(out, np.exp(total) / np.exp(total).sum(), rtol=1e-5)
    assert len(kernels) >= 2
    names = list(kernels)
    np.testing.assert_allclose(kernels[names[0]][0], x)
    np.testing.assert_allclose(kernels[names[-1]][-1], out)
    vm.set_instrument(lambda *call: VMInstrumentReturnKind.SKIP_RUN)
    with pytest.raises(UnsupportedError, match="cannot be left out"):
        vm["main"](x)
    vm.set_instrument(None)
    np.testing.assert_allclose(vm["main"](x).numpy(), out, rtol=1e-6)
    executable.save(tmp_path / "m.tsm")
    loaded = relax.VirtualMachine(ts.runtime.load_module(tmp_path / "m.tsm"), ts.cpu())
    with pytest.raises(UnsupportedError, match="not compiled in this process"):
        loaded.set_instrument(watch)

"""Hooks of kinds of targets: parts of programs become loops of one's own, or one's own code."""

import numpy as np
import pytest

import tilesmith as ts
from tests.micro.board_programs import CRT, check, needs_compiler
from tests.relay.test_relay_external import VALUES, expected, partitioned, program
from tilesmith import relay
from tilesmith.compat import tvm as alias
from tilesmith.contrib import graph_executor
from tilesmith.ir import IRModule, register_op_attr
from tilesmith.ir.transform import module_pass
from tilesmith.relay.backend.executor import Executor
from tilesmith.runtime import module_from_functions
from tilesmith.script import tir as T
from tilesmith.support.errors import ExecutionError, ShapeError, TargetError, TypeMismatchError
from tilesmith.target import KINDS, Target, declare_kind, register_kind_attr
from tilesmith.testing.board_runs import run_here


@T.prim_func
def helper(x: T.handle, out: T.handle):
    A, B = T.match_buffer(x, (3, 5)), T.match_buffer(out, (3, 5))
    for i, j in T.grid(3, 5):
        B[i, j] = T.tanh(A[i, j]) + T.float32(100)


@T.prim_func
def in_c(x: T.Buffer((3, 5), "float32"), out: T.Buffer((3, 5), "float32")):
    T.evaluate(T.call_extern("int32", "my_unit_tanh", x.data, out.data, 15))


@T.prim_func
def refusing(x: T.Buffer((3, 5), "float32"), out: T.Buffer((3, 5), "float32")):
    assert x[0, 0] > T.float32(1000), "the unit takes small values"
    out[0, 0] = x[0, 0]


@T.prim_func
def narrow(x: T.Buffer((3, 4), "float32"), out: T.Buffer((3, 5), "float32")):
    out[0, 0] = x[0, 0]


@pytest.fixture
def unit():
    """A kind of target "hook_unit" that takes tanh; gives a function that sets its hook."""
    declare_kind("hook_unit", 1, "hook_unit")
    register_op_attr("tanh", "target.hook_unit", lambda call: True)

    def use(prim_func, attr="RelayToTIR"):
        @module_pass(opt_level=0, name="HookUnit")
        def hook(mod, context):
            assert Target.current().kind.name == "hook_unit"
            for variable, function in list(mod.functions.items()):
                if getattr(function, "attrs", {}).get("Compiler") == "hook_unit":
                    mod[variable] = prim_func
            return mod

        register_kind_attr("hook_unit", attr, hook, override=True)

    yield use
    KINDS.remove("hook_unit")


def results(lib):
    module = graph_executor.GraphModule(lib["default"](ts.cpu()))
    module.set_input(**VALUES)
    module.run()
    return [module.get_output(number).numpy() for number in range(2)]


def test_loops_of_ones_own_are_compiled_with_the_program(unit):
    unit(helper)
    divided = partitioned(program(), "hook_unit")
    for target in ("llvm", ["hook_unit", "llvm"]):
        difference, total = results(relay.build(divided, target))
        np.testing.assert_allclose(difference, expected()[0] + 100, rtol=1e-5)
        np.testing.assert_allclose(total, expected()[1], rtol=1e-6)
    lib = relay.build(divided, "llvm")
    assert "100" in str(lib.lowered) and not lib.get_lib().imported_modules


def test_a_registered_function_is_a_hook_without_a_kind_of_target():
    register_op_attr("tanh", "target.hook_by_name", lambda call: True)
    name = "relay.ext.hook_by_name.relay_to_tir"

    @ts.register_func(name)
    def hook(mod):
        for variable, function in list(mod.functions.items()):
            if getattr(function, "attrs", {}).get("Compiler") == "hook_by_name":
                mod[variable] = helper
        return mod

    try:
        difference, _ = results(relay.build(partitioned(program(), "hook_by_name"), "llvm"))
        np.testing.assert_allclose(difference, expected()[0] + 100, rtol=1e-5)
    finally:
        ts.runtime.registry.remove_global_func(name)


def test_code_of_ones_own_is_made_of_the_loops(unit):
    unit(helper)
    seen = []

    @register_kind_attr("hook_unit", "TIRToRuntime")
    def to_runtime(mod, target):
        seen.append((mod, target))
        ((variable, _),) = mod.functions.items()
        double = {variable.name_hint: lambda x, out: out.copyfrom(2 * x.numpy())}
        return module_from_functions(double)

    difference, total = results(relay.build(partitioned(program(), "hook_unit"), "llvm"))
    scaled = np.linspace(-1, 2, 3, dtype="float32").reshape(3, 1) * total
    np.testing.assert_allclose(difference, scaled, rtol=1e-5)
    ((mod, target),) = seen
    assert isinstance(mod, IRModule) and target.kind.name == "hook_unit"


MY_UNIT = """
#include <math.h>
#include <stdint.h>
int32_t my_unit_tanh(float* x, float* out, int32_t count) {
  for (int32_t i = 0; i < count; ++i) out[i] = tanhf(x[i]) + 7.0f;
  return 0;
}
"""


@needs_compiler
def test_a_unit_of_a_board_is_called_as_a_c_function(unit, tmp_path):
    unit(in_c)
    lib = relay.build(
        partitioned(program(), "hook_unit"), "c", runtime=CRT,
        executor=Executor("aot", {"interface-api": "c"}),
    ).get_lib()  # fmt: skip
    (tmp_path / "unit.c").write_text(MY_UNIT)
    found, _ = run_here(lib, VALUES, tmp_path, further=[str(tmp_path / "unit.c")])
    difference, total = expected()
    check(found, [difference + 7, total])


@needs_compiler
def test_errors_of_a_board_are_codes(unit, tmp_path):
    unit(refusing)
    lib = relay.build(
        partitioned(program(), "hook_unit"), "c", runtime=CRT,
        executor=Executor("aot", {"interface-api": "c"}),
    ).get_lib()  # fmt: skip
    with pytest.raises(ExecutionError, match="ended with the code"):
        run_here(lib, VALUES, tmp_path)
    (tmp_path / "errors.c").write_text(SHOW_ERRORS)
    with pytest.raises(ExecutionError, match="the unit takes small values"):
        run_here(lib, VALUES, tmp_path, further=[str(tmp_path / "errors.c")])


SHOW_ERRORS = """
#include <stdint.h>
#include <stdio.h>
void TVMFFIErrorSetRaisedFromCStrParts(const char* kind, const char** parts, int32_t count) {
  printf("%s: ", kind);
  for (int32_t i = 0; i < count; ++i) puts(parts[i]);
}
"""


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (lambda mod: None, TypeMismatchError, "not an IRModule"),
        (lambda mod: mod, TypeMismatchError, "leaves the function"),
        (lambda mod: IRModule(), TypeMismatchError, "has removed the function"),
        (narrow, ShapeError, "size|shape"),
    ],
)
def test_hooks_that_do_not_lower_are_refused(unit, given, error, words):
    if callable(given) and not isinstance(given, ts.tir.PrimFunc):
        register_kind_attr("hook_unit", "RelayToTIR", given, override=True)
    else:
        unit(given)
    with pytest.raises(error, match=words):
        relay.build(partitioned(program(), "hook_unit"), "llvm")


def test_attributes_of_kinds(unit):
    assert Target("hook_unit").get_kind_attr("RelayToTIR") is None
    unit(helper)
    assert Target("hook_unit").get_kind_attr("RelayToTIR").info.name == "HookUnit"
    assert Target("llvm").get_kind_attr("RelayToTIR") is None
    with pytest.raises(TargetError, match="already"):
        register_kind_attr("hook_unit", "RelayToTIR", 1)
    with pytest.raises(TargetError, match="unknown target kind"):
        register_kind_attr("no_unit", "RelayToTIR", 1)
    alias.install()
    try:
        import tvm

        assert tvm.target.Target("hook_unit").get_kind_attr("RelayToTIR") is not None
    finally:
        alias.uninstall()

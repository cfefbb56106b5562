"""TILESMITH_CHECK: what it compares, what it cannot, and that it names the pass that broke."""

import os
import subprocess
import sys

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.ir import IRModule, Var
from tilesmith.ir.transform import PassContext
from tilesmith.lowering import build, checking, lower
from tilesmith.lowering.check_inputs import (
    argument_choices,
    calls_outside,
    copy_of_argument,
    promised_statements,
)
from tilesmith.script import tir as T
from tilesmith.support.errors import MiscompileError, VerifyError
from tilesmith.support.knobs import knobs
from tilesmith.target import Target
from tilesmith.tir import Schedule
from tilesmith.tir.functor import ir_transform
from tilesmith.tir.stmt import For, ForKind
from tilesmith.tir.transform import prim_func_pass


@T.prim_func
def scaled(A: T.Buffer((7, 9), "float32"), B: T.Buffer((7, 9), "float32")):
    for i, j in T.grid(7, 9):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(3)


@T.prim_func
def large(A: T.Buffer((400, 300), "float32"), B: T.Buffer((400, 300), "float32")):
    for i, j in T.grid(400, 300):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)


@T.prim_func
def symbolic(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, n + 2), "int32")
    B = T.match_buffer(b, (n,), "int32")
    for i, k in T.grid(n, n + 2):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0
            B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def gathered(
    A: T.Buffer((3,), "float32"), P: T.Buffer((8,), "int32"), B: T.Buffer((8,), "float32")
):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[P[vi]]


@T.prim_func
def printed(A: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            T.evaluate(T.call_packed("tests.checking.nobody_calls_this", A[vi]))


@T.prim_func
def rounded(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        B[i] = T.call_llvm_pure_intrin("float32", "llvm.floor.f32", A[i])


@T.prim_func
def unknown(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        B[i] = T.call_llvm_pure_intrin("float32", "llvm.x86.nobody.knows", A[i])


@T.prim_func
def copied(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        B[i] = A[i]


@T.prim_func
def refused(A: T.Buffer((400, 300), "int32")):
    for i, j in T.grid(400, 300):
        with T.Assert(A[i, j] > 100, "small"):
            A[i, j] = A[i, j] + 1


@pytest.fixture
def counted():
    """What is counted while checks are on."""
    before = checking.take_counts()
    with knobs.override(check=True):
        yield checking.summary
    checking.take_counts()
    checking.add_counts(before)


def shortened():
    """A pass that forgets the last iteration of each loop."""

    @prim_func_pass(opt_level=0, name="tests.Forgetful")
    def forget(func, mod, ctx):
        return func.with_body(
            ir_transform(
                func.body,
                None,
                lambda loop: (
                    loop.with_fields(extent=loop.extent - 1) if type(loop) is For else None
                ),
            )
        )

    return forget


@pytest.mark.parametrize("function", [scaled, symbolic, gathered])
def test_small_functions_are_interpreted(function, counted):
    build(function)
    assert counted()["interpreted after a pass"] >= 3
    assert counted()["verified after a pass"] >= 3
    assert not any(what.startswith("not") for what in counted())


def test_nothing_is_checked_without_the_knob():
    before = checking.summary()
    with knobs.override(check=False):
        build(scaled)
        with PassContext(config={"tir.add_lower_pass": [(1, shortened())]}):
            lower(scaled)
    assert checking.summary() == before


@pytest.mark.parametrize("phase", [1, 3])
@pytest.mark.parametrize("function", [scaled, symbolic])
def test_the_pass_that_broke_the_program_is_named(function, phase, counted):
    context = PassContext(config={"tir.add_lower_pass": [(phase, shortened())]})
    with context, pytest.raises(MiscompileError) as error:
        lower(function)
    text = str(error.value)
    assert "the pass 'tests.Forgetful' changed what" in text
    assert "before the pass:" in text and "after the pass:" in text
    assert text.count("@T.prim_func") == 2


def test_a_pass_that_breaks_the_rules_is_named(counted):
    @prim_func_pass(opt_level=0, name="tests.Unbound")
    def unbind(func, mod, ctx):
        inside = lambda stmt: stmt.body if type(stmt) is For else None
        return func.with_body(ir_transform(func.body, None, inside))

    context = PassContext(config={"tir.add_lower_pass": [(1, unbind)]})
    with context, pytest.raises(VerifyError, match="'tests.Unbound' broke"):
        lower(scaled)


def test_large_functions_are_built_plainly(counted):
    build(large)
    assert counted()["compared with the plainest build"] == 1
    assert counted()["not interpreted (its loops promise more than 10^5 statements)"] == 1


def test_large_functions_that_differ(counted):
    sch = Schedule(large)
    sch.parallel(sch.get_loops(sch.get_block("B"))[0])
    build(sch)
    context = PassContext(config={"tir.add_lower_pass": [(3, shortened())]})
    with context, pytest.raises(MiscompileError, match="plainest build differ"):
        build(sch)


def test_intrinsics_of_the_machine_run_in_built_code(counted):
    """The interpreter does not know LLVM's intrinsics: so the two builds are compared."""
    build(rounded)
    assert counted()["not interpreted (it calls call_llvm_pure_intrin)"] == 1
    assert counted()["compared with the plainest build"] == 1
    context = PassContext(config={"tir.add_lower_pass": [(1, shortened())]})
    with context, pytest.raises(MiscompileError, match="plainest build differ"):
        build(rounded)


def test_a_large_function_that_refuses_the_chosen_arguments(counted):
    build(refused)
    assert any(what.startswith("not comparable (the plainest build") for what in counted())
    assert "compared with the plainest build" not in counted()


@pytest.mark.parametrize("shorter", [False, True])
def test_what_a_schedule_makes_large_is_built(shorter, counted):
    """A small function whose scheduled form is not interpreted is compared as a whole."""
    original = IRModule({"scaled": scaled.with_attr("global_symbol", "scaled")})
    repeated = For(Var("again", "int32"), 0, 2000, ForKind.SERIAL, scaled.body.block.body)
    body = scaled.body.with_fields(block=scaled.body.block.with_fields(body=repeated))
    scheduled = scaled.with_body(body).with_attr("global_symbol", "scaled")
    with knobs.override(check=False):
        good = build(shortened().function(scaled, None, None) if shorter else scaled, name="scaled")
    arguments = (original, lambda: good, lambda _: good_of(scaled), IRModule({"scaled": scheduled}))
    if shorter:
        with pytest.raises(MiscompileError, match="plainest build differ"):
            checking.check_builds(*arguments)
    else:
        checking.check_builds(*arguments)
        assert counted()["compared with the plainest build"] == 1


def good_of(function):
    with knobs.override(check=False):
        return build(function, name="scaled")


def test_schedules_that_the_interpreter_cannot_run(counted):
    """Instructions of the machine that a schedule chose are no miscompile."""
    checking.check_same(copied, unknown, "the schedule")
    assert any("does not run what the schedule makes of it" in what for what in counted())


def test_schedules_of_kernels_are_compared(counted):
    from tilesmith.driver.kernels import compile_job

    compile_job(IRModule({"main": scaled.with_attr("global_symbol", "main")}), Target("llvm"))
    assert counted()["interpreted after a schedule"] == 1
    wrong = scaled.with_body(shortened().function(scaled, None, None).body)
    with pytest.raises(MiscompileError, match="the schedule changed what"):
        checking.check_same(scaled, wrong, "the schedule")


def test_what_is_not_interpreted_says_why(counted):
    assert calls_outside(printed) == "tvm_call_packed"
    lower(printed)
    assert counted().pop("not interpreted (it calls tvm_call_packed)") == 1


def test_promised_statements():
    assert promised_statements(scaled, {}) == 63
    assert promised_statements(large, {}) == 120_000
    sizes, arguments = next(argument_choices(symbolic))
    (n,) = sizes.values()
    assert promised_statements(symbolic, sizes) == 2 * n * (n + 2)  # with `init`
    assert [a.shape for a in arguments] == [(n, n + 2), (n,)]


def test_arguments_have_the_strides_and_the_alignment_that_are_declared(counted):
    @T.prim_func
    def placed(a: T.handle, B: T.Buffer((5, 3), "float16")):
        A = T.match_buffer(a, (5, 3), "float16", strides=(7, 2), align=1024)
        for i, j in T.grid(5, 3):
            B[i, j] = A[i, j] * T.float16(2)

    _, (given, _) = next(argument_choices(placed))
    for array in (given, copy_of_argument(given)):
        assert array.strides == (14, 4) and array.ctypes.data % 1024 == 0
        np.testing.assert_array_equal(array, given)
    assert copy_of_argument(given) is not given
    empty = np.zeros((0, 4), "float32")
    assert copy_of_argument(empty).shape == (0, 4)
    build(placed)
    assert not any(what.startswith("not") for what in counted())


def test_divisors_are_not_zero(counted):
    @T.prim_func
    def divided(A: T.Buffer((40,), "int32"), B: T.Buffer((40,), "int32")):
        for i in range(40):
            A[i] = A[i] // B[i]

    build(divided)
    assert not any(what.startswith("not") for what in counted())


def test_indices_that_are_loaded_stay_inside():
    _, (_, indices, _) = next(argument_choices(gathered))
    assert indices.min() >= 0 and indices.max() <= 2 and len(set(indices.tolist())) > 1


def test_the_environment_switches_it_on_and_the_end_tells():
    program = (
        "import tilesmith as ts\n"
        "from tilesmith.script import tir as T\n"
        "f = ts.script.from_source('''\n@T.prim_func\ndef f(A: T.Buffer((4,), \"int32\")):\n"
        "    for i in range(4):\n        A[i] = A[i] + 1\n''')\n"
        "ts.build(f)\n"
        "from tilesmith.lowering import checking\n"
        "checking.add_counts(checking.take_counts())\n"
    )
    environment = {**os.environ, "TILESMITH_CHECK": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stderr.count("tilesmith check: interpreted after a pass:") == 1


def test_results_stay_those_of_the_build(counted):
    a, b = np.arange(63, dtype="float32").reshape(7, 9), np.zeros((7, 9), "float32")
    out = ts.nd.array(b)
    build(scaled)(ts.nd.array(a), out)
    np.testing.assert_array_equal(out.numpy(), 3 * a)

"""Live ranges of graphs with views, closures and functions that keep things; plans made of them."""

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import relax
from tilesmith.ir.transform import PassContext
from tilesmith.relax import analysis, op, transform
from tilesmith.relax.analysis.live_ranges import live_ranges
from tilesmith.relax.analysis.memory_plan import plan_memory
from tilesmith.script import ir as I
from tilesmith.script import relax as R
from tilesmith.script import tir as T
from tilesmith.support.memory_planner import ALGORITHMS


@I.ir_module
class Module:
    @T.prim_func
    def double(a: T.Buffer((4,), "float32")):
        for i in range(4):
            a[i] = a[i] * T.float32(2)

    @R.function
    def same(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        return x

    @R.function
    def views(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        a = R.exp(x)
        b = R.reshape(a, (2, 2))
        c = R.expand_dims(b, 0)
        d = (c, x)
        e = d[0]
        f = R.exp(x)
        g = R.flatten(e)
        h = R.add(g, f)
        return h

    @R.function
    def calls(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Module
        a = R.exp(x)
        b = cls.same(a)
        c = R.exp(x)
        d = R.add(b, c)
        return d

    @R.function
    def registered(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        a = R.exp(x)
        b = R.call_pure_packed("keeps", a, sinfo_args=R.Tensor((4,), "float32"))
        c = R.exp(b)
        d = R.exp(c)
        return d

    @R.function
    def destinations(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        a = R.exp(x)
        b = R.call_dps_packed("fills", a, out_sinfo=R.Tensor((4,), "float32"))
        c = R.exp(b)
        d = R.exp(c)
        return d

    @R.function
    def in_place(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Module
        a = R.exp(x)
        b = R.call_tir_inplace(
            cls.double, (a,), inplace_indices=[0], out_sinfo=R.Tensor((4,), "float32")
        )
        c = R.exp(x)
        d = R.add(b, c)
        return d

    @R.function
    def branches(x: R.Tensor((4,), "float32"), p: R.Tensor((), "bool")) -> R.Tensor(
        (4,), "float32"
    ):
        a = R.exp(x)
        b = R.exp(a)
        if p:
            r = a
        else:
            r = b
        c = R.exp(x)
        d = R.add(r, c)
        return d


# Function → variable → the steps in which its memory is needed, where it has some of its own.
STEPS = {
    "views": {"a": (0, 7), "b": None, "c": None, "e": None, "g": None, "f": (5, 7), "h": (7, 8)},
    "calls": {"a": (0, 3), "b": (1, 3), "c": (2, 3)},
    "registered": {"a": (0, 2), "b": (1, 2), "c": (2, 3)},
    "destinations": {"a": (0, 1), "b": (1, 2), "c": (2, 3)},
    "in_place": {"a": (0, 3), "b": None, "c": (2, 3)},
    "branches": {"a": (0, 4), "b": (1, 4), "r": None, "c": (3, 4)},
}
ESCAPING = {"registered": {"a", "d"}}


@pytest.mark.parametrize("name", STEPS)
def test_live_ranges(name):
    function = Module[name]
    graph = live_ranges(function)
    by_name = {binding.var.name_hint: binding.var for binding in graph.bindings}
    for hint, steps in STEPS[name].items():
        assert graph.ranges.of(by_name[hint]) == (() if steps is None else (steps,)), hint
    bound = set(by_name.values())
    escaping = {var.name_hint for var in graph.escaping if var in bound}
    assert escaping == ESCAPING.get(name, {list(by_name)[-1]})


def chain(count):
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((4, 8), "float32"))
    with builder.function("main", [x]):
        value = before = x
        for number in range(count):
            if number % 3 == 0:  # a small tensor between large ones
                after = op.add(value, builder.emit(op.sum(value, 1, True)))
            elif number % 3 == 1:
                flat = builder.emit(op.reshape(value, (32,)))
                after = op.reshape(builder.emit(op.tanh(flat)), (4, 8))
            else:
                after = op.add(value, before)
            before, value = value, builder.emit(after)
        builder.emit_func_output(builder.emit(op.exp(value)))
    return builder.get()


@pytest.mark.parametrize("algorithm", [None, *ALGORITHMS])
def test_values_that_live_together_do_not_share(algorithm):
    with PassContext(config={"tir.usmp.algorithm": algorithm} if algorithm else {}):
        plan = plan_memory(chain(14)["main"])
    assert len(plan.values) > 10 and plan.workspace_bytes < plan.unshared_bytes
    for number, a in enumerate(plan.values):
        assert a.offset % 64 == 0 and a.offset + a.nbytes <= plan.workspace_bytes
        for b in plan.values[:number]:
            if a.first <= b.last and b.first <= a.last:
                assert a.offset + a.nbytes <= b.offset or b.offset + b.nbytes <= a.offset


def test_usage_is_estimated():
    text = analysis.estimate_memory_usage(chain(5))
    assert "main: " in text and "with sharing" in text


def test_what_a_function_returns_may_be_its_argument():
    """A callee that returns its argument keeps the argument's memory from being given away."""
    module = transform.CallTIRRewrite()(transform.LegalizeOps()(Module))
    planned = transform.StaticPlanBlockMemory()(module)
    function = planned["calls"]
    offsets = {
        binding.var.name_hint: int(binding.value.args[1].value)
        for block in function.body.blocks
        for binding in block.bindings
        if isinstance(binding.value, relax.Call)
        and getattr(binding.value.op, "name", "") == "relax.memory.alloc_tensor"
    }
    assert len(set(offsets.values())) == len(offsets) == 2


@pytest.mark.parametrize("algorithm", [None, *ALGORITHMS])
def test_models_run_whichever_algorithm_plans_them(algorithm):
    module = chain(9)
    x = np.random.default_rng(0).uniform(-1, 0, (4, 8)).astype("float32")
    want = relax.build(module, "llvm")["main"](x).numpy()
    with PassContext(config={"tir.usmp.algorithm": algorithm} if algorithm else {}):
        got = relax.build(module, "llvm")["main"](ts.nd.array(x)).numpy()
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "option, value",
    [("enable", True), ("use_workspace_io", True), ("algorithm", "hill_climb")],
)
def test_what_the_planner_does_not_do_is_refused(option, value):
    with PassContext(config={f"tir.usmp.{option}": value}):
        with pytest.raises(ts.error.TilesmithError, match="no effect here|hill_climb"):
            relax.build(chain(2), "llvm")

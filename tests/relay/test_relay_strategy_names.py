"""The names of strategies that users know: wrappers, schedules and strategies of each module."""

import inspect
from types import SimpleNamespace

import pytest

from tilesmith import relay, te, topi
from tilesmith.ir import IRModule
from tilesmith.relay.op import strategy as strategies
from tilesmith.relay.op.op_strategy import OpStrategy
from tilesmith.relay.op.strategy.names import MODULES
from tilesmith.relay.op.strategy.own import OwnStrategy
from tilesmith.relay.op.strategy.wrappers import WRAPPERS
from tilesmith.support.errors import UnsupportedError

TARGETS = {
    "adreno": "opencl -device=adreno", "arm_cpu": "llvm -device=arm_cpu",
    "bifrost": "opencl -device=bifrost", "cuda": "cuda", "generic": "llvm",
    "hexagon": "llvm -device=hexagon", "hls": "llvm -device=hls",
    "intel_graphics": "opencl -device=intel_graphics", "mali": "opencl -device=mali",
    "rocm": "rocm", "x86": "llvm",
}  # fmt: skip


class AnyAttrs:
    """Attributes of all names; each has its name as value."""

    def __getattr__(self, name):
        return name

    def get(self, name, default=None):
        return name


# The function of `sliding_window` is TOPI's own: tests of the table call it.
@pytest.mark.parametrize("name", sorted(WRAPPERS.keys() - {"sliding_window"}))
def test_a_wrapper_passes_what_its_row_says(name):
    of_arm = name in ("conv2d_gemm", "conv2d_winograd_nnpack")
    module = strategies.arm_cpu if of_arm else strategies.generic
    wrap = getattr(module, f"wrap_compute_{name}")
    flags = {flag: True for flag in inspect.signature(wrap).parameters if flag != "topi_compute"}
    inputs = [te.placeholder((2, 9), name=f"t{place}") for place in range(6)]
    given = []

    def compute(*args, **named):
        given.extend([*args, *named.values()])
        return inputs[0]

    adapted = wrap(compute, **flags)
    type_ = SimpleNamespace(shape=(3, 4))
    assert adapted(AnyAttrs(), inputs, type_) == [inputs[0]]
    wanted = []
    special = {"None": None, "''": "", "result_shape": [3, 4], "list": inputs}
    special |= {"rewritten": "auto_scheduler_rewritten_layout"}
    special |= {"original": "meta_schedule_original_shape", "schedule_rule": True}
    for word in WRAPPERS[name].replace("=", "").split():
        word = word.partition("?")[0]
        if word == "*":
            wanted += inputs
        else:
            wanted.append(inputs[int(word)] if word.isdigit() else special.get(word, word))
    assert len(given) == len(wanted)
    assert all(a is b or a == b for a, b in zip(given, wanted))


@pytest.mark.parametrize("module", sorted(TARGETS))
def test_schedules_are_classic_ones(module):
    names = [
        name
        for name in dir(getattr(strategies, module))
        if name.startswith("schedule_") and "dense" not in name
    ]
    assert names or module in ("bifrost", "intel_graphics", "mali", "rocm")
    x = te.placeholder((4, 6), name="x")
    for name in names:
        schedule = getattr(getattr(strategies, module), name)
        assert isinstance(schedule(None, [topi.nn.relu(x)], TARGETS[module]), te.Schedule), name


@pytest.mark.parametrize("module", sorted(MODULES))
def test_strategies_of_a_family_offer_its_schedules(module):
    x, w = relay.var("x", shape=(3, 5)), relay.var("w", shape=(7, 5))
    call = relay.transform.InferType()(IRModule.from_expr(relay.nn.dense(x, w)))["main"].body
    inputs = [te.placeholder((3, 5)), te.placeholder((7, 5))]
    offered = 0
    for name in dir(getattr(strategies, module)):
        strategy = getattr(getattr(strategies, module), name)
        if not isinstance(strategy, OwnStrategy):
            continue
        offered += 1
        if strategy.op.name != "nn.dense":
            continue
        made = strategy(call.attrs, inputs, call.checked_type, TARGETS[module])
        assert isinstance(made, OpStrategy)
        (specialization,) = made.specializations
        names = [one.name for one in specialization.implementations]
        assert names == ["nn.dense.search", f"dense.{module}"]
    assert offered > 0


def test_a_strategy_whose_operator_is_missing_says_so():
    for module in (*MODULES, "generic"):
        for name in dir(getattr(strategies, module)):
            function = getattr(getattr(strategies, module), name)
            default = getattr(function, "default", function)
            if "strategy" in name and getattr(default, "__name__", "") == name:
                with pytest.raises(UnsupportedError, match=name):
                    function(None, [], None, "llvm")

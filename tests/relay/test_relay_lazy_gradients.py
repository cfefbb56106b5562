"""LazyGradientInit: zeros and ones are made when their numbers are needed."""

import pytest

from tests.relay.gradient_programs import PROGRAMS, number, scalar, total
from tilesmith import ir, relay
from tilesmith.relay.testing import count_ops, operator_calls, run_as_python
from tilesmith.relay.transform import (
    DeadCodeElimination,
    InferType,
    LazyGradientInit,
    PartialEvaluate,
    gradient,
)


def made(function, mod=None):
    mod = ir.IRModule() if mod is None else mod
    mod["main"] = gradient(function, mod)
    return InferType()(mod)


@pytest.mark.parametrize("make", PROGRAMS)
def test_gradients_stay_the_same(make):
    mod = made(*make())
    lazy = LazyGradientInit()(mod)
    assert lazy["main"].checked_type == mod["main"].checked_type
    given = [number(0.3).data, number(0.7).data]
    wanted = run_as_python(mod.get_global_var("main"), mod)(*given)
    found = run_as_python(lazy.get_global_var("main"), lazy)(*given)
    assert total(found) == pytest.approx(total(wanted))


def test_sums_with_zeros_and_products_with_ones_disappear():
    x, y = scalar("x"), scalar("y")
    mod = made(relay.Function([x, y], x * y))
    plain = DeadCodeElimination()(PartialEvaluate()(mod))
    assert count_ops(plain["main"])["zeros_like"] == 2
    lazy = DeadCodeElimination()(PartialEvaluate()(LazyGradientInit()(mod)))
    assert count_ops(lazy["main"]) == {"multiply": 1}  # the gradients are the other number


def test_zeros_are_not_computed(monkeypatch):
    x = relay.var("x", shape=(2,))
    zeros = relay.zeros_like(x)
    mod = ir.IRModule.from_expr(relay.Function([x], zeros + relay.tanh(x) + zeros))
    called = []
    original = operator_calls.call_operator
    monkeypatch.setattr(
        operator_calls, "call_operator",
        lambda name, *rest: (called.append(name), original(name, *rest))[1],
    )  # fmt: skip
    lazy = LazyGradientInit()(InferType()(mod))
    value = relay.const([1.0, 2.0]).data
    run_as_python(lazy.get_global_var("main"), lazy)(value)
    assert called == ["tanh"]


def test_other_shapes_are_added_as_before():
    x = relay.var("x", shape=(2,))
    both = relay.zeros((3, 1), "float32") + x
    mod = LazyGradientInit()(InferType()(ir.IRModule.from_expr(relay.Function([x], both))))
    found = run_as_python(mod.get_global_var("main"), mod)(relay.const([1.0, 2.0]).data)
    assert found.numpy().tolist() == [[1, 2]] * 3


def test_functions_of_other_values_stay():
    mod = InferType()(relay.Prelude().mod)
    ir.assert_structural_equal(LazyGradientInit()(mod), mod)

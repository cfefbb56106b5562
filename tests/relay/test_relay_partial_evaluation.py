"""PartialEvaluate: what is known disappears, and the rest means the same."""

import numpy
import pytest

from tests.relay import programs
from tests.relay.gradient_programs import PROGRAMS, number, scalar, total
from tilesmith import ir, relay
from tilesmith.relay import testing
from tilesmith.relay.testing import run_as_python
from tilesmith.relay.transform import (
    DeadCodeElimination,
    InferType,
    PartialEvaluate,
    gradient,
    partial_evaluate,
)
from tilesmith.relay.walks import post_order

EFFECTS = (relay.RefCreate, relay.RefRead, relay.RefWrite)


def rest_of(mod):
    return InferType()(DeadCodeElimination()(PartialEvaluate()(InferType()(mod))))


def module(function, mod=None):
    mod = ir.IRModule() if mod is None else mod
    mod["main"] = function
    return mod


def inside(function):
    return list(post_order(function.body))


@pytest.mark.parametrize("make", PROGRAMS)
def test_gradients_become_straight_line_programs(make):
    function, mod = make()
    mod = ir.IRModule() if mod is None else mod
    mod = InferType()(module(gradient(function, mod), mod))
    rest = rest_of(mod.shallow_copy())
    given = [number(0.3).data, number(0.7).data]
    wanted = run_as_python(mod.get_global_var("main"), mod)(*given)
    found = run_as_python(rest.get_global_var("main"), rest)(*given)
    assert total(found) == pytest.approx(total(wanted))
    kinds = {type(node) for node in inside(rest["main"])}
    if make.__name__ != "a_choice":  # what is chosen at run time stays
        assert not kinds & {*EFFECTS, relay.Function, relay.If, relay.Match, ir.GlobalVar}


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_mean_the_same(seed):
    function = programs.Maker(seed).function()
    arrays = programs.arrays(seed)
    rest = rest_of(module(function))
    found = programs.value_of(rest["main"], arrays)
    numpy.testing.assert_allclose(found, programs.value_of(function, arrays), rtol=1e-5)
    assert not [one for one in inside(rest["main"]) if isinstance(one, relay.Function)]


def test_data_that_are_known():
    mod = ir.IRModule()
    prelude = relay.Prelude(mod)
    mod.import_from_std("nat.rly")
    double = mod.get_global_var("nat_double")
    rest = rest_of(module(relay.Function([], double(testing.make_nat_expr(prelude, 3))), mod))
    assert not [one for one in inside(rest["main"]) if isinstance(one, (relay.Match, ir.GlobalVar))]
    value = run_as_python(rest["main"].body, rest)
    assert testing.count(prelude, value) == 6
    x = relay.var("x", "int32")
    numbers = prelude.cons(x, prelude.cons(number(5, "int32"), prelude.nil()))
    twice = relay.Function([y := relay.var("y", "int32")], y + y)
    total_of = prelude.sum(prelude.map(twice, numbers))
    rest = rest_of(module(relay.Function([x], total_of), mod))
    assert testing.count_ops(rest["main"]) == {"add": 3}  # twice x, and the sum from both ends
    found = run_as_python(rest["main"], rest)(number(4, "int32").data)
    assert int(found.numpy()) == 18


def test_data_that_are_not_known():
    mod = ir.IRModule()
    prelude = relay.Prelude(mod)
    xs = relay.var("xs", prelude.l(relay.scalar_type("int32")))
    twice = relay.Function([y := relay.var("y", "int32")], y + y)
    both = relay.Function([xs], prelude.sum(prelude.map(twice, xs)))
    rest = rest_of(module(both, mod))
    numbers = prelude.cons(number(4, "int32"), prelude.cons(number(5, "int32"), prelude.nil()))
    found = run_as_python(relay.Call(rest.get_global_var("main"), [numbers]), rest)
    assert int(found.numpy()) == 18


def test_recursion_without_end_stays():
    mod = ir.IRModule()
    x, y = scalar("x"), scalar("y")
    real = relay.scalar_type("float64")
    loop, swap = relay.GlobalVar("loop"), relay.GlobalVar("swap")
    mod[loop] = relay.Function([x], loop(x), real)
    mod[swap] = relay.Function([x, y], swap(y, x), real)
    mod = rest_of(module(relay.Function([x], loop(x) + swap(x, number(1.0))), mod))
    assert [one for one in inside(mod["main"]) if isinstance(one, ir.GlobalVar)]


def test_a_loop_at_run_time_stays_a_loop():
    i, x = relay.var("i", "int32"), scalar("x")
    n, start = relay.var("n", "int32"), scalar("start")
    loop = relay.loops.while_loop(
        lambda i, x: i < n, [i, x], lambda i, x: [i + number(1, "int32"), x * number(2.0)]
    )
    function = relay.Function([n, start], relay.Call(loop, [number(0, "int32"), start]))
    rest = rest_of(module(function))
    _, found = run_as_python(rest["main"])(number(5, "int32").data, number(1.5).data)
    assert float(found.numpy()) == 48


def test_references_that_unknown_functions_see():
    x, r = scalar("x"), relay.var("r")
    real = relay.scalar_type("float64")
    f = relay.var("f", relay.FuncType([relay.RefType(real)], relay.TupleType([])))
    body = relay.Let(relay.var("_"), relay.Call(f, [r]), relay.RefRead(r))
    body = relay.Let(relay.var("_"), relay.RefWrite(r, relay.exp(x)), body)
    function = relay.Function([f, x], relay.Let(r, relay.RefCreate(x), body))
    rest = rest_of(module(function))
    kinds = [type(node) for node in inside(rest["main"])]
    assert [kinds.count(kind) for kind in EFFECTS] == [1, 1, 0]  # written with its second value
    ref = relay.var("ref", relay.RefType(real))
    triple = relay.Function([ref], relay.RefWrite(ref, relay.RefRead(ref) * number(3.0)))
    found = run_as_python(relay.Call(rest["main"], [triple, number(0.5)]))
    assert float(found.numpy()) == pytest.approx(3 * numpy.exp(0.5))


def test_references_in_functions_that_are_returned():
    """A counter: each call of what is returned adds to the same reference."""
    x, r = scalar("x"), relay.var("r")
    step = relay.RefWrite(r, relay.RefRead(r) + x)
    counter = relay.Function([x], relay.Let(relay.var("_"), step, relay.RefRead(r)))
    made = relay.Function([], relay.Let(r, relay.RefCreate(number(1.0)), counter))
    rest = rest_of(module(made))
    count = run_as_python(rest["main"])()
    assert [float(count(number(2.0).data).numpy()) for _ in range(3)] == [3.0, 5.0, 7.0]


def test_calls_that_are_too_deep_to_be_followed_stay(monkeypatch):
    monkeypatch.setattr(partial_evaluate, "_DEEPEST", 5)
    x = scalar("x")
    value = x
    for _ in range(30):
        value = relay.tanh(relay.multiply(value, x))
    derived = gradient(InferType()(module(relay.Function([x], value)))["main"])
    mod = InferType()(module(derived))
    rest = rest_of(mod.shallow_copy())
    assert any(isinstance(node, relay.RefCreate) for node in inside(rest["main"]))
    wanted = run_as_python(mod.get_global_var("main"), mod)(number(0.9).data)
    found = run_as_python(rest.get_global_var("main"), rest)(number(0.9).data)
    assert total(found) == pytest.approx(total(wanted))

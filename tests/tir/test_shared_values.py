"""Expressions whose graphs are small and whose trees are not: names for what is shared."""

import random

import numpy as np
import pytest

from tilesmith import build, lower, nd, te, tir
from tilesmith.ir import Let, Select, Var
from tilesmith.ir.queries import nodes, walk
from tilesmith.tir.interpreter import run
from tilesmith.tir.shared_values import bind_shared


def doubled(value, times):
    for _ in range(times):
        value = value + value
    return value


def size(expr):
    return sum(1 for _ in walk(expr))


@pytest.mark.parametrize("depth", [40, 400])
def test_a_tree_is_as_small_as_the_graph(depth):
    x = Var("x", "float32")
    found = bind_shared(doubled(x * 2.0, depth))
    assert size(found) < 10 * depth and len(list(nodes(found, Let))) == depth
    assert bind_shared(found) is found


def test_small_expressions_stay_as_they_are():
    x = Var("x", "float32")
    small = doubled(x * 2.0, 6)
    assert bind_shared(small) is small
    tree = x + 0.0
    for number in range(3000):  # large, and nothing is shared
        tree = tree * 2.0 + float(number)
    assert bind_shared(tree) is tree


def test_what_a_condition_guards_stays_behind_it():
    """Reads of one branch are not carried out before the branch is chosen."""
    A = te.placeholder((4,), name="A")
    C = te.compute(
        (8,), lambda i: tir.if_then_else(i < 4, doubled(A[i] * 0.5, 40), doubled(i * 1.0, 40))
    )
    f = te.create_prim_func([A, C])
    a, found = np.arange(1, 5, dtype="float32"), np.zeros(8, "float32")
    run(f, a, found)  # the interpreter finds reads out of bounds
    wanted = 2.0**40 * np.concatenate([a * 0.5, np.arange(4, 8)])
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    built = nd.array(np.zeros(8, "float32"))
    build(f, target="llvm")(nd.array(a), built)
    np.testing.assert_allclose(built.numpy(), wanted, rtol=1e-6)


def test_what_a_condition_and_its_branches_use_has_one_name():
    x = Var("x", "float32")
    value = x
    for _ in range(60):
        value = Select(value > 1.0, value * 0.5, value + 1.0)
    assert size(bind_shared(value)) < 60 * 12


@pytest.mark.parametrize("seed", range(12))
def test_values_of_random_graphs_stay(seed):
    pick = random.Random(seed)
    A = te.placeholder((8,), name="A")

    def element(i):
        known = [A[i], A[7 - i], tir.Cast("float32", i) * 0.25]
        for _ in range(40):
            a, b, c = [pick.choice(known[-6:]) for _ in range(3)]
            known.append(
                pick.choice(
                    [
                        lambda a, b, c: a * 0.5 + b * 0.25,
                        lambda a, b, c: tir.max(a, b) - c * 0.5,
                        lambda a, b, c: tir.if_then_else(a > b, b * 0.5, c),
                        lambda a, b, c: Select(tir.all(a > 0.1, b > c), a, c * 0.5),
                        lambda a, b, c: tir.sigmoid(a + b),
                    ]
                )(a, b, c)
            )
        return known[-1]

    axis = Var("i", "int32")
    state = pick.getstate()
    given = element(axis)
    pick.setstate(state)
    C = te.compute((8,), element, name="C")
    a = np.random.default_rng(seed).random(8, dtype="float32")
    found = np.zeros(8, "float32")
    run(te.create_prim_func([A, C]), a, found)
    memo = {}
    wanted = [value_of(given, {axis: k}, a, memo.setdefault(k, {})) for k in range(8)]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    always = bind_shared(given, always=True)
    again = [value_of(always, {axis: k}, a, {}) for k in range(8)]
    np.testing.assert_allclose(again, wanted, rtol=1e-6)


def value_of(expr, names, a, memo):
    """Evaluate a graph, each node once."""
    if id(expr) in memo:
        return memo[id(expr)]
    inner = lambda one: value_of(one, names, a, memo)
    name = type(expr).__name__
    if name == "Var":
        return names[expr]
    if name in ("IntImm", "FloatImm"):
        return expr.value
    if name == "Let":
        names[expr.var] = inner(expr.value)
        result = inner(expr.body)
    elif name == "ProducerLoad":
        result = a[inner(expr.indices[0])]
    elif name == "Call" and expr.op.name == "tir.if_then_else":
        result = inner(expr.args[1]) if inner(expr.args[0]) else inner(expr.args[2])
    elif name == "Call":
        result = 1 / (1 + np.exp(-np.float64(inner(expr.args[0]))))
    elif name == "Select":
        result = inner(expr.true_value) if inner(expr.condition) else inner(expr.false_value)
    elif name == "Cast":
        result = inner(expr.value)
    else:
        x, y = inner(expr.a), inner(expr.b)
        result = {
            "Add": lambda: x + y, "Sub": lambda: x - y, "Mul": lambda: x * y,
            "Max": lambda: max(x, y), "GT": lambda: x > y, "LT": lambda: x < y,
            "And": lambda: x and y,
        }[name]()  # fmt: skip
    memo[id(expr)] = result
    return result


def chain(length):
    A = te.placeholder((8,), name="A")
    stages = [A]
    for number in range(length):
        before = stages[-1]
        stages.append(te.compute((8,), lambda i, t=before: (t[i] + t[i]) * 0.5, name=f"t{number}"))
    return A, stages[1:]


def compare(function, length):
    a, found = np.random.default_rng(0).random(8, dtype="float32"), nd.array(np.zeros(8, "float32"))
    function(nd.array(a), found)
    np.testing.assert_allclose(found.numpy(), a, rtol=1e-5)


def test_inlined_stages_of_a_classic_schedule():
    A, stages = chain(60)
    s = te.create_schedule(stages[-1].op)
    for stage in stages[:-1]:
        s[stage].compute_inline()
    assert len(str(lower(s, [A, stages[-1]]))) < 20000
    compare(build(s, [A, stages[-1]], target="llvm"), 60)


def test_inlined_blocks():
    A, stages = chain(50)
    sch = tir.Schedule(te.create_prim_func([A, stages[-1]]))
    for number in range(49):
        sch.compute_inline(sch.get_block(f"t{number}"))
    assert len(str(sch.mod)) < 20000
    compare(build(sch.mod, target="llvm"), 50)


def test_a_gradient_through_a_deep_expression():
    A = te.placeholder((4,), name="A")
    C = te.compute((4,), lambda i: doubled(A[i] * 2.0**-30, 30), name="C")
    (gradient,) = te.gradient(C, [A])
    found = np.zeros([int(n) for n in gradient.shape], "float32")
    run(te.create_prim_func([A, gradient]), np.ones(4, "float32"), found)
    np.testing.assert_allclose(found, np.eye(4))

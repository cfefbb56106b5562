"""Simplification of reductions: components, ranges, conditions, and reductions over nothing."""

from __future__ import annotations

import itertools
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilesmith
from tests.arith.meaning import meaning
from tilesmith import te, tir
from tilesmith.arith import Analyzer
from tilesmith.ir import Call, PrimExpr, Range, Var, const, structural_equal
from tilesmith.tir import Reduce

A = te.placeholder((10,), name="A", dtype="int32")
x, n = Var("x", "int32"), Var("n", "int32")
k = te.reduce_axis((0, 10), "k")
j = te.reduce_axis((2, 6), "j")

sum_and_product = te.comm_reducer(
    lambda a, b: (a[0] + b[0], a[1] * b[1]),
    lambda first, second: (const(0, first), const(1, second)),
)
largest_place = te.comm_reducer(
    lambda a, b: (
        tir.Select(a[1] >= b[1], a[0], b[0]),
        tir.Select(a[1] >= b[1], a[1], b[1]),
        a[2] + b[2],
    ),
    lambda *kinds: tuple([const(value, kind) for value, kind in zip((-1, -100, 0), kinds)]),
)


def simplified(expr: PrimExpr) -> PrimExpr:
    return Analyzer().canonical_simplify(expr)


@pytest.mark.parametrize(
    "before, after",
    [
        (te.sum(k // 10 + A[k], axis=k), te.sum(A[k], axis=k)),
        (te.sum(A[k], axis=k, where=k < 10), te.sum(A[k], axis=k)),
        (te.sum(A[k], axis=[k, j], where=tir.all(k + j < 15, x < 4)),
         te.sum(A[k], axis=[k, j], where=x < 4)),
        (te.sum((j + 2) // 4 + k % 10, axis=[k, j], where=j < 6), te.sum(k + 1, axis=[k, j])),
        (te.sum(tir.if_then_else(k < 5, A[k], 1), axis=k, where=k < 3),
         te.sum(A[k], axis=k, where=k < 3)),
        (te.max(A[x + 0], axis=k), te.max(A[x], axis=k)),
    ],
)  # fmt: skip
def test_in_the_ranges_of_the_axes(before: PrimExpr, after: PrimExpr) -> None:
    assert structural_equal(simplified(before), after)


def test_the_ranges_are_left_behind() -> None:
    """The value of a reduction tells nothing about its variables outside."""
    outside = te.sum(k // 10 + A[k], axis=k) + k // 10
    assert structural_equal(simplified(outside), te.sum(A[k], axis=k) + k // 10) or (
        structural_equal(simplified(outside), k // 10 + te.sum(A[k], axis=k))
    )
    over_unknown = te.reduce_axis((0, n), "r")
    analyzer = Analyzer()
    analyzer.simplify(te.sum(A[over_unknown], axis=over_unknown))
    assert not analyzer.can_prove(n > 0)


def test_what_is_simple_stays() -> None:
    for simple in (te.sum(A[k], axis=k), te.sum(A[k], axis=k, where=x < 3, init=2)):
        assert simplified(simple) is simple


def test_components_that_are_not_needed_are_dropped() -> None:
    first, second = sum_and_product((A[k], A[k] + 1), axis=k)
    assert structural_equal(simplified(first), te.sum(A[k], axis=k))
    assert len(simplified(second).source) == 1
    place, value, count = largest_place((k.var, A[k], A[k]), axis=k, init=(1, 2, 3))
    small = [simplified(one) for one in (place, value, count)]
    assert [len(one.source) for one in small] == [2, 1, 1]
    assert [one.value_index for one in small] == [0, 0, 0]
    assert [[int(item) for item in one.init] for one in small] == [[1, 2], [2], [3]]


def test_components_with_effects_are_kept() -> None:
    effect = Call("int32", "tir.call_extern", ("next_number",))
    first, second = sum_and_product((A[k], effect), axis=k)
    assert [len(simplified(one).source) for one in (first, second)] == [2, 1]
    assert simplified(first).value_index == 0
    over_nothing, _ = sum_and_product((A[3], effect), axis=[])
    assert isinstance(simplified(over_nothing), Reduce)


@pytest.mark.parametrize(
    "before, after",
    [
        (te.sum(A[3], []), A[3]),
        (te.sum(A[3], axis=[]), A[3]),
        (te.max(A[3] + 0, axis=[]), A[3]),
        (te.sum(A[3], axis=[], where=const(False, "bool")), const(0, "int32")),
        (te.sum(A[3], axis=[], where=const(False, "bool"), init=5), const(5, "int32")),
        (te.sum(A[3], axis=[], init=5), A[3] + 5),
        (te.sum(A[3], axis=[], where=x < 3), tir.if_then_else(x < 3, A[3], 0)),
        (te.sum(A[3], axis=[]) * 2 + 1, A[3] * 2 + 1),
    ],
)
def test_over_nothing(before: PrimExpr, after: PrimExpr) -> None:
    assert structural_equal(simplified(before), after)


def value_of(expr: Any, env: dict[Any, Any]) -> int:
    """Evaluates a reduction of integers in the plainest way."""
    if not isinstance(expr, Reduce):
        return int(meaning(expr, env))
    own = [int(meaning(item, env)) for item in expr.init or expr.combiner.identity_element]
    domains = [
        range(low, low + int(meaning(axis.dom.extent, env)))
        for axis in expr.axis
        for low in [int(meaning(axis.dom.min, env))]
    ]
    for point in itertools.product(*domains):
        here = {**env, **dict(zip([axis.var for axis in expr.axis], point))}
        if meaning(expr.condition, here):
            values = [int(meaning(item, here)) for item in expr.source]
            names = (*expr.combiner.lhs, *expr.combiner.rhs)
            bound = dict(zip(names, (*own, *values)))
            own = [int(meaning(item, bound)) for item in expr.combiner.result]
    return own[expr.value_index]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_values_survive(data: Any) -> None:
    """Simplified reductions have the same value, whatever the ranges and conditions."""
    small = st.integers(-3, 6)
    positive = st.integers(1, 5)

    def term() -> PrimExpr:
        one, two = data.draw(st.permutations([first.var, second.var, x]))[:2]
        a, b, c = data.draw(small), data.draw(small), data.draw(positive)
        return data.draw(
            st.sampled_from([
                one * a + two, (one * a + b) // c, (one + two * a) % c, tir.min(one, two + b),
                tir.if_then_else(one < a, two, one * b),
            ])
        )  # fmt: skip

    first = te.reduce_axis(Range.from_min_extent(data.draw(small), data.draw(st.integers(0, 4))))
    second = te.reduce_axis(Range.from_min_extent(x, data.draw(st.integers(0, 3))))
    axes = data.draw(st.sampled_from([[], [first], [second], [first, second]]))
    where = tir.all(term() < data.draw(small), term() >= data.draw(small))
    where = data.draw(st.sampled_from([None, where, const(False, "bool")]))
    init = data.draw(st.sampled_from([None, (1, 2, 3), (x, x + 1, x * 2)]))
    reductions = largest_place((term(), term(), term()), axis=axes, where=where, init=init)
    env = {first.var: 1, second.var: 2}  # outside, where they are not axes
    analyzer = Analyzer()
    analyzer.bind(x, Range(-2, 4))
    for before in reductions:
        after = analyzer.simplify(before)
        for number in range(-2, 4):
            assert value_of(after, {**env, x: number}) == value_of(before, {**env, x: number})


@pytest.mark.parametrize("target", ["c", "llvm"])
@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("start", [None, 3])
def test_computed_over_nothing(target: str, guarded: bool, start: int | None) -> None:
    """``te.sum(e, axis=[])`` from the tensor expression to what runs: a block without an init,
    which other primitives take like any other computation.
    """
    B = te.compute(
        (10,),
        lambda i: te.sum(A[i], axis=[], where=i < 4 if guarded else None, init=start),
        name="B",
    )
    C = te.compute((10,), lambda i: te.max(B[i] + 1, []), name="C")
    schedule = tir.Schedule(te.create_prim_func([A, C]))
    schedule.compute_inline("B")
    assert schedule.get(schedule.get_block("C")).init is None
    module = tilesmith.build(schedule.mod, target=target)
    given_values = numpy.arange(10, dtype="int32") - 3
    result = tilesmith.runtime.ndarray.array(numpy.zeros(10, "int32"))
    module["main"](tilesmith.runtime.ndarray.array(given_values), result)
    expected = numpy.where(numpy.arange(10) < 4, given_values, 0) if guarded else given_values
    assert numpy.array_equal(result.numpy(), expected + 1 + (start or 0))


@pytest.mark.parametrize("start", [None, (7, 1, 5)])
def test_tuples_computed_over_nothing(start: tuple[int, int, int] | None) -> None:
    tensors = te.compute(
        (10,), lambda i: largest_place((i, A[i], A[i]), axis=[], init=start), name="M"
    )
    module = tilesmith.build(te.create_prim_func([A, *tensors]), target="llvm")
    given_values = numpy.arange(10, dtype="int32") - 3
    results = [tilesmith.runtime.ndarray.array(numpy.zeros(10, "int32")) for _ in tensors]
    module["main"](tilesmith.runtime.ndarray.array(given_values), *results)
    keeps_first = given_values <= 1 if start else numpy.zeros(10, bool)
    expected = [
        numpy.where(keeps_first, 7, numpy.arange(10)),
        numpy.where(keeps_first, 1, given_values),
        given_values + (5 if start else 0),
    ]
    assert all(numpy.array_equal(one.numpy(), want) for one, want in zip(results, expected))

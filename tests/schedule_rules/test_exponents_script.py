"""An element minus the maximum of its row gets a bound as an exponent; others do not."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import te, topi
from tilesmith.schedule_rules import default_schedule
from tilesmith.schedule_rules.rows.exponents import bound_exponents
from tilesmith.script import tir as T
from tilesmith.target import Target
from tilesmith.tir import PrimFunc


def function_of(compute, *shape, dtype="float32"):
    x = te.placeholder(shape, dtype, name="x")
    return te.create_prim_func([x, compute(x)])


def bounds(function: PrimFunc) -> int:
    """Return how many calls of exp get a bound."""
    assert "T.min(" not in function.script()
    return bound_exponents(function).script().count("T.exp(T.min(")


@pytest.mark.parametrize(
    ("compute", "shape", "dtype"),
    [
        (topi.nn.softmax, (5, 7), "float32"),
        (lambda x: topi.nn.softmax(x, 1), (3, 5, 7), "float32"),
        (topi.nn.softmax, (5, 7), "float16"),  # it is added, and the exponents taken, in float32
        (topi.nn.log_softmax, (5, 7), "float32"),
        (lambda x: topi.nn.softmax(x * 0.125 + 1.0), (5, 7), "float32"),
        (topi.nn.softmax, (te.size_var("n", "int64"), te.size_var("m", "int64")), "float32"),
    ],
)
def test_softmax_bounds_its_exponents(compute, shape, dtype):
    function = function_of(compute, *shape, dtype=dtype)
    assert bounds(function) == function.script().count("T.exp(")


def test_scheduled_softmax_keeps_its_values_and_nan():
    made = default_schedule(function_of(topi.nn.softmax, 6, 40), Target("llvm"))
    assert "T.exp(T.min(" in made.script()
    x = np.random.default_rng(0).standard_normal((6, 40)).astype("float32") * 50
    x[1, 3], x[2] = np.nan, -np.inf  # every result of these rows is NaN
    x[3, 7] = -np.inf
    out = ts.nd.array(np.zeros((6, 40), "float32"))
    ts.build(made, target="llvm")["main"](ts.nd.array(x), out)
    with np.errstate(invalid="ignore"):
        powers = np.exp((x - x.max(1, keepdims=True)).astype("float64"))
        want = powers / powers.sum(1, keepdims=True)
    np.testing.assert_allclose(out.numpy(), want, rtol=1e-6, atol=1e-38)
    assert np.isnan(out.numpy()[1:3]).all() and out.numpy()[3, 7] == 0


def test_other_targets_are_left_alone():
    function = function_of(topi.nn.softmax, 6, 40)
    assert "T.min(" not in default_schedule(function, Target("cuda -arch=sm_80")).script()


@T.prim_func
def of_another_row(a: T.handle, b: T.handle):
    A, B = T.match_buffer(a, (8, 8)), T.match_buffer(b, (8, 8))
    M = T.alloc_buffer((8,))
    for i, k in T.grid(8, 8):
        with T.sblock("m"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                M[vi] = T.float32(-1e30)
            M[vi] = T.max(M[vi], A[vi, vk])
    for i, k in T.grid(8, 8):
        with T.sblock("e"):
            vi, vk = T.axis.remap("SS", [i, k])
            B[vi, vk] = T.exp(A[vi, vk] - M[vk])


@T.prim_func
def of_part_of_the_row(a: T.handle, b: T.handle):
    A, B = T.match_buffer(a, (8, 8)), T.match_buffer(b, (8, 8))
    M = T.alloc_buffer((8,))
    for i, k in T.grid(8, 4):
        with T.sblock("m"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                M[vi] = T.float32(-1e30)
            M[vi] = T.max(M[vi], A[vi, vk])
    for i, k in T.grid(8, 8):
        with T.sblock("e"):
            vi, vk = T.axis.remap("SS", [i, k])
            B[vi, vk] = T.exp(A[vi, vk] - M[vi])


@T.prim_func
def of_the_least(a: T.handle, b: T.handle):
    A, B = T.match_buffer(a, (8, 8)), T.match_buffer(b, (8, 8))
    M = T.alloc_buffer((8,))
    for i, k in T.grid(8, 8):
        with T.sblock("m"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                M[vi] = T.float32(1e30)
            M[vi] = T.min(M[vi], A[vi, vk])
    for i, k in T.grid(8, 8):
        with T.sblock("e"):
            vi, vk = T.axis.remap("SS", [i, k])
            B[vi, vk] = T.exp(A[vi, vk] - M[vi])


@T.prim_func
def of_elements_that_change(a: T.handle, b: T.handle):
    A, B = T.match_buffer(a, (8, 8)), T.match_buffer(b, (8, 8))
    M = T.alloc_buffer((8,))
    for i, k in T.grid(8, 8):
        with T.sblock("m"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                M[vi] = T.float32(-1e30)
            M[vi] = T.max(M[vi], A[vi, vk])
    for i, k in T.grid(8, 8):
        with T.sblock("c"):
            vi, vk = T.axis.remap("SS", [i, k])
            A[vi, vk] = T.float32(3)
    for i, k in T.grid(8, 8):
        with T.sblock("e"):
            vi, vk = T.axis.remap("SS", [i, k])
            B[vi, vk] = T.exp(A[vi, vk] - M[vi])


@T.prim_func
def of_a_maximum_that_is_not_finished(a: T.handle, b: T.handle):
    A, B = T.match_buffer(a, (8, 8)), T.match_buffer(b, (8, 8))
    M = T.alloc_buffer((8,))
    for k, i in T.grid(8, 8):
        with T.sblock("m"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                M[vi] = T.float32(-1e30)
            M[vi] = T.max(M[vi], A[vi, vk])
        with T.sblock("e"):
            vi, vk = T.axis.remap("SS", [i, k])
            B[vi, vk] = T.exp(A[vi, vk] - M[vi])


@T.prim_func
def of_a_condition(a: T.handle, b: T.handle):
    A, B = T.match_buffer(a, (8, 8)), T.match_buffer(b, (8, 8))
    M = T.alloc_buffer((8,))
    for i, k in T.grid(8, 8):
        with T.sblock("m"):
            T.where(k < 5)
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                M[vi] = T.float32(-1e30)
            M[vi] = T.max(M[vi], A[vi, vk])
    for i, k in T.grid(8, 8):
        with T.sblock("e"):
            vi, vk = T.axis.remap("SS", [i, k])
            B[vi, vk] = T.exp(A[vi, vk] - M[vi])


@T.prim_func
def of_the_last_row(a: T.handle, b: T.handle):
    A, B = T.match_buffer(a, (8, 8)), T.match_buffer(b, (8, 8))
    M = T.alloc_buffer((1,))
    for i, k in T.grid(8, 8):
        with T.sblock("m"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                M[0] = T.float32(-1e30)
            M[0] = T.max(M[0], A[vi, vk])
    for i, k in T.grid(8, 8):
        with T.sblock("e"):
            vi, vk = T.axis.remap("SS", [i, k])
            B[vi, vk] = T.exp(A[vi, vk] - M[0])


@T.prim_func
def of_every_row(a: T.handle, b: T.handle):
    A, B = T.match_buffer(a, (8, 8)), T.match_buffer(b, (8, 8))
    M = T.alloc_buffer((1,))
    for i, k in T.grid(8, 8):
        with T.sblock("m"):
            vi, vk = T.axis.remap("RR", [i, k])
            with T.init():
                M[0] = T.float32(-1e30)
            M[0] = T.max(M[0], A[vi, vk])
    for i, k in T.grid(8, 8):
        with T.sblock("e"):
            vi, vk = T.axis.remap("SS", [i, k])
            B[vi, vk] = T.exp(A[vk, vi] - M[0])


def test_a_maximum_of_the_whole_buffer_bounds_any_element():
    assert bounds(of_every_row) == 1


@pytest.mark.parametrize(
    "function",
    [
        of_the_last_row,
        of_another_row,
        of_part_of_the_row,
        of_elements_that_change,
        of_a_maximum_that_is_not_finished,
        of_a_condition,
    ],
    ids=lambda one: one.__name__ if hasattr(one, "__name__") else None,
)
def test_exponents_that_may_be_positive_get_no_bound(function):
    assert bounds(function) == 0 and bound_exponents(function) is function


def test_the_least_element_is_no_bound():
    assert bound_exponents(of_the_least) is of_the_least

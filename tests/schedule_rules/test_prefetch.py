"""Loops along memory fetch ahead where the machine's own prefetchers are late."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import te, topi
from tilesmith.schedule_rules import default_schedule
from tilesmith.schedule_rules.prefetch import PREFETCH_BYTES
from tilesmith.support.errors import OutOfBoundsError
from tilesmith.target import Target
from tilesmith.tir import For
from tilesmith.tir.queries import statements
from tilesmith.tir.transform.loops.prefetch_rows import PREFETCH_ROWS

ZEN, CASCADE = "llvm -mcpu=znver5 -num-cores=1", "llvm -mcpu=cascadelake -num-cores=1"


def made(shape, operator, target=ZEN):
    x = te.placeholder(shape, name="x")
    function = te.create_prim_func([x, operator(x)], index_dtype_override="int64")
    return default_schedule(function, Target(target))


def distances(function, name=PREFETCH_BYTES):
    loops = [one for one in statements(function.body) if isinstance(one, For)]
    found = [one.annotations.get(name) for one in loops]
    return [int(one) for one in found if one is not None]


def row_sums(x):
    return topi.sum(x, 1)


@pytest.mark.parametrize(
    ("shape", "operator", "target", "expected"),
    [
        ((64, 1024), row_sums, ZEN, [1536]),
        ((1024, 1024), row_sums, ZEN, [4096]),  # comes from L3
        ((16384, 4096), row_sums, ZEN, [1536]),
        ((64, 1024), topi.nn.softmax, ZEN, [1536]),  # only its first step
        ((1024, 1024), topi.exp, ZEN, [4096]),
        ((64, 1024), topi.exp, ZEN, []),
        ((16384, 4096), topi.exp, ZEN, []),
        ((1024, 1024), row_sums, CASCADE, []),
        ((1024, 1024), topi.exp, CASCADE, []),
    ],
)
def test_distances(shape, operator, target, expected):
    assert distances(made(shape, operator, target)) == expected


@pytest.mark.parametrize("operator", [row_sums, topi.nn.softmax])
def test_what_lies_behind_the_data_does_no_harm(operator):
    x = np.random.default_rng(0).standard_normal((13, 197)).astype("float32")
    function = made(x.shape, operator)
    assert distances(function)
    module = ts.build(function, target="llvm")
    assert "call void @llvm.prefetch" in module.get_source("ll")
    shape = (13,) if operator is row_sums else x.shape
    out = ts.nd.array(np.zeros(shape, "float32"))
    module["main"](ts.nd.array(x), out)
    powers = np.exp(x - x.max(1, keepdims=True))
    expected = x.sum(1) if operator is row_sums else powers / powers.sum(1, keepdims=True)
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-4, atol=1e-6)


def take(rows, columns, count, target=ZEN, then=lambda x: x):
    table = te.placeholder((rows, columns), name="table")
    places = te.placeholder((count,), "int64", name="places")
    result = then(topi.take(table, places, 0, mode="fast"))
    function = te.create_prim_func([table, places, result], index_dtype_override="int64")
    return default_schedule(function, Target(target))


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (take(30000, 768, 9), 4096),
        (take(1000, 768, ts.tir.Var("n", "int64")), 4096),  # the table is in L3
        (take(300, 50, 9, then=topi.tanh), 4096),
        (take(300, 4, 9), None),  # not even a vector
        (take(30000, 768, 9, CASCADE), None),
        (made((300, 64), topi.exp), None),
        (made((300, 64), lambda x: topi.divide(x, topi.sum(x))), None),  # by one number
    ],
)
def test_rows_that_are_looked_up(function, expected):
    loops = [one for one in statements(function.body) if isinstance(one, For)]
    found = [
        int(one.annotations[PREFETCH_ROWS]) for one in loops if PREFETCH_ROWS in one.annotations
    ]
    assert found == ([expected] if expected else [])
    assert expected is None or not distances(function)  # behind a row lies nothing of use


@pytest.mark.parametrize(("columns", "threads"), [(50, 1), (64, 2)])
def test_rows_are_looked_up_as_before(columns, threads):
    target = ZEN.replace("cores=1", f"cores={threads}")
    module = ts.build(take(77, columns, 1003, target), target="llvm")
    assert module.get_source("ll").count("call void @llvm.prefetch") >= 4
    rng = np.random.default_rng(0)
    table = rng.standard_normal((77, columns)).astype("float32")
    places = rng.integers(-77, 77, 1003)
    out = ts.nd.array(np.zeros((1003, columns), "float32"))
    module["main"](ts.nd.array(table), ts.nd.array(places), out)
    np.testing.assert_array_equal(out.numpy(), table[places])
    places[-1] = 1 << 40
    with pytest.raises(OutOfBoundsError, match=f"index {1 << 40} is outside"):
        module["main"](ts.nd.array(table), ts.nd.array(places), out)

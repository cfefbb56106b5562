"""Consumers whose loops are not those of their elements: the rules tile a copy instead."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.schedule_rules import default_schedule
from tilesmith.script import tir as T
from tilesmith.support.fallbacks import collect_fallbacks
from tilesmith.target import Target


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


@T.prim_func
def pooling(A: T.Buffer((1, 10, 12, 16), "float32"), Z: T.Buffer((1, 8, 10, 16), "float32")):
    Y = T.alloc_buffer((1, 8, 10, 16), "float32")
    for n, y, x, c, ry, rx in T.grid(1, 8, 10, 16, 3, 3):
        with T.block("sum"):
            vn, vy, vx, vc, vry, vrx = T.axis.remap("SSSSRR", [n, y, x, c, ry, rx])
            with T.init():
                Y[vn, vy, vx, vc] = T.float32(0)
            Y[vn, vy, vx, vc] = Y[vn, vy, vx, vc] + A[vn, vy + vry, vx + vrx, vc]
    for f in range(1280):
        with T.block("relu"):
            vn = T.axis.spatial(1, 0)
            vy = T.axis.spatial(8, f // 160)
            vx = T.axis.spatial(10, f // 16 % 10)
            vc = T.axis.spatial(16, f % 16)
            Z[vn, vy, vx, vc] = T.max(Y[vn, vy, vx, vc], T.float32(0))


@T.prim_func
def planes(A: T.Buffer((1, 4, 10, 18), "float32"), Z: T.Buffer((1, 4, 8, 16), "float32")):
    Y = T.alloc_buffer((1, 4, 8, 16), "float32")
    for n, c, y, x, ry, rx in T.grid(1, 4, 8, 16, 3, 3):
        with T.block("sum"):
            vn, vc, vy, vx, vry, vrx = T.axis.remap("SSSSRR", [n, c, y, x, ry, rx])
            with T.init():
                Y[vn, vc, vy, vx] = T.float32(0)
            Y[vn, vc, vy, vx] = Y[vn, vc, vy, vx] + A[vn, vc, vy + vry, vx + vrx]
    for f in range(512):
        with T.block("relu"):
            vn = T.axis.spatial(1, 0)
            vc = T.axis.spatial(4, f // 128)
            vy = T.axis.spatial(8, f // 16 % 8)
            vx = T.axis.spatial(16, f % 16)
            Z[vn, vc, vy, vx] = T.max(Y[vn, vc, vy, vx], T.float32(0))


@T.prim_func
def groups(
    A: T.Buffer((6, 64), "float32"),
    W: T.Buffer((2, 32, 32), "float32"),
    Z: T.Buffer((6, 64), "float32"),
):
    Y = T.alloc_buffer((6, 64), "float32")
    for y, o, c in T.grid(6, 64, 32):
        with T.block("sum"):
            vy, vo, vc = T.axis.remap("SSR", [y, o, c])
            with T.init():
                Y[vy, vo] = T.float32(0)
            Y[vy, vo] = Y[vy, vo] + A[vy, vo // 32 * 32 + vc] * W[vo // 32, vc, vo % 32]
    for f in range(384):
        with T.block("relu"):
            vy = T.axis.spatial(6, f // 64)
            vo = T.axis.spatial(64, f % 64)
            Z[vy, vo] = T.max(Y[vy, vo], T.float32(0))


@T.prim_func
def products(
    A: T.Buffer((20, 8), "float32"),
    V: T.Buffer((8, 32), "float32"),
    W: T.Buffer((8, 32), "float32"),
    Z: T.Buffer((20, 32), "float32"),
):
    Y = T.alloc_buffer((20, 32), "float32")
    X = T.alloc_buffer((20, 32), "float32")
    for i, j, k in T.grid(20, 32, 8):
        with T.block("one"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                Y[vi, vj] = T.float32(0)
            Y[vi, vj] = Y[vi, vj] + A[vi, vk] * V[vk, vj]
    for i, j, k in T.grid(20, 32, 8):
        with T.block("two"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                X[vi, vj] = T.float32(0)
            X[vi, vj] = X[vi, vj] + A[vi, vk] * W[vk, vj]
    for i, j in T.grid(20, 32):
        with T.block("both"):
            vi, vj = T.axis.remap("SS", [i, j])
            Z[vi, vj] = Y[vi, vj] * X[vi, vj]


def summed(a, rows, columns, axes):
    """The sums of windows of 3 by 3."""
    parts = []
    for i in range(3):
        for j in range(3):
            place = [slice(None)] * 4
            place[axes[0]], place[axes[1]] = slice(i, i + rows), slice(j, j + columns)
            parts.append(a[tuple(place)])
    return np.maximum(sum(parts), 0)


def in_groups(a, w):
    return np.maximum(np.concatenate([a[:, :32] @ w[0], a[:, 32:] @ w[1]], 1), 0)


CASES = {  # program, shapes, in numpy, how many sums stay in registers
    "windows": (pooling, [(1, 10, 12, 16)], lambda a: summed(a, 8, 10, (1, 2)), 1),
    "planes": (planes, [(1, 4, 10, 18)], lambda a: summed(a, 8, 16, (2, 3)), 1),
    "groups": (groups, [(6, 64), (2, 32, 32)], in_groups, 1),
    "two products": (
        products,
        [(20, 8), (8, 32), (8, 32)],
        lambda a, v, w: (a @ v) * (a @ w),
        2,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_results_are_tiled_under_loops_of_their_own(name):
    function, shapes, in_numpy, sums = CASES[name]
    with collect_fallbacks() as report:
        made = default_schedule(function, Target("llvm -num-cores=2"))
    assert not [one for one, _ in report.rows() if one.kind == "schedule"]
    local = [line for line in made.script().splitlines() if 'scope="local"' in line]
    assert len([line for line in local if "alloc_buffer" in line]) == sums
    inputs = [random(*shape, seed=k) for k, shape in enumerate(shapes)]
    want = in_numpy(*inputs)
    out = ts.nd.array(np.full(want.shape, np.nan, "float32"))
    ts.build(made, target="llvm")(*[ts.nd.array(one) for one in inputs], out)
    np.testing.assert_allclose(out.numpy(), want, rtol=1e-4, atol=1e-4)


def test_a_machine_whose_first_cache_has_less_than_a_line_for_each_way():
    """Found by the fuzzer of rules, which draws the figures of machines."""
    target = Target("llvm -machine=l1_bytes:256,l1_ways:8")
    made = default_schedule(products, target)
    assert len([line for line in made.script().splitlines() if 'scope="local"' in line])

"""Loops along memory fetch ahead where the machine's own prefetchers are late."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import te, topi
from tilesmith.schedule_rules import default_schedule
from tilesmith.schedule_rules.prefetch import PREFETCH_BYTES
from tilesmith.target import Target
from tilesmith.tir import For
from tilesmith.tir.queries import statements

ZEN, CASCADE = "llvm -mcpu=znver5 -num-cores=1", "llvm -mcpu=cascadelake -num-cores=1"


def made(shape, operator, target=ZEN):
    x = te.placeholder(shape, name="x")
    function = te.create_prim_func([x, operator(x)], index_dtype_override="int64")
    return default_schedule(function, Target(target))


def distances(function):
    loops = [one for one in statements(function.body) if isinstance(one, For)]
    found = [one.annotations.get(PREFETCH_BYTES) for one in loops]
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

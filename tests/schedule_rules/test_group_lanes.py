"""Convolutions in narrow groups: groups side by side in vectors, their results, the code for it."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith as ts
from tests.schedule_rules.test_grouped import convolved, model, random
from tilesmith import relax, te, topi
from tilesmith.relax.transform.grouped_weights import lanes_of_groups
from tilesmith.schedule_rules import default_schedule
from tilesmith.schedule_rules.windows.group_lanes import (
    best_rows_of_groups,
    find_group_lanes,
    fit_in_lanes,
)
from tilesmith.support.fallbacks import collect_fallbacks
from tilesmith.target import Target
from tilesmith.target.host import host_cpu
from tilesmith.target.machine import machine_model
from tilesmith.tir.schedule import Schedule

AVX512, AVX2 = "llvm -mcpu=znver5 -num-cores=1", "llvm -mcpu=haswell -num-cores=1"

CASES = [
    # shape, groups, kernel, strides, padding, dilation
    ((1, 32, 9, 7), 4, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    ((1, 24, 8, 31), 3, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),  # half a vector at the end
    ((2, 36, 5, 17), 9, (3, 2), (2, 1), (0, 1, 2, 1), (1, 2)),  # a quarter of a vector
    ((1, 34, 6, 3), 17, (1, 5), (1, 3), (0, 2, 0, 2), (1, 1)),  # groups of two, one row of taps
    ((2, 16, 1, 15), 2, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1)),  # single pixels
    ((1, 12, 5, 6), 3, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),  # too few channels for a vector
]


def check(target, shape, groups, kernel, strides, padding, dilation):
    channels = shape[1]
    x, bias = random(*shape), random(channels, 1, 1)
    weight = random(channels, channels // groups, *kernel, seed=1)
    options = groups, strides, padding, dilation
    with collect_fallbacks() as report:
        built = relax.build(model(shape, weight, bias, *options), target)
    assert not [one for one, _ in report.rows() if one.kind in ("packing", "schedule")]
    want = np.maximum(convolved(x, weight, *options) + bias, 0)
    np.testing.assert_allclose(built(ts.nd.array(x)).numpy(), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("case", CASES)
def test_narrow_groups(case):
    check("llvm", *case)


@pytest.mark.skipif("avx2" not in host_cpu().features, reason="the code needs AVX2")
@pytest.mark.parametrize("case", [CASES[2], CASES[3]])
def test_narrow_groups_with_short_vectors(case):
    check(AVX2, *case)


def test_narrow_groups_of_symbolic_sizes():
    n, h, w = (te.var(name, "int64") for name in "nhw")
    weight, bias = random(24, 8, 3, 3, seed=1), random(24, 1, 1)
    options = 3, (1, 1), (1, 1, 1, 1), (1, 1)
    built = relax.build(model((n, 24, h, w), weight, bias, *options), "llvm")
    for shape in [(1, 24, 5, 7), (2, 24, 1, 20)]:
        x = random(*shape)
        want = np.maximum(convolved(x, weight, *options) + bias, 0)
        np.testing.assert_allclose(built(ts.nd.array(x)).numpy(), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "inputs, outputs, groups, lanes, fits",
    [
        (8, 8, 13, 16, True), (4, 4, 32, 16, True), (4, 4, 3, 16, False), (8, 8, 2, 8, False),
        (8, 16, 4, 16, False), (16, 16, 4, 16, False), (1, 1, 32, 16, False), (3, 3, 16, 16, False),
    ],
)  # fmt: skip
def test_which_groups_fit(inputs, outputs, groups, lanes, fits):
    assert fit_in_lanes(inputs, outputs, groups, lanes) == fits


def test_weights_of_lanes():
    weight = random(24, 8, 3, 2)
    packed = lanes_of_groups(weight, 3, machine_model(Target(AVX512)))
    np.testing.assert_array_equal(packed.data.numpy(), weight.transpose(2, 1, 3, 0))
    without = machine_model(Target("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1"))
    assert lanes_of_groups(weight, 3, without) is None


def kernel(strides=(1, 1)):
    x = te.placeholder((1, 9, 16, 24), name="x")
    w = te.placeholder((3, 8, 3, 24), name="w")
    made = topi.nn.grouped_conv2d_nhwc_lanes(x, w, [*strides], [1, 1, 1, 1], [1, 1])
    return te.create_prim_func([x, w, made])


def test_the_plan():
    sch = Schedule(kernel((1, 2)))
    plan = find_group_lanes(sch.get(sch.get_block("grouped_conv2d_nhwc_lanes")), 16)
    assert (plan.group, plan.row_axis, plan.taps, plan.stride) == (8, 2, 3, 2)
    assert find_group_lanes(sch.get(sch.get_block("pad_temp")), 16) is None


@pytest.mark.parametrize("strides", [(1, 1), (1, 2)])
def test_rows_leave_registers_for_taps(strides):
    sch = Schedule(kernel(strides))
    plan = find_group_lanes(sch.get(sch.get_block("grouped_conv2d_nhwc_lanes")), 16)
    machine = machine_model(Target(AVX512))
    for extent in (None, 1, 7, 28, 56, 100):
        rows = best_rows_of_groups(extent, plan, machine)
        assert 1 <= rows <= min(extent or rows, 28)
    assert best_rows_of_groups(28, plan, machine) in (7, 14)


@pytest.mark.parametrize(
    "target, instruction", [(AVX512, "permvar.sf.512"), (AVX2, "avx2.permps")]
)  # fmt: skip
def test_lanes_are_picked_by_one_instruction(target, instruction):
    if target == AVX2:
        x, w = te.placeholder((1, 9, 16, 24), name="x"), te.placeholder((3, 4, 3, 24), name="w")
        made = topi.nn.grouped_conv2d_nhwc_lanes(x, w, [1, 1], [1, 1, 1, 1], [1, 1])
        function = te.create_prim_func([x, w, made])
    else:
        function = kernel()
    scheduled = default_schedule(function, Target(target))
    text = ts.build(scheduled, target=target).get_source("ll")
    assert instruction in text and "masked.gather" not in text

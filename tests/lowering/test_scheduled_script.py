"""Scheduled programs: what a schedule makes of a program is compiled to the same results."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilesmith as ts
from tests.tir.transform.harness import arrays_for, assert_same, module, outputs
from tests.tir.transform.programs_script import matmul, padded_convolution, softmax
from tilesmith.lowering import build, lower_passes
from tilesmith.support.errors import ScheduleError
from tilesmith.tir import Schedule


def check(before, scheduled, stages=True):
    """The scheduled function computes the same after each pass, and compiled."""
    arrays = arrays_for(before)
    want = outputs(before, arrays)
    (func,) = scheduled.functions.values()
    name = str(func.attrs["global_symbol"])
    if stages:
        mod = module(func)
        for step in lower_passes():
            new = step(mod)
            if new[name] is not mod[name]:
                assert_same(outputs(new[name], arrays), want, f"after {step.info.name}")
            mod = new
    given_arrays = [ts.nd.array(array) for array in arrays]
    build(func)(*given_arrays)
    assert_same([array.numpy() for array in given_arrays], want, "compiled")


def tiled_matmul(schedule):
    block = schedule.get_block("C")
    i, j, k = schedule.get_loops(block)
    i0, i1 = schedule.split(i, [None, 2])
    j0, j1 = schedule.split(j, [None, 4])
    k0, k1 = schedule.split(k, [None, 3])
    schedule.reorder(i0, j0, k0, k1, i1, j1)
    local = schedule.cache_write(block, 0, "local")
    schedule.reverse_compute_at(local, j0)
    schedule.vectorize(j1)
    schedule.unroll(i1)
    schedule.parallel(schedule.fuse(i0, j0))
    schedule.decompose_reduction(block, k0)


def cached_inputs(schedule):
    block = schedule.get_block("C")
    i, j, k = schedule.get_loops(block)
    j0, j1 = schedule.split(j, [None, 3])
    k0, k1 = schedule.split(k, [None, 4])
    schedule.reorder(j0, k0, i, k1, j1)
    packed = schedule.cache_read(block, 1, "global")
    schedule.compute_at(packed, k0)
    schedule.storage_align(packed, 0, axis=0, factor=8, offset=1)
    rows = schedule.cache_read(block, 0, "local")
    schedule.compute_at(rows, i)


def partial_sums(schedule):
    block = schedule.get_block("C")
    i, j, k = schedule.get_loops(block)
    k0, k1 = schedule.split(k, [None, 3])
    partial = schedule.rfactor(k0, 0)
    schedule.vectorize(schedule.get_loops(partial)[1])


@pytest.mark.parametrize("steps", [tiled_matmul, cached_inputs, partial_sums])
def test_matmul(steps):
    schedule = Schedule(matmul)
    steps(schedule)
    check(matmul, schedule.mod)


def inlined_padding(schedule):
    schedule.compute_inline(schedule.get_block("P"))


def padding_per_row(schedule):
    block = schedule.get_block("C")
    n, o, h, w, c, y, x = schedule.get_loops(block)
    schedule.reorder(n, h, o, w, c, y, x)
    w0, w1 = schedule.split(w, [None, 4])
    schedule.reorder(w0, c, y, x, w1)
    schedule.vectorize(w1)
    schedule.parallel(h)  # each row has a padded input of its own
    schedule.compute_at(schedule.get_block("P"), h)


@pytest.mark.parametrize("steps", [inlined_padding, padding_per_row])
def test_convolution(steps):
    schedule = Schedule(padded_convolution)
    steps(schedule)
    check(padded_convolution, schedule.mod)


def test_softmax_in_rows():
    schedule = Schedule(softmax)
    last = schedule.get_block("B")
    row = schedule.get_loops(last)[0]
    for name in ("S", "E", "M"):
        schedule.compute_at(schedule.get_block(name), row)
    schedule.vectorize(
        schedule.split(schedule.get_loops(schedule.get_block("E"))[-1], [None, 8])[1]
    )
    schedule.vectorize(schedule.split(schedule.get_loops(last)[-1], [None, 8])[1])
    schedule.parallel(row)
    check(softmax, schedule.mod)


@st.composite
def random_tilings(draw):
    """Splits, orders and marks of the loops of the matmul, some of them refused."""
    return {
        "factors": [draw(st.integers(1, 9)) for _ in range(3)],
        "order": draw(st.permutations(range(6))),
        "marks": [
            draw(st.sampled_from(["", "", "vectorize", "unroll", "parallel"])) for _ in range(6)
        ],
        "cache": draw(st.sampled_from([None, "global", "local"])),
        "place": draw(st.integers(0, 5)),
    }


@settings(max_examples=25)
@given(random_tilings())
def test_random_tilings(choice):
    schedule = Schedule(matmul)
    block = schedule.get_block("C")
    halves = []
    for loop, factor in zip(schedule.get_loops(block), choice["factors"]):
        halves += schedule.split(loop, [None, factor])
    loops = [halves[number] for number in choice["order"]]
    schedule.reorder(*loops)
    attempts = []
    if choice["cache"]:
        attempts.append(
            lambda: schedule.reverse_compute_at(
                schedule.cache_write(block, 0, choice["cache"]), loops[choice["place"]]
            )
        )
    for loop, mark in zip(loops, choice["marks"]):
        if mark:
            attempts.append(lambda loop=loop, mark=mark: getattr(schedule, mark)(loop))
    for attempt in attempts:
        try:
            attempt()
        except ScheduleError:  # not every choice is legal
            continue
    check(matmul, schedule.mod, stages=False)
    before = arrays_for(matmul)
    (func,) = schedule.mod.functions.values()
    np.testing.assert_allclose(outputs(func, before)[2], outputs(matmul, before)[2], rtol=1e-5)

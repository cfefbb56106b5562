"""Narrow iterators of fused loops: digits of an iterator with more steps than their type counts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilesmith
from tests.arith.meaning import meaning
from tests.tir.schedule.harness import check, schedule_of
from tilesmith import te
from tilesmith.ir import assert_structural_equal, const
from tilesmith.schedule_rules.default_gpu_schedule import default_gpu_schedule
from tilesmith.script import tir as T
from tilesmith.target import Target
from tilesmith.tir import Schedule

SIZES = {"n": 5}


@T.prim_func
def rows(xh: T.handle, yh: T.handle):
    T.func_attr({"global_symbol": "main"})
    n = T.int64()
    x = T.match_buffer(xh, (n, 37), "float32")
    y = T.match_buffer(yh, (n, 37), "float32")
    for i in range(n):
        for j in range(37):
            with T.block("row"):
                vi, vj = T.axis.remap("SS", [i, j])
                y[vi, vj] = x[vi, vj] + T.float32(1)


def fused(sch, order=(0, 1)):
    """The loops of the only block, in some order and as one."""
    (block,) = sch.get_child_blocks(sch.get_block("root"))
    loops = sch.get_loops(block)
    sch.reorder(*[loops[place] for place in order])
    return sch.fuse(*sch.get_loops(block))


def test_the_low_digit_is_taken_before_it_is_cast():
    @T.prim_func
    def expected(xh: T.handle, yh: T.handle):
        n = T.int64()
        x = T.match_buffer(xh, (n, 37), "float32")
        y = T.match_buffer(yh, (n, 37), "float32")
        for i_j in range(n * T.int64(37)):
            with T.block("row"):
                vi = T.axis.spatial(n, i_j // T.int64(37))
                vj = T.axis.spatial(37, T.Cast("int32", i_j % T.int64(37)))
                y[vi, vj] = x[vi, vj] + T.float32(1)

    check(rows, fused, expected, SIZES)


def test_a_high_digit_is_taken_before_it_is_cast():
    @T.prim_func
    def expected(xh: T.handle, yh: T.handle):
        n = T.int64()
        x = T.match_buffer(xh, (n, 37), "float32")
        y = T.match_buffer(yh, (n, 37), "float32")
        for j_i in range(n * T.int64(37)):
            with T.block("row"):
                vi = T.axis.spatial(n, j_i % n)
                vj = T.axis.spatial(37, T.Cast("int32", j_i // n))
                y[vi, vj] = x[vi, vj] + T.float32(1)

    check(rows, lambda sch: fused(sch, (1, 0)), expected, SIZES)


def test_later_steps_keep_the_wide_digit():
    @T.prim_func
    def expected(xh: T.handle, yh: T.handle):
        n = T.int64()
        x = T.match_buffer(xh, (n, 37), "float32")
        y = T.match_buffer(yh, (n, 37), "float32")
        for o, i, u in T.grid((n * T.int64(37) + T.int64(7)) // T.int64(8), T.int64(4), T.int64(2)):
            with T.block("row"):
                vi = T.axis.spatial(n, (o * T.int64(8) + i * T.int64(2) + u) // T.int64(37))
                vj = T.axis.spatial(
                    37, T.Cast("int32", (o * T.int64(8) + i * T.int64(2) + u) % T.int64(37))
                )
                T.where(o * T.int64(8) + (i * T.int64(2) + u) < n * T.int64(37))
                y[vi, vj] = x[vi, vj] + T.float32(1)

    def steps(sch):
        _, inner = sch.split(fused(sch), [None, 8])
        sch.split(inner, [None, 2])

    check(rows, steps, expected, SIZES)


@T.prim_func
def three(
    x: T.Buffer((T.int64(1 << 20), 3, 4096), "float32"),
    y: T.Buffer((T.int64(1 << 20), 3, 4096), "float32"),
):
    for i, h, k in T.grid(T.int64(1 << 20), 3, 4096):
        with T.block("three"):
            vi, vh, vk = T.axis.remap("SSS", [i, h, k])
            y[vi, vh, vk] = x[vi, vh, vk] + T.float32(1)


def test_digits_of_long_constant_loops():
    sch = schedule_of(three)
    sch.split(fused(sch), [None, 256])
    (block,) = sch.get_child_blocks(sch.get_block("root"))
    realize = sch.cursor(block).stmt
    outer, inner = [sch.get(loop).loop_var for loop in sch.get_loops(block)]
    step = 2_500_000_000 * 5 + 77
    found = [meaning(one, {outer: step // 256, inner: step % 256}) for one in realize.iter_values]
    assert found == [step // 12288, step // 4096 % 3, step % 4096]


# Any steps


class Loops:
    """A nest over mixed widths, and what its first iterators are in terms of its loops now."""

    def __init__(self, draw):
        self.draw = draw
        self.sizes = {}
        extents = self._extents()
        body = te.placeholder(extents, "float32", "x")
        result = te.compute(extents, lambda *axes: body[axes] + 1.0, "y")
        self.sch = Schedule(te.create_prim_func([body, result]))
        self.block = self.sch.get_block("y")
        self.first = [self.loop_var(loop) for loop in self.loops()]
        self.steps = []  # each finds the loops before it, and whether they run there

    def _extents(self):
        """One open size of 64 bits, a loop of 32 bits, and others, in any order."""
        count = self.draw(st.integers(2, 4))
        kinds = [("int64", True), ("int32", self.draw(st.booleans()))]
        for _ in range(count - 2):
            kinds.append((self.draw(st.sampled_from(["int32", "int64"])), self.draw(st.booleans())))
        extents = []
        for place, (dtype, is_open) in enumerate(kinds):
            value = self.draw(st.sampled_from([1, 3, 7, 8, 10, 37]))
            if place == 0:
                value = (1 << 31) + value * self.draw(st.integers(-(1 << 27), 1 << 30))
            size = te.var(f"n{place}", dtype) if is_open else const(value, dtype)
            if is_open:
                self.sizes[size] = value
            extents.append(size)
        return self.draw(st.permutations(extents))

    def loops(self):
        return self.sch.get_loops(self.block)

    def loop_var(self, loop):
        return self.sch.get(loop).loop_var

    def extent(self, loop):
        return meaning(self.sch.get(loop).extent, self.sizes)

    def fuse(self):
        loops = self.loops()
        start = self.draw(st.integers(0, len(loops) - 1))
        parts = loops[start : start + self.draw(st.integers(2, 4))]
        variables = [self.loop_var(one) for one in parts]
        extents = [self.extent(one) for one in parts]
        whole = self.loop_var(self.sch.fuse(*parts))

        def values(env):
            left = env[whole]
            for variable, extent in list(zip(variables, extents))[:0:-1]:
                left, env[variable] = divmod(left, extent)
            env[variables[0]] = left
            return True

        self.steps.append(values)

    def split(self):
        loops = self.loops()
        loop = loops[self.draw(st.integers(0, len(loops) - 1))]
        before, extent = self.loop_var(loop), self.extent(loop)
        factor = self.draw(st.sampled_from([1, 2, 3, 5, 8]))
        high, low = [self.loop_var(one) for one in self.sch.split(loop, [None, factor])]

        def values(env):
            env[before] = env[high] * factor + env[low]
            return env[before] < extent

        self.steps.append(values)

    def reorder(self):
        self.sch.reorder(*self.draw(st.permutations(self.loops())))

    def check(self, place):
        """The iterators of the block at some iterations, computed exactly as machines do."""
        realize = self.sch.cursor(self.block).stmt
        env = dict(self.sizes)
        for loop in self.loops():
            env[self.loop_var(loop)] = place(self.extent(loop))
        whole = dict(env)
        is_inside = False not in [step(whole) for step in self.steps[::-1]]
        expected = [whole[variable] for variable in self.first]
        assert bool(meaning(realize.predicate, env)) == is_inside
        if is_inside:
            assert [meaning(one, env) for one in realize.iter_values] == expected


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_steps_keep_the_digits(data):
    nest = Loops(data.draw)
    for step in data.draw(
        st.lists(st.sampled_from(["fuse", "split", "reorder"]), min_size=1, max_size=5)
    ):
        getattr(nest, step)()
        nest.check(lambda extent: extent - 1 - extent // 4)  # inside of most domains
    for _ in range(4):
        nest.check(lambda extent: data.draw(st.integers(0, extent - 1)))
    nest.check(lambda extent: extent - 1)


# Threads


def on_threads(sch, order):
    outer, inner = sch.split(fused(sch, order), [None, 64])
    sch.bind(outer, "blockIdx.x")
    sch.bind(inner, "threadIdx.x")


X = np.random.default_rng(0).random((5, 37), dtype="float32")


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("kind", ["cuda", "opencl"])
def test_loops_of_both_widths_are_bound_to_threads(order, kind):
    sch = schedule_of(rows)
    on_threads(sch, order)
    built = tilesmith.build(sch.mod, target=Target(kind, host="llvm"))
    source = built.imported_modules[0].get_source()
    assert "(int)cse_var" not in source and "(int)(" not in source  # no iterator is cut
    device = tilesmith.device(kind)
    if kind == "opencl" and device.exist:
        result = tilesmith.nd.array(np.zeros_like(X), device)
        built["main"](tilesmith.nd.array(X, device), result)
        np.testing.assert_array_equal(result.numpy(), X + 1)


def test_default_schedules_bind_loops_of_both_widths():
    @T.prim_func
    def expected(xh: T.handle, yh: T.handle):
        n = T.int64()
        x = T.match_buffer(xh, (n, 37), "float32")
        y = T.match_buffer(yh, (n, 37), "float32")
        for o in T.thread_binding((n * T.int64(37) + T.int64(63)) // T.int64(64), "blockIdx.x"):
            for i in T.thread_binding(T.int64(64), "threadIdx.x"):
                with T.block("row"):
                    vi = T.axis.spatial(n, (o * T.int64(64) + i) // T.int64(37))
                    vj = T.axis.spatial(37, T.Cast("int32", (o * T.int64(64) + i) % T.int64(37)))
                    T.where(o * T.int64(64) + i < n * T.int64(37))
                    y[vi, vj] = x[vi, vj] + T.float32(1)

    function = default_gpu_schedule(rows, 64)
    assert_structural_equal(function.body, expected.body, map_free_vars=True)

"""te.scan: its checks, in classic schedules, and as a PrimFunc."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith
from tilesmith import te, tir
from tilesmith.support.errors import (
    OutOfBoundsError,
    ScheduleError,
    ShapeError,
    TypeMismatchError,
    UnsupportedError,
)
from tilesmith.tir import interpreter


class Sums:
    """Running sums over the rows of X."""

    def __init__(self, rows=5, columns=7):
        self.X = te.placeholder((rows, columns), name="X")
        self.state = te.placeholder((rows, columns), name="state")
        self.init = te.compute((1, columns), lambda _, i: self.X[0, i], name="init")
        self.update = te.compute(
            (rows, columns), lambda t, i: self.state[t - 1, i] + self.X[t, i], name="update"
        )
        self.out = te.scan(self.init, self.update, self.state, inputs=[self.X])


class Cell:
    """Two states, with a stage of its own in the update; the results are used afterwards."""

    def __init__(self, rows=6, columns=5):
        self.X = X = te.placeholder((rows, columns), name="X")
        shape = (rows, columns)
        a, b = te.placeholder(shape, name="a"), te.placeholder(shape, name="b")
        first = te.compute((2, columns), lambda t, i: X[t, i], name="first")
        zero = te.compute((2, columns), lambda t, i: te.const(0.0, "float32"), name="zero")
        self.half = te.compute(shape, lambda t, i: a[t - 2, i] * 0.5, name="half")
        self.next_a = te.compute(shape, lambda t, i: self.half[t, i] + X[t, i], name="next_a")
        self.next_b = te.compute(
            shape, lambda t, i: b[t - 1, columns - 1 - i] + self.next_a[t, i], name="next_b"
        )
        self.scan = te.scan([first, zero], [self.next_a, self.next_b], [a, b], inputs=[X])
        self.out = te.compute(shape, lambda t, i: self.scan[0][t, i] * self.scan[1][t, i])

    @staticmethod
    def expected(x):
        a, b = np.zeros_like(x), np.zeros_like(x)
        a[:2] = x[:2]
        for t in range(2, len(x)):
            a[t] = a[t - 2] * 0.5 + x[t]
            b[t] = b[t - 1][::-1] + a[t]
        return a * b


def interpreted(program, *arrays, shape=None):
    out = np.zeros(shape or arrays[0].shape, "float32")
    interpreter.run(program, *arrays, out)
    return out


def lowered(schedule, args):
    return tilesmith.lower(schedule, args, simple_mode=True)["main"]


def random(rows, columns):
    return np.random.default_rng(0).random((rows, columns), dtype="float32")


def test_the_loops_of_a_scan():
    p = Sums()
    text = str(lowered(te.create_schedule(p.out.op), [p.X, p.out]))
    assert "for scan_idx, i in T.grid(4, 7):" in text
    assert "scan_1[scan_idx * 7 + i + 7] = scan_1[scan_idx * 7 + i] + X_1[" in text
    x = random(5, 7)
    function = tilesmith.build(te.create_schedule(p.out.op), [p.X, p.out], target="llvm")
    out = tilesmith.nd.array(np.zeros_like(x))
    function(tilesmith.nd.array(x), out)
    np.testing.assert_allclose(out.numpy(), np.cumsum(x, 0), rtol=1e-5)


def split_update(p, s):
    outer, inner = s[p.next_a].split(p.next_a.op.axis[1], 3)
    s[p.next_a].vectorize(inner)
    s[p.half].compute_at(s[p.next_a], outer)


def parallel_rows(p, s):
    s[p.next_b].parallel(p.next_b.op.axis[1])


def inlined(p, s):
    s[p.half].compute_inline()


def cached(p, s):
    copy = s.cache_read(p.X, "global", [p.next_a])
    s[copy].compute_at(s[p.next_a], p.next_a.op.axis[0])


@pytest.mark.parametrize("schedule", [None, split_update, parallel_rows, inlined, cached])
@pytest.mark.parametrize("rows", [2, 6])
def test_states_and_stages(schedule, rows):
    p = Cell(rows)
    s = te.create_schedule(p.out.op)
    if schedule is not None:
        schedule(p, s)
    x = random(rows, 5)
    found = interpreted(lowered(s, [p.X, p.out]), x)
    np.testing.assert_allclose(found, Cell.expected(x), rtol=1e-5)


def test_symbolic_time():
    p = Sums(te.var("m"), 4)
    x = random(9, 4)
    for program in (
        lowered(te.create_schedule(p.out.op), [p.X, p.out]),
        te.create_prim_func([p.X, p.out]),
        te.create_prim_func([p.X, p.out], index_dtype_override="int64"),
    ):
        np.testing.assert_allclose(interpreted(program, x), np.cumsum(x, 0), rtol=1e-5)


def test_threads_around_a_scan():
    p = Cell()
    s = te.create_schedule(p.out.op)
    block, thread = te.thread_axis((0, 1), "blockIdx.x"), te.thread_axis((0, 5), "threadIdx.x")
    s[p.scan[0]].env_threads([block, thread])
    for stage in (*p.scan[0].op.init, p.next_a, p.next_b):
        s[stage].bind(stage.op.axis[1], thread)
    text = str(lowered(s, [p.X, p.out]))
    assert text.index("launch_thread") < text.index("for scan_idx")
    assert text.count('launch_thread("threadIdx.x"') == 1


def test_a_prim_func_keeps_the_order_of_time():
    p = Cell()
    func = te.create_prim_func([p.X, p.out])
    x = random(6, 5)
    np.testing.assert_allclose(interpreted(func, x), Cell.expected(x), rtol=1e-5)
    schedule = tir.Schedule(func)
    time = schedule.get_loops("next_a")[0]
    for primitive in (schedule.parallel, schedule.vectorize):
        with pytest.raises(ScheduleError, match="must keep its order"):
            primitive(time)
    schedule.unroll(schedule.split(schedule.get_loops("next_b")[1], [None, 2])[1])
    np.testing.assert_allclose(interpreted(schedule.mod["main"], x), Cell.expected(x), rtol=1e-5)


def reversed_time():
    """An update with a part of which it reads all rows."""
    X, state = te.placeholder((4, 3), name="X"), te.placeholder((4, 3), name="state")
    init = te.compute((1, 3), lambda _, i: X[0, i])
    k = te.reduce_axis((0, 3), name="k")
    total = te.compute((4,), lambda t: te.sum(state[t - 1, k], axis=k), name="total")
    update = te.compute((4, 3), lambda t, i: total[t] + X[t, i], name="update")
    return X, total, te.scan(init, update, state, inputs=[X])


def test_a_reduction_inside_of_the_update():
    X, _, out = reversed_time()
    x = random(4, 3)
    expected = x.copy()
    for t in range(1, 4):
        expected[t] += expected[t - 1].sum()
    schedule = te.create_schedule(out.op)
    for program in (lowered(schedule, [X, out]), te.create_prim_func([X, out])):
        np.testing.assert_allclose(interpreted(program, x), expected, rtol=1e-5)


def row_before():
    X, state = te.placeholder((4, 3), name="X"), te.placeholder((4, 3), name="state")
    init = te.compute((1, 3), lambda _, i: X[0, i])
    before = te.compute((4, 3), lambda t, i: state[t - 1, i], name="before")
    update = te.compute((4, 3), lambda t, i: before[t, i] + before[t // 2, i], name="update")
    return X, te.scan(init, update, state)


P = Sums()
N = te.placeholder((5, 8), name="N")
WHOLE = te.placeholder((5, 7), "int32", name="I")
REFUSED = [
    (ShapeError, "1 init, 2 update", lambda: te.scan(P.init, [P.update] * 2, P.state)),
    (TypeMismatchError, "is a tensor or a list", lambda: te.scan(3, P.update, P.state)),
    (TypeMismatchError, "it stands for the result", lambda: te.scan(P.init, P.update, P.update)),
    (ShapeError, "axis 1 of init", lambda: te.scan(P.init, N, N)),
    (TypeMismatchError, "state is int32", lambda: te.scan(P.init, P.update, WHOLE)),
    (TypeMismatchError, "is an input", lambda: te.scan(P.X, P.update, P.state)),
    (ShapeError, "has 1 rows?|has 6 rows", lambda: te.scan(
        te.compute((6, 7), lambda t, i: P.X[0, i]), P.update, P.state)),
    (OutOfBoundsError, "updated", lambda: te.scan(P.init, te.compute(
        (5, 7), lambda t, i: P.state[t - 2, i]), P.state)),
    (ScheduleError, "reads row t of the state", lambda: te.scan(P.init, te.compute(
        (5, 7), lambda t, i: P.state[t, i]), P.state)),
    (OutOfBoundsError, "outside of its axis 0", lambda: te.create_prim_func([P.state, P.update])),
    (OutOfBoundsError, "outside of its axis 0", lambda: te.create_schedule(P.update.op)),
    (ScheduleError, "reads 'init', the init of scan", lambda: te.create_schedule(
        te.compute((7,), lambda i: P.init[0, i] + P.out[0, i]).op)),
    (TypeMismatchError, "is no argument", lambda: te.create_prim_func([P.X, P.init, P.out])),
    (UnsupportedError, "does not go along", lambda: te.create_prim_func(row_before())),
    (ScheduleError, "the update of a scan is computed inside", lambda: te.create_schedule(
        P.out.op)[P.update].compute_root()),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "message", "make"), REFUSED)
def test_refusals(kind, message, make):
    with pytest.raises(kind, match=message) as caught:
        make()
    assert caught.value.place.file == __file__


def test_time_is_not_parallel():
    s = te.create_schedule(P.out.op)
    s[P.out].parallel(P.out.op.scan_axis)
    with pytest.raises(ScheduleError, match="runs in the order of the time"):
        tilesmith.lower(s, [P.X, P.out])

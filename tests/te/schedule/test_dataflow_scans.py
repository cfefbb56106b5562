"""Caches, factored reductions and inlined stages inside of scans."""

import numpy as np
import pytest

from tests.te.schedule.programs import check, rng
from tilesmith import te
from tilesmith.support.errors import ScheduleError

m, n = 6, 5


def running_sums():
    """state[t] = (state[t - 1] + X[t]) by way of a stage; and twice the result."""
    X = te.placeholder((m, n), name="X")
    state = te.placeholder((m, n), name="state")
    init = te.compute((1, n), lambda _, i: X[0, i], name="init")
    moved = te.compute((m, n), lambda t, i: X[t, i] * 2.0, name="moved")
    update = te.compute((m, n), lambda t, i: state[t - 1, i] + moved[t, i], name="update")
    scan = te.scan(init, update, state, inputs=[X])
    D = te.compute((m, n), lambda t, i: scan[t, i] * 2.0, name="D")
    x = rng.random((m, n), dtype="float32")
    wanted = 2 * (x[0] + np.concatenate([np.zeros((1, n)), 2 * x[1:].cumsum(0)]))
    return (X, state, init, moved, update, scan, D), te.create_schedule(D.op), x, wanted


def plain(s, X, state, init, moved, update, scan, D):
    pass


def inlined(s, X, state, init, moved, update, scan, D):
    s[moved].compute_inline()


def written(s, X, state, init, moved, update, scan, D):
    cache = s.cache_write(update, "local")
    s[cache].split(cache.op.axis[1], 2)


def read_state(s, X, state, init, moved, update, scan, D):
    copy = s.cache_read(state, "local", [update])
    s[copy].compute_at(s[update], update.op.axis[1])


def read_input(s, X, state, init, moved, update, scan, D):
    copy = s.cache_read(X, "local", [moved])
    s[copy].compute_at(s[moved], moved.op.axis[1])
    s[moved].compute_at(s[update], update.op.axis[1])


def written_init(s, X, state, init, moved, update, scan, D):
    s.cache_write(init, "local")


def read_result(s, X, state, init, moved, update, scan, D):
    copy = s.cache_read(scan, "local", [D])
    s[copy].compute_at(s[D], D.op.axis[0])


CHANGES = [plain, inlined, written, read_state, read_input, written_init, read_result]


@pytest.mark.parametrize("change", CHANGES)
def test_running_sums(change):
    tensors, s, x, wanted = running_sums()
    change(s, *tensors)
    check(s, [tensors[0], tensors[-1]], wanted, x)


def test_what_a_scan_keeps_is_not_inlined():
    tensors, s, _x, _wanted = running_sums()
    s[tensors[2]].compute_inline()
    with pytest.raises(ScheduleError, match="'init': the ScanOp 'scan' reads it from memory"):
        s.normalize()


def test_a_scan_is_not_written_through_a_cache():
    tensors, s, _x, _wanted = running_sums()
    with pytest.raises(ScheduleError, match="its ScanOp is not made of expressions"):
        s.cache_write(tensors[5], "local")


@pytest.mark.parametrize("at_the_loop", [False, True])
def test_a_factored_reduction_in_each_step(at_the_loop):
    """state[t] = W state[t - 1] + X[t]."""
    X, W = te.placeholder((m, n), name="X"), te.placeholder((n, n), name="W")
    state = te.placeholder((m, n), name="state")
    init = te.compute((1, n), lambda _, i: X[0, i], name="init")
    k = te.reduce_axis((0, n), name="k")
    product = te.compute(
        (m, n), lambda t, i: te.sum(W[i, k] * state[t - 1, k], axis=k), name="product"
    )
    update = te.compute((m, n), lambda t, i: product[t, i] + X[t, i], name="update")
    scan = te.scan(init, update, state, inputs=[X, W])
    s = te.create_schedule(scan.op)
    _, inner = s[product].split(k, 2)
    part = s.rfactor(product, inner)
    if at_the_loop:
        s[product].compute_at(s[update], update.op.axis[1])
        s[part].compute_at(s[product], s[product].op.axis[1])
    x, w = rng.random((m, n), dtype="float32"), rng.random((n, n), dtype="float32") / n
    rows = [x[0]]
    for row in x[1:]:
        rows.append(w @ rows[-1] + row)
    check(s, [X, W, scan], np.array(rows), x, w)

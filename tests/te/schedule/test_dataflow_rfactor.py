"""rfactor: partial results along a loop of a reduction, and the reduction of these."""

import pytest

from tilesmith import te, tir
from tilesmith.ir import is_const, structural_equal
from tilesmith.support.errors import ScheduleError

n, m = 10, 12


def row_sums(begin=0, end=m, **options):
    a = te.placeholder((n, end), name="A")
    k = te.reduce_axis((begin, end), name="k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k, **options), name="B")
    return a, b, k, te.create_schedule(b.op)


def loops(stage):
    return [axis.var.name for axis in stage.leaf_iter_vars]


def sizes(tensor):
    return tuple(int(size) for size in tensor.shape)


def test_partial_results_and_their_reduction():
    a, b, k, s = row_sums()
    _ko, ki = s[b].split(k, factor=4)
    bf = s.rfactor(b, ki)
    assert bf.name == "B.rf" and sizes(bf) == (4, n)
    assert [stage.name for stage in s.stages] == ["A", "B.rf", "B.repl"]
    assert loops(s[bf]) == ["k.inner", "i", "k.outer"]
    assert loops(s[b]) == ["ax0", "k.inner.v"]
    inner, i = bf.op.axis
    (outer,) = bf.op.reduce_axis
    assert inner.iter_type == tir.IterVar.DataPar
    partial = s[bf].op.body[0]
    assert structural_equal(partial.source[0], a(i, outer.var * 4 + inner.var))
    assert is_const(partial.condition, 1)
    whole = s[b].op.body[0]
    (ax0,), (v,) = s[b].op.axis, s[b].op.reduce_axis
    assert structural_equal(whole.source[0], bf(v, ax0))
    assert int(v.dom.extent) == 4
    assert s[b].op is s.outputs[0] and s[b].origin_op is b.op and s[b.op] is s[b]


def test_the_outer_loop():
    _a, b, k, s = row_sums()
    ko, _ki = s[b].split(k, factor=5)
    bf = s.rfactor(b, ko)
    assert sizes(bf) == (3, n)
    assert loops(s[bf]) == ["k.outer", "i", "k.inner"]
    assert loops(s[b]) == ["ax0", "k.outer.v"]


@pytest.mark.parametrize(("place", "shape"), [(0, (4, n)), (1, (n, 4)), (-1, (n, 4)), (-2, (4, n))])
def test_the_place_of_the_factored_axis(place, shape):
    _a, b, k, s = row_sums()
    _ko, ki = s[b].split(k, factor=4)
    bf = s.rfactor(b, ki, place)
    assert sizes(bf) == shape
    read = s[b].op.body[0].source[0]
    (ax0,), (v,) = s[b].op.axis, s[b].op.reduce_axis
    indices = [ax0.var, v.var] if shape[1] == 4 else [v.var, ax0.var]
    assert structural_equal(read, bf(*indices))


def test_a_split_that_does_not_divide_is_a_condition():
    _a, b, k, s = row_sums()
    _ko, ki = s[b].split(k, factor=5)
    bf = s.rfactor(b, ki)
    (outer,) = bf.op.reduce_axis
    assert structural_equal(bf.op.body[0].condition, outer.var * 5 + bf.op.axis[0].var < m)


def test_a_condition_of_the_user_stays():
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k, where=k < 7), name="B")
    s = te.create_schedule(b.op)
    _ko, ki = s[b].split(k, factor=5)
    bf = s.rfactor(b, ki)
    index = bf.op.reduce_axis[0].var * 5 + bf.op.axis[0].var
    assert structural_equal(bf.op.body[0].condition, te.all(index < 7, index < m))
    assert is_const(s[b].op.body[0].condition, 1)


def test_a_first_value_is_added_once():
    first = te.placeholder((n,), name="F")
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k, init=first[i]), name="B")
    s = te.create_schedule(b.op)
    bf = s.rfactor(b, s[b].split(k, 4)[1])
    assert bf.op.body[0].init == ()
    assert structural_equal(s[b].op.body[0].init, (first(s[b].op.axis[0]),))


def test_a_range_that_does_not_begin_at_zero():
    a, b, k, s = row_sums(2, 12)
    _ko, ki = s[b].split(k, factor=4)
    bf = s.rfactor(b, ki)
    counted = bf.op.reduce_axis[0].var * 4 + bf.op.axis[0].var
    reduce = bf.op.body[0]
    assert structural_equal(reduce.source[0], a(bf.op.axis[1], counted + 2))
    assert structural_equal(reduce.condition, counted < 10)


@pytest.mark.parametrize(("begin", "extent"), [(0, 12), (2, 10)])
def test_the_axis_itself(begin, extent):
    a, b, k, s = row_sums(begin)
    bf = s.rfactor(b, k)
    assert sizes(bf) == (extent, n)
    index = bf.op.axis[0].var + begin if begin else bf.op.axis[0].var
    assert structural_equal(bf.op.body[0], a(bf.op.axis[1], index))
    assert loops(s[b]) == ["ax0", "k.v"]


def test_other_reduction_axes_stay():
    a = te.placeholder((n, 3, m), name="A")
    r, k = te.reduce_axis((0, 3), name="r"), te.reduce_axis((0, m), name="k")
    b = te.compute((n,), lambda i: te.sum(a[i, r, k], axis=[r, k]), name="B")
    s = te.create_schedule(b.op)
    _ko, ki = s[b].split(k, factor=4)
    bf = s.rfactor(b, ki)
    assert loops(s[bf]) == ["k.inner", "i", "r", "k.outer"]
    assert bf.op.reduce_axis[0] is r


def test_fused_axes_are_taken_apart():
    a = te.placeholder((n, 3, m), name="A")
    r, k = te.reduce_axis((0, 3), name="r"), te.reduce_axis((0, m), name="k")
    b = te.compute((n,), lambda i: te.sum(a[i, r, k], axis=[r, k]), name="B")
    s = te.create_schedule(b.op)
    _outer, inner = s[b].split(s[b].fuse(r, k), factor=8)
    bf = s.rfactor(b, inner)
    assert loops(s[bf]) == ["r.k.fused.inner", "i", "r.k.fused.outer"]
    index = bf.op.reduce_axis[0].var * 8 + bf.op.axis[0].var
    reduce = bf.op.body[0]
    assert structural_equal(reduce.source[0], a(bf.op.axis[1], index // 12, index % 12))
    assert structural_equal(reduce.condition, index < 36)


def test_tuple_reductions_give_several_tensors():
    def larger(x, y):
        wins = x[1] >= y[1]
        return tir.Select(wins, x[0], y[0]), tir.Select(wins, x[1], y[1])

    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    reducer = te.comm_reducer(larger, lambda t0, t1: (tir.const(-1, t0), tir.min_value(t1)))
    index, value = te.compute((n,), lambda i: reducer((k, a[i, k]), axis=k), name="T")
    s = te.create_schedule([index.op])
    _ko, ki = s[index].split(k, factor=5)
    index_part, value_part = s.rfactor(index, ki)
    assert (index_part.dtype, value_part.dtype) == ("int32", "float32")
    assert [one.value_index for one in index_part.op.body] == [0, 1]
    (ax0,), (v,) = s[index].op.axis, s[index].op.reduce_axis
    read = s[index].op.body[0].source
    assert structural_equal(read, (index_part(v, ax0), value_part(v, ax0)))


def test_a_factored_cache():
    _a, b, k, s = row_sums()
    bl = s.cache_write(b, "local")
    _ko, ki = s[bl].split(k, factor=4)
    bf = s.rfactor(bl, ki)
    assert [stage.name for stage in s.stages] == ["A", "B.local.rf", "B.local.repl", "B"]
    assert s[bf].group is s[bl].group
    assert s[b].op.input_tensors == [s[bl].op.output(0)]


def refused(make):
    a, b, k, s = row_sums()
    make(a, b, k, s)


def of_a_map(_a, _b, _k, _s):
    x = te.compute((n,), lambda i: i * 2, name="X")
    te.create_schedule(x.op).rfactor(x, x.op.axis[0])


def inlined(a, b, k, _s):
    c = te.compute((n,), lambda i: b[i], name="C")
    d = te.compute((n,), lambda i: c[i], name="D")
    s = te.create_schedule(d.op)
    s[c].compute_inline()
    s.rfactor(c, k)


def mixed(_a, b, k, s):
    fused = s[b].fuse(b.op.axis[0], k)
    s.rfactor(b, s[b].split(fused, 4)[1])


def mixed_beside(a, b, k, s):
    _outer, inner = s[b].split(k, 4)
    s[b].reorder(inner, b.op.axis[0])
    s[b].fuse(b.op.axis[0], _outer)
    s.rfactor(b, inner)


REFUSED = {
    "data-parallel axis 'i' is not reduced over": lambda a, b, k, s: s.rfactor(b, b.op.axis[0]),
    "it is not a reduction": of_a_map,
    "the stage is inlined": inlined,
    "an input of the program": lambda a, b, k, s: s.rfactor(a, k),
    "'k' has become k.outer, k.inner": lambda a, b, k, s: (s[b].split(k, 4), s.rfactor(b, k)),
    "factor_axis 2 does not fit.*0 to 1": lambda a, b, k, s: s.rfactor(b, k, 2),
    "'i.k.fused.outer' runs over results and over values that are reduced": mixed,
    "'k.outer.i.fused' runs over results": mixed_beside,
    "a reduction axis is needed, got 'k'": lambda a, b, k, s: s.rfactor(b, "k"),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refusals(message):
    with pytest.raises(ScheduleError, match=f"(?s){message}") as caught:
        refused(REFUSED[message])
    assert caught.value.place.file == __file__

"""normalize: inlined stages are written where they are read, loops count from 0, places move to
the loops that are there; copies of schedules."""

import copy
import time

import pytest

from tilesmith import te, tir
from tilesmith.ir import structural_equal
from tilesmith.ir.queries import walk
from tilesmith.support.errors import ScheduleError
from tilesmith.te.schedule import AttachType, Rebase

n, m = 10, 12


def placeholder(*shape, name="A"):
    return te.placeholder(shape, name=name)


def leaves(stage):
    return [axis.var.name for axis in stage.leaf_iter_vars]


def chain(length, inlined):
    a = placeholder(n)
    tensor = a
    for number in range(length):
        tensor = te.compute((n,), lambda i, t=tensor: t[i] + 1.0, name=f"T{number}")
    s = te.create_schedule(tensor.op)
    if inlined:
        for stage in s.stages[1:-1]:
            stage.compute_inline()
    return tensor, s


def test_an_inlined_stage_is_written_where_it_is_read():
    a = placeholder(n, m)
    b = te.compute((n, m), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((m, n), lambda i, j: b[j, i] * b[j, (i + 1) % m], name="C")
    s = te.create_schedule(c.op)
    s[b].compute_inline()
    done = s.normalize()
    i, j = c.op.axis
    expected = (a(j, i) + 1.0) * (a(j, (i.var + 1) % m) + 1.0)
    assert structural_equal(done[c].op.body[0], expected)
    assert done[b].attach_type == AttachType.INLINED_ALREADY
    assert s[b].attach_type == AttachType.INLINE and s[c].op is c.op


def test_several_values_conditions_and_reductions():
    a = placeholder(n)
    b0, b1 = te.compute((n,), lambda i: (a[i] + 1.0, a[i] * 2.0), name="B")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute(
        (n,),
        lambda i: te.sum(b0[k] * b1[i], axis=k, where=b1[k] > 0.5, init=b0[i]),
        name="C",
    )
    d = te.compute((n,), lambda i: te.if_then_else(i >= 2, c[i - 2], 0.0), name="D")
    e = te.compute((n,), lambda i: te.sum(d[i] * d[k], axis=k), name="E")
    s = te.create_schedule(e.op)
    s[b0].compute_inline()
    s[d].compute_inline()
    done = s.normalize()
    i = c.op.axis[0]
    reduce = done[c].op.body[0]
    assert structural_equal(reduce.source[0], (a(k) + 1.0) * (a(i) * 2.0))
    assert structural_equal(reduce.condition, a(k) * 2.0 > 0.5)
    assert structural_equal(reduce.init[0], a(i) + 1.0)
    new = done[c].op.output(0)
    i = e.op.axis[0].var

    def shifted(index):
        return te.if_then_else(index >= 2, new(index - 2), 0.0)

    assert structural_equal(done[e].op.body[0].source[0], shifted(i) * shifted(k.var))


def test_tuple_reductions_keep_common_parts():
    def add(x, y):
        return x[0] + y[0], x[1] * y[1]

    a = placeholder(n, m)
    b = te.compute((n, m), lambda i, j: a[i, j] + 1.0, name="B")
    k = te.reduce_axis((0, m), name="k")
    both = te.comm_reducer(add, lambda t0, t1: (tir.const(0, t0), tir.const(1, t1)))
    c0, c1 = te.compute((n,), lambda i: both((b[i, k], b[i, k]), axis=k), name="C")
    d = te.compute((n,), lambda i: c0[i] + c1[i], name="D")
    s = te.create_schedule(d.op)
    s[b].compute_inline()
    first, second = s.normalize()[c0].op.body
    assert first.source[0] is second.source[0] and first.combiner is second.combiner
    assert structural_equal(second.source[1], a(c0.op.axis[0], k) + 1.0)


def test_indices_and_axes_of_other_widths():
    a = placeholder(n)
    b = te.compute((n,), lambda i: a[i] * i.astype("float32"), name="B")
    c = te.compute((n,), lambda i: b[i.astype("int64")], name="C")
    s = te.create_schedule(c.op)
    s[b].compute_inline()
    load = s.normalize()[c].op.body[0].a
    assert load.producer is a and load.indices[0].dtype == "int32"


def test_lets_are_renewed_wherever_they_are_written():
    a = placeholder(n)
    v = te.var("v", "float32")
    b = te.compute((n,), lambda i: tir.Let(v, a[i], v * v), name="B")
    c = te.compute((n,), lambda i: b[i] + b[n - 1 - i], name="C")
    s = te.create_schedule(c.op)
    s[b].compute_inline()
    first, second = s.normalize()[c].op.body[0].a, s.normalize()[c].op.body[0].b
    assert first.var is not second.var and v not in (first.var, second.var)
    assert first.body.a is first.var


@pytest.mark.parametrize("inlined", [True, False])
def test_long_chains_are_normalized_in_linear_time(inlined):
    def seconds(length):
        _tensor, s = chain(length, inlined)
        start = time.perf_counter()
        s.normalize()
        return time.perf_counter() - start

    seconds(10)
    short, long = min(seconds(150) for _ in range(3)), min(seconds(1200) for _ in range(2))
    assert long < 40 * short + 0.05


def test_a_chain_becomes_one_expression():
    tensor, s = chain(1000, True)
    depth, value = 0, s.normalize()[tensor].op.body[0]
    while isinstance(value, tir.Add):
        depth, value = depth + 1, value.a
    assert depth == 1000


def test_an_element_that_is_read_twice_is_one_expression():
    tensor = placeholder(n)
    for number in range(40):  # as a tree this would have 2 ** 40 nodes
        tensor = te.compute((n,), lambda i, t=tensor: t[i] + t[i], name=f"T{number}")
    s = te.create_schedule(tensor.op)
    for stage in s.stages[1:-1]:
        stage.compute_inline()
    body = s.normalize()[tensor].op.body[0]
    assert isinstance(body, tir.Let)  # each element has a name
    assert sum(1 for _ in walk(body)) < 40 * 8
    while isinstance(body, tir.Let):
        body = body.body
    assert body.a is body.b


def test_readers_that_need_memory_are_refused():
    a = placeholder(n)
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    c = te.extern((n,), [b], lambda ins, outs: tir.call_packed("f", ins[0], outs[0]), name="C")
    s = te.create_schedule(c.op)
    s[b].compute_inline()
    with pytest.raises(ScheduleError, match="'B': the ExternOp 'C' reads it from memory") as caught:
        s.normalize()
    assert caught.value.place.file == __file__


def test_extern_readers_of_what_changed_read_the_new_tensor():
    a = placeholder(n)
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((n,), lambda i: b[i] + 1.0, name="C")
    d = te.extern((n,), [c], lambda ins, outs: tir.call_packed("f", ins[0], outs[0]), name="D")
    s = te.create_schedule(d.op)
    s[b].compute_inline()
    done = s.normalize()
    assert done[d].op.inputs == (done[c].op.output(0),)
    assert done.outputs == [done[d].op]


def test_loops_count_from_zero():
    a = placeholder(n)
    k = te.reduce_axis((2, 8), name="k")
    b = te.compute((n,), lambda i: te.sum(a[k] * a[i], axis=k), name="B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[0], 4)
    s[b].unroll(k)
    done = s.normalize()[b]
    assert leaves(done) == ["i.outer", "i.inner", "k"]
    assert done.leaf_iter_vars[0] is outer and done.leaf_iter_vars[1] is inner
    rebase = done.relations[-1]
    assert isinstance(rebase, Rebase) and rebase.parent is k
    assert rebase.rebased is done.leaf_iter_vars[2]
    assert done.iter_var_attrs[rebase.rebased].iter_type == tir.IterVar.Unrolled
    assert leaves(s[b]) == ["i.outer", "i.inner", "k"] and s[b].leaf_iter_vars[2] is k


def test_axes_on_threads_stay():
    a = placeholder(n)
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    done = s.normalize()[b]
    assert done.leaf_iter_vars[0] is b.op.axis[0] and not done.relations


def test_normalizing_twice_changes_nothing_more():
    a = placeholder(n)
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    once = te.create_schedule(b.op).normalize()
    assert once.normalize()[b].leaf_iter_vars == once[b].leaf_iter_vars


def produced_inside(change):
    a = placeholder(n, m)
    b = te.compute((n, m), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((n, m), lambda i, j: b[i, j] * 2.0, name="C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], c.op.axis[1])
    change(s[c], *c.op.axis)
    return s.normalize(), b, c


@pytest.mark.parametrize(
    ("change", "loop"),
    [
        (lambda st, i, j: None, "j"),
        (lambda st, i, j: st.split(j, 4), "j.inner"),
        (lambda st, i, j: st.split(st.split(j, 6)[1], 2), "j.inner.inner"),
        (lambda st, i, j: st.fuse(i, j), "i.j.fused"),
    ],
)
def test_places_move_to_the_loops_that_are_there(change, loop):
    done, b, c = produced_inside(change)
    assert done[b].attach_stage is done[c]
    assert done[b].attach_ivar.var.name == loop
    assert any(done[b].attach_ivar is axis for axis in done[c].leaf_iter_vars)


def test_a_loop_that_was_fused_with_inner_ones_is_no_place():
    def change(stage, i, j):
        stage.reorder(j, i)
        stage.fuse(j, i)

    with pytest.raises(ScheduleError, match="axis 'j' is not a loop any more") as caught:
        produced_inside(change)
    assert "compute_at" in str(caught.value)


def test_loops_of_inlined_stages_are_no_place():
    a = placeholder(n)
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((n,), lambda i: b[i] + 1.0, name="C")
    d = te.compute((n,), lambda i: c[i] + 1.0, name="D")
    s = te.create_schedule(d.op)
    s[b].compute_at(s[c], c.op.axis[0])
    s[c].compute_inline()
    with pytest.raises(ScheduleError, match="'B': stage 'C' is inlined") as caught:
        s.normalize()
    assert caught.value.place.file == __file__


def test_groups_are_placed_at_rebased_loops():
    a = placeholder(n, m)
    b = te.compute((n, m), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((n, m), lambda i, j: b[i, j] * 2.0, name="C")
    s = te.create_schedule(c.op)
    group = s.create_group(outputs=b, inputs=a, include_inputs=True)
    group.compute_at(s[c], c.op.axis[0])
    done = s.normalize()
    (moved,) = done.groups
    assert moved.attach_ivar is done[c].leaf_iter_vars[0]
    assert done[b].group is moved and moved is not group


@pytest.mark.parametrize("make", [lambda s: s.copy(), copy.copy])
def test_copies_change_on_their_own(make):
    a = placeholder(n, m)
    b = te.compute((n, m), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((n, m), lambda i, j: b[i, j] * 2.0, name="C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], c.op.axis[0])
    s[c].pragma(c.op.axis[1], "first")
    twin = make(s)
    assert twin[b].attach_stage is twin[c] and twin[c] is not s[c]
    twin[c].split(c.op.axis[1], 4)
    twin[c].pragma(c.op.axis[0], "second")
    twin[c].attributes(c.op.axis[1]).pragmas.clear()
    twin.cache_write(b, "local")
    assert leaves(s[c]) == ["i", "j"] and not s[c].relations
    assert s[c].attributes(c.op.axis[1]).pragma_keys == ["first"]
    assert c.op.axis[0] not in set(s[c].iter_var_attrs)
    assert s[b].op is b.op and len(s.stages) == 3 and s.outputs == [c.op]

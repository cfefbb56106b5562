"""cache_read and cache_write: the operations that they make, who reads them, what is refused."""

import pytest

from tilesmith import te, tir
from tilesmith.ir import structural_equal
from tilesmith.support.errors import ScheduleError, TypeMismatchError

n, m = 10, 12


def program():
    """B = A + 1, C = the sums of the rows of B, D = C * 2."""
    a = te.placeholder((n, m), name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] + 1.0, name="B")
    k = te.reduce_axis((0, m), name="k")
    c = te.compute((n,), lambda i: te.sum(b[i, k], axis=k), name="C")
    d = te.compute((n,), lambda i: c[i] * 2.0, name="D")
    return a, b, c, d, k, te.create_schedule(d.op)


def argmax(x, y):
    larger = x[1] >= y[1]
    return tir.Select(larger, x[0], y[0]), tir.Select(larger, x[1], y[1])


def argmax_program():
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    reducer = te.comm_reducer(
        argmax, lambda t0, t1: (tir.const(-1, t0), tir.min_value(t1)), name="argmax"
    )
    index, value = te.compute((n,), lambda i: reducer((k, a[i, k]), axis=k), name="T")
    return a, index, value, k, te.create_schedule(index.op)


def names(schedule):
    return [stage.name for stage in schedule.stages]


def loops(stage):
    return [axis.var.name for axis in stage.leaf_iter_vars]


def body(stage):
    return stage.op.body[0]


def load(tensor, *indices):
    return tensor(*[getattr(index, "var", index) for index in indices])


def test_cache_read_makes_a_stage_that_copies():
    a, b, _c, _d, _k, s = program()
    aa = s.cache_read(a, "shared", [b])
    assert aa.name == aa.op.name == "A.shared"
    assert names(s) == ["A", "A.shared", "B", "C", "D"]
    assert s[aa].scope == "shared"
    assert loops(s[aa]) == ["ax0", "ax1"]
    assert structural_equal(body(s[aa]), load(a, *aa.op.axis))
    i, j = s[b].op.axis
    assert structural_equal(body(s[b]), load(aa, i, j) + 1.0)


def test_operations_that_follow_read_the_new_ones():
    a, b, c, d, _k, s = program()
    old = b.op
    s.cache_read(a, "shared", b)
    assert s[old] is s[b] is s[s[b].op]
    assert s[b].op is not old
    assert s[b].origin_op is old
    assert s[c].op.input_tensors == [s[b].op.output(0)]
    assert s.outputs == [s[d].op] and s[d].op is not d.op
    assert s[d].is_output


@pytest.mark.parametrize("as_operations", [True, False])
def test_only_the_readers_read_the_copy(as_operations):
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((n,), lambda i: a[i] + b[i], name="C")
    s = te.create_schedule(c.op)
    aa = s.cache_read(a, "local", [c.op] if as_operations else [c])
    assert s[b].op is b.op
    assert s[c].op.input_tensors == [aa, b]


def test_a_copy_of_a_copy():
    a, b, _c, _d, _k, s = program()
    aa = s.cache_read(a, "shared", [b])
    al = s.cache_read(aa, "local", [b])
    assert al.name == "A.shared.local"
    assert names(s)[:4] == ["A", "A.shared", "A.shared.local", "B"]
    assert s[b].op.input_tensors == [al]
    assert s[al].op.input_tensors == [aa]


def test_a_tensor_that_was_replaced_is_read_by_its_old_name():
    a, b, c, _d, _k, s = program()
    s.cache_read(a, "shared", [b])
    bb = s.cache_read(b, "shared", [c])
    assert s[bb].op.input_tensors == [s[b].op.output(0)]
    assert s[c].op.input_tensors == [bb]


def test_one_result_of_several_is_copied():
    a = te.placeholder((n,), name="A")
    b0, b1 = te.compute((n,), lambda i: (a[i] + 1.0, a[i] * 2.0), name="B")
    c = te.compute((n,), lambda i: b0[i] + b1[i], name="C")
    s = te.create_schedule(c.op)
    copy = s.cache_read(b1, "local", [c])
    assert copy.name == "B.v1.local"
    assert s[c].op.input_tensors == [b0, copy]


def test_extern_readers_get_the_copy():
    a = te.placeholder((n,), name="A")
    c = te.extern((n,), [a], lambda ins, outs: tir.call_packed("f", ins[0], outs[0]), name="C")
    s = te.create_schedule(c.op)
    copy = s.cache_read(a, "global", [c])
    assert s[c].op.inputs == (copy,)
    assert s[c].op.body is c.op.body


def test_copies_lie_in_the_group_of_their_tensor():
    _a, b, c, d, _k, s = program()
    group = s.create_group(outputs=c, inputs=b, include_inputs=True)
    s.cache_read(b, "local", [c])
    s.cache_write(c, "local")
    assert group.num_child_stages == 4
    assert [one.name for one in s.stages if one.group is group] == ["B", "B.local", "C.local", "C"]
    assert s[d].group is None


def test_cache_write_moves_the_computation():
    _a, b, c, d, k, s = program()
    cl = s.cache_write(c, "local")
    assert cl.name == "C.local"
    assert names(s) == ["A", "B", "C.local", "C", "D"]
    assert s[cl].scope == "local" and s[c].scope == ""
    assert loops(s[cl]) == ["i.c", "k"] and loops(s[c]) == ["i"]
    assert s[cl].op.reduce_axis[0] is k
    assert structural_equal(body(s[cl]).source[0], load(b, s[cl].op.axis[0], k))
    assert structural_equal(body(s[c]), load(cl, *s[c].op.axis))
    assert s[d].op.input_tensors == [s[c].op.output(0)]
    assert s[c].op.axis[0] is c.op.axis[0]


def test_cache_write_of_a_tuple_reduction():
    a, index, value, k, s = argmax_program()
    il, vl = s.cache_write([index, value], "local")
    assert il.op is vl.op
    assert (il.value_index, vl.value_index) == (0, 1)
    first, second = il.op.body
    assert first.source[1] is second.source[1] and first.combiner is second.combiner
    assert structural_equal(first.source[1], load(a, il.op.axis[0], k))
    i = s[index].op.axis
    assert structural_equal(list(s[index].op.body), [load(il, *i), load(vl, *i)])


def test_cache_write_of_values_with_different_bodies():
    a = te.placeholder((n,), name="A")
    b0, b1 = te.compute((n,), lambda i: (a[i] + 1.0, a[i].astype("int32")), name="B")
    s = te.create_schedule(b0.op)
    l1, l0 = s.cache_write([b1, b0], "local")
    assert (l1.dtype, l0.dtype) == ("int32", "float32")
    assert s[b0].op.input_tensors == [l0, l1]


def tensor_computation():
    """Rows of 4 elements that an intrinsic adds."""
    x, y = te.placeholder((4,), name="x"), te.placeholder((4,), name="y")
    z = te.compute((4,), lambda i: x[i] + y[i], name="z")
    add = te.decl_tensor_intrin(
        z.op, lambda ins, outs: tir.call_packed("add4", ins[0], ins[1], outs[0])
    )
    a, b = te.placeholder((n, 4), name="A"), te.placeholder((n, 4), name="B")
    c = te.compute((n, 4), lambda i: add(a[i, 0:4], b[i, 0:4]), name="C")
    return a, b, c, te.create_schedule(c.op)


def test_the_results_of_intrinsics_are_cached():
    a, b, c, s = tensor_computation()
    cl = s.cache_write(c, "local")
    assert isinstance(cl.op, te.TensorComputeOp) and cl.op.intrin is c.op.intrin
    assert loops(s[cl]) == ["i.c"] and loops(s[c]) == ["i", "ax0"]
    assert cl.op.input_tensors == [a, b]
    assert cl.op.input_regions[0][0].min is cl.op.axis[0].var
    assert structural_equal(body(s[c]), load(cl, *s[c].op.axis))


def test_what_intrinsics_read_is_cached():
    a, b, c, s = tensor_computation()
    copy = s.cache_read(a, "local", [c])
    assert s[c].op.inputs == (copy, b)
    assert s[c].op.input_regions == c.op.input_regions and s[c].op.axis == c.op.axis


def test_results_of_intrinsics_keep_their_layout():
    _a, _b, c, s = tensor_computation()
    s[c].split(c.op.axis[0], 2)
    with pytest.raises(ScheduleError, match="a tensor intrinsic has its layout"):
        s.cache_write(c, "local")


@pytest.mark.parametrize(
    ("change", "shape", "axes"),
    [
        (lambda st, i, j: st.reorder(j, i), (12, 10), ["j.c", "i.c"]),
        (lambda st, i, j: st.split(i, 5), (2, 5, 12), ["i.outer.c", "i.inner.c", "j.c"]),
        (lambda st, i, j: st.fuse(i, j), (120,), ["i.j.fused.c"]),
    ],
)
def test_the_cache_is_laid_out_as_the_loops(change, shape, axes):
    _a, b, _c, _d, _k, s = program()
    change(s[b], *b.op.axis)
    bl = s.cache_write(b, "global")
    assert tuple(int(size) for size in bl.shape) == shape
    assert loops(s[bl]) == axes
    assert loops(s[b]) == ["i", "j"] and not s[b].relations


def test_a_split_that_does_not_divide_guards_the_cache():
    a, b, _c, _d, _k, s = program()
    i, j = b.op.axis
    s[b].split(i, 4)
    bl = s.cache_write(b, "global")
    io, ii, jc = bl.op.axis
    row = io.var * 4 + ii.var
    expected = te.if_then_else(row < n, load(a, row, jc) + 1.0, 0.0)
    assert structural_equal(body(s[bl]), expected)
    assert structural_equal(body(s[b]), load(bl, i.var // 4, i.var % 4, j))


def test_a_reduction_is_guarded_by_its_condition():
    _a, _b, c, _d, _k, s = program()
    s[c].split(c.op.axis[0], 4)
    cl = s.cache_write(c, "local")
    io, ii = cl.op.axis
    assert structural_equal(body(s[cl]).condition, io.var * 4 + ii.var < n)


def test_the_place_of_the_stage_stays():
    _a, _b, c, d, _k, s = program()
    s[c].compute_at(s[d], d.op.axis[0])
    s.cache_write(c, "local")
    assert s[c].attach_stage is s[d]


def test_the_user_gets_stages_by_all_operations():
    a, b, c, d, _k, s = program()
    s.cache_write(c, "local")
    s.cache_read(b, "local", [c] if b in s[c].op.input_tensors else [s.stages[2].op])
    for tensor in (a, b, c, d):
        assert s[tensor].origin_op is tensor.op
        assert tensor in s and s[tensor].op in s


def reads_nothing():
    a, _b, c, _d, _k, s = program()
    s.cache_read(a, "local", [c])


def has_no_readers():
    a, _b, _c, _d, _k, s = program()
    s.cache_read(a, "local", [])


def scope_is_unknown():
    a, b, _c, _d, _k, s = program()
    s.cache_read(a, "locel", [b])


def writes_an_input():
    a, *_rest, s = program()
    s.cache_write(a, "local")


def writes_an_inlined_stage():
    _a, b, *_rest, s = program()
    s[b].compute_inline()
    s.cache_write(b, "local")


def writes_after_the_reduction_was_split():
    _a, _b, c, _d, k, s = program()
    s[c].split(k, 4)
    s.cache_write(c, "local")


def writes_one_of_two():
    _a, index, _value, _k, s = argmax_program()
    s.cache_write(index, "local")


def writes_results_of_two_operations():
    _a, b, c, _d, _k, s = program()
    s.cache_write([b, c], "local")


def writes_where_another_is_computed():
    _a, b, c, _d, k, s = program()
    s[b].compute_at(s[c], k)
    s.cache_write(c, "local")


def writes_an_extern():
    c = te.extern((n,), [], lambda ins, outs: tir.call_packed("f", outs[0]), name="C", dtype="int8")
    te.create_schedule(c.op).cache_write(c, "local")


REFUSED = {
    "'C' does not read 'A'.*it is read by: B": reads_nothing,
    "no readers are given": has_no_readers,
    "'locel' is not a storage scope": scope_is_unknown,
    "an input of the program is not computed.*cache_read makes a copy": writes_an_input,
    "the stage is inlined": writes_an_inlined_stage,
    "reduction axis 'k.outer' is a loop of its own by now": writes_after_the_reduction_was_split,
    r"all results of an operation are cached together.*\[T.v0, T.v1\]": writes_one_of_two,
    "'C' is a result of another operation": writes_results_of_two_operations,
    "'B' is computed at a loop of it.*place 'B' afterwards": writes_where_another_is_computed,
    "its ExternOp is not made of expressions": writes_an_extern,
}


@pytest.mark.parametrize("message", REFUSED)
def test_refusals_name_stage_and_cure_at_the_users_line(message):
    with pytest.raises(ScheduleError, match=f"(?s){message}") as caught:
        REFUSED[message]()
    assert caught.value.place.file == __file__


def test_what_is_no_tensor_is_refused():
    *_rest, s = program()
    with pytest.raises(TypeMismatchError, match="cache_read takes a tensor"):
        s.cache_read("A", "local", [])


def test_refusals_leave_the_schedule_as_it_was():
    a, b, c, _d, _k, s = program()
    before = [stage.op for stage in s.stages]
    for readers, scope in ([c], "local"), ([b], "locel"):
        with pytest.raises(ScheduleError):
            s.cache_read(a, scope, readers)
    assert [stage.op for stage in s.stages] == before
    assert s.stages[1] is s[b]

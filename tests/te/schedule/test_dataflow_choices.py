"""Automatic inlining, layouts, groups, conditions that code is specialised for, kinds of memory."""

import threading

import pytest

from tilesmith import te, tir
from tilesmith.support.errors import ScheduleError, TypeMismatchError, UnsupportedError
from tilesmith.te import schedule as te_schedule
from tilesmith.te.schedule import AttachType, Transform

n, m = 8, 12


def placeholder(*shape, name="A"):
    return te.placeholder(shape, name=name)


def leaves(stage):
    return [axis.var.name for axis in stage.leaf_iter_vars]


# Automatic inlining


def stages_of_all_kinds():
    a, row = placeholder(n, m), placeholder(m, name="R")
    each = te.compute((n, m), lambda i, j: a[i, j] + 1.0, name="each")
    wide = te.compute((n, m), lambda i, j: each[i, j] * row[j], name="wide")
    turned = te.compute((m, n), lambda i, j: wide[j, i], name="turned")
    tagged = te.compute((m, n), lambda i, j: turned[m - 1 - i, j], name="tagged", tag="elemwise")
    k = te.reduce_axis((0, n), name="k")
    sums = te.compute((m,), lambda i: te.sum(tagged[i, k], axis=k), name="sums")
    last = te.compute((m,), lambda i: sums[i] + 1.0, name="last")
    return te.create_schedule(last.op)


@pytest.mark.parametrize(
    ("function", "inlined"),
    [
        (te_schedule.AutoInlineElemWise, ["each", "tagged"]),
        (te_schedule.AutoInlineBroadcast, ["each", "wide", "tagged"]),
        (te_schedule.AutoInlineInjective, ["each", "wide", "turned", "tagged"]),
    ],
)
def test_stages_are_inlined_by_what_they_read(function, inlined):
    s = stages_of_all_kinds()
    function(s)
    assert [one.name for one in s.stages if one.attach_type == AttachType.INLINE] == inlined
    s.normalize()


def test_scheduled_stages_and_those_that_are_read_from_memory_stay():
    a = placeholder(n)
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((n,), lambda i: b[i] + 1.0, name="C")
    d = te.extern((n,), [c], lambda ins, outs: tir.call_packed("f", ins[0], outs[0]), name="D")
    s = te.create_schedule(d.op)
    s[b].split(b.op.axis[0], 4)
    te_schedule.AutoInlineInjective(s)
    assert all(one.attach_type == AttachType.GROUP_ROOT for one in s.stages)


# Layouts


def test_a_layout_makes_loops_over_the_new_axes():
    a = placeholder(n, m)
    b = te.compute((n, m), lambda i, j: a[i, j] + 1.0, name="B")
    s = te.create_schedule(b.op)
    axes = s[b].transform_layout(lambda i, j: [i // 4, te.AXIS_SEPARATOR, j, i % 4])
    assert [int(axis.dom.extent) for axis in axes] == [2, 12, 4]
    assert s[b].leaf_iter_vars == axes
    assert s[b].axis_separators == (1,)
    (relation,) = s[b].relations
    assert isinstance(relation, Transform) and relation.original_variables == b.op.axis
    assert len(s[b].layout_transforms) == 1
    assert all(axis.iter_type == tir.IterVar.DataPar for axis in axes)
    s[b].split(axes[1], 3)
    assert leaves(s[b])[1:3] == [f"{axes[1].var.name}.outer", f"{axes[1].var.name}.inner"]


def test_layouts_follow_one_another():
    a = placeholder(n, m)
    b = te.compute((n, m), lambda i, j: a[i, j] + 1.0, name="B")
    s = te.create_schedule(b.op)
    s[b].transform_layout(lambda i, j: [j, i])
    axes = s[b].transform_layout(lambda *i: [i[0] // 3, i[1], i[0] % 3])
    assert [int(axis.dom.extent) for axis in axes] == [4, 8, 3]
    assert len(s[b].layout_transforms) == 2


def test_reductions_keep_their_loops_at_their_place():
    a = placeholder(n, m)
    k = te.reduce_axis((0, m), name="k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    s[b].reorder(k, b.op.axis[0])
    axes = s[b].transform_layout(lambda i: [i // 4, i % 4])
    assert leaves(s[b]) == ["k", *[axis.var.name for axis in axes]]


def test_inputs_have_layouts_but_no_loops():
    a = placeholder(n, m)
    b = te.compute((n, m), lambda i, j: a[i, j] + 1.0, name="B")
    s = te.create_schedule(b.op)
    assert s[a].transform_layout(lambda i, j: [j, i]) is None
    assert len(s[a].layout_transforms) == 1


LAYOUTS_REFUSED = {
    "leaves places of the new shape unused": lambda st, i, j: st.transform_layout(
        lambda i, j: [i // 3, j, i % 3]
    ),
    "its loops are not those of the tensor's axes": lambda st, i, j: (
        st.split(i, 4),
        st.transform_layout(lambda i, j: [j, i]),
    ),
    "the buffer has 2": lambda st, i, j: st.transform_layout(lambda i: [i]),
    "the stage is inlined": lambda st, i, j: (
        st.compute_inline(),
        st.transform_layout(lambda i, j: [j, i]),
    ),
}


@pytest.mark.parametrize("message", LAYOUTS_REFUSED)
def test_layouts_that_do_not_fit_are_refused(message):
    a = placeholder(n, m)
    b = te.compute((n, m), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((n, m), lambda i, j: b[i, j] + 1.0, name="C")
    s = te.create_schedule(c.op)
    with pytest.raises(ScheduleError, match=message) as caught:
        LAYOUTS_REFUSED[message](s[b], *b.op.axis)
    assert caught.value.place.file == __file__


# Groups


def line():
    a = placeholder(n)
    tensors = [a]
    for name in "BCDEF":
        before = tensors[-1]
        tensors.append(te.compute((n,), lambda i, t=before: t[i] + 1.0, name=name))
    return tensors, te.create_schedule(tensors[-1].op)


def members(schedule, group):
    return [one.name for one in schedule.stages if one.group is group]


def test_groups_lie_inside_of_others():
    (a, b, c, d, _e, _f), s = line()
    inner = s.create_group(outputs=c, inputs=b)
    outer = s.create_group(outputs=d, inputs=a)
    assert members(s, inner) == ["C"] and members(s, outer) == ["B", "D"]
    assert inner.group is outer and outer.num_child_stages == 3 and inner.num_child_stages == 1
    innermost = s.create_group(outputs=d, inputs=c)
    assert innermost.group is outer and members(s, outer) == ["B"]
    assert outer.num_child_stages == 3


def test_groups_within_a_group():
    (_a, b, c, d, e, _f), s = line()
    outer = s.create_group(outputs=e, inputs=b, include_inputs=True)
    assert outer.num_child_stages == 4
    inner = s.create_group(outputs=d, inputs=b)
    assert inner.group is outer
    assert (outer.num_child_stages, inner.num_child_stages) == (3, 2)
    assert s[c].group is inner


def test_groups_that_overlap_are_refused():
    (a, _b, c, d, _e, _f), s = line()
    s.create_group(outputs=c, inputs=a)
    before = [one.group for one in s.stages]
    with pytest.raises(
        ScheduleError, match="'C': it belongs to a group of 2 stages, of which only 1"
    ):
        s.create_group(outputs=d, inputs=c, include_inputs=True)
    assert [one.group for one in s.stages] == before and len(s.groups) == 1


def test_a_group_without_stages_is_refused():
    (a, *_rest), s = line()
    with pytest.raises(ScheduleError, match="nothing between"):
        s.create_group(outputs=a, inputs=a)


# Conditions, tensor cores, memory


def test_conditions_hold_inside_of_their_scope():
    size = te.var("n")
    assert te.SpecializedCondition.current() is None
    with te.SpecializedCondition([size >= 4]) as outer:
        assert te.SpecializedCondition.current() is outer
        with te.SpecializedCondition(size % 8 == 0) as inner:
            assert te.SpecializedCondition.current() is inner and len(inner.clauses) == 1
        seen = []
        thread = threading.Thread(target=lambda: seen.append(te.SpecializedCondition.current()))
        thread.start()
        thread.join()
        assert seen == [None] and te.SpecializedCondition.current() is outer
    assert te.SpecializedCondition.current() is None


def test_conditions_are_comparisons():
    with pytest.raises(TypeMismatchError, match="a condition is a comparison"):
        te.SpecializedCondition([te.var("n")])


def test_tensor_cores_are_named_by_the_schedule():
    with pytest.raises(UnsupportedError, match="wmma"):
        te_schedule.SchedulePostProcRewriteForTensorCore(None, None, {})


MEMORY_REFUSED = {
    "'sharde' is not a storage scope": lambda s, b, c: s[b].set_scope("sharde"),
    "memory of an output cannot be doubled": lambda s, b, c: s[c].double_buffer(),
    "an output is kept as a whole": lambda s, b, c: s[c].rolling_buffer(),
    "the stage is inlined": lambda s, b, c: (s[b].compute_inline(), s[b].double_buffer()),
    "an input of the program": lambda s, b, c: s.stages[0].rolling_buffer(),
}


@pytest.mark.parametrize("message", MEMORY_REFUSED)
def test_memory_that_does_not_fit_is_refused(message):
    a = placeholder(n)
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((n,), lambda i: b[i] + 1.0, name="C")
    with pytest.raises(ScheduleError, match=message):
        MEMORY_REFUSED[message](te.create_schedule(c.op), b, c)


# Tensors as users handle them


def test_tensors_are_equal_if_they_are_one_result():
    a = placeholder(n)
    b0, b1 = te.compute((n,), lambda i: (a[i] + 1.0, a[i] * 2.0), name="B")
    again = te.Tensor(a.shape, a.dtype, a.op, 0)
    assert a == again and hash(a) == hash(again) and a != b0 and b0 != b1
    assert {a: 1, b0: 2, b1: 3}[again] == 1 and again in [a]
    assert a != 3


def test_slices_are_elements_in_arithmetic():
    a = placeholder(n, m)
    b = te.compute((n, m), lambda i, j: -a[i][j] * 2.0 + a[i, j] / 3.0 - 1.0, name="B")
    body = b.op.body[0]
    assert isinstance(body, tir.Sub) and b.op.input_tensors == [a]
    assert a[0].dtype == "float32" and a[0, 1].asobject().indices[1].value == 1


def test_tags_attributes_and_names_of_computations():
    a = placeholder(n, m)
    assert te.TagScope.get_current() is None
    with te.tag_scope("outer"):
        assert te.TagScope.get_current().tag == "outer"
        b = te.compute((n, m), lambda *i: a(*i) + 1.0, name="B", attrs={"rule": "x", "sizes": [1]})
    c = te.compute((n, m), lambda i, *rest: b(i, *rest), varargs_names=["col"], tag="own", name="C")
    assert (b.op.tag, b.op.attrs["rule"], tuple(b.op.attrs["sizes"])) == ("outer", "x", (1,))
    assert [axis.var.name for axis in c.op.axis] == ["i", "col"] and c.op.tag == "own"
    s = te.create_schedule(c.op)
    cache = s.cache_write(c, "local")
    assert cache.op.tag == s[c].op.tag == "own"


def test_operations_without_the_tensor_are_the_same():
    a, other = placeholder(n), placeholder(n, name="X")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B", tag="t", attrs={"key": 1})
    assert b.op.replace_inputs({other: a}) is b.op
    new = b.op.replace_inputs({a: other})
    assert (new.name, new.tag, dict(new.attrs)) == ("B", "t", {"key": 1})
    assert new.axis[0] is b.op.axis[0] and new.input_tensors == [other]
    extern = te.extern((n,), [a], lambda ins, outs: tir.call_packed("f", ins[0], outs[0])).op
    assert extern.replace_inputs({other: a}) is extern
    assert extern.replace_inputs({a: other}).inputs == (other,)
    assert a.op.replace_inputs({a: other}) is a.op

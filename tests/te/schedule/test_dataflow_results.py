"""Schedules that rewrite the graph of operations give the results of numpy: lowered, and run by the
interpreter, in which reads outside of memory and of values never written are errors.
"""

import numpy as np
import pytest

import tilesmith
from tilesmith import te, tir
from tilesmith.tir.interpreter import run

n, m = 7, 13
rng = np.random.default_rng(3)


def values(*shape, dtype="float32"):
    return rng.integers(-8, 8, shape).astype(dtype)


def check(schedule, args, inputs, *wanted, compiled=False):
    """The schedule computes what is wanted, in arrays after those of the inputs."""
    outputs = [np.full(one.shape, 77, one.dtype) for one in wanted]
    if compiled:
        function = tilesmith.build(schedule, args, target="llvm")
        arrays = [tilesmith.nd.array(one) for one in (*inputs, *outputs)]
        function(*arrays)
        outputs = [one.numpy() for one in arrays[len(inputs) :]]
    else:
        run(tilesmith.lower(schedule, args), *inputs, *outputs)
    for got, want in zip(outputs, wanted):
        np.testing.assert_array_equal(got, want)


def row_sums(dtype="float32", begin=0):
    """B = the sums of rows of A * 2, C = B + 1."""
    a = te.placeholder((n, m), dtype, name="A")
    double = te.compute((n, m), lambda i, j: a[i, j] * tir.const(2, dtype), name="D")
    k = te.reduce_axis((begin, m), name="k")
    b = te.compute((n,), lambda i: te.sum(double[i, k], axis=k), name="B")
    c = te.compute((n,), lambda i: b[i] + tir.const(1, dtype), name="C")
    array = values(n, m, dtype=dtype)
    wanted = (array * 2)[:, begin:].sum(1).astype(dtype) + np.ones((), dtype)
    return (a, double, b, c, k), te.create_schedule(c.op), array, wanted


def read_at_root(s, a, d, b, c, k):
    s.cache_read(a, "global", [d])


def read_at_a_loop(s, a, d, b, c, k):
    copy = s.cache_read(d, "global", [b])
    ko, _ = s[b].split(k, 5)
    s[copy].compute_at(s[b], ko)
    s[d].compute_at(s[copy], copy.op.axis[1])


def write_at_a_loop(s, a, d, b, c, k):
    cache = s.cache_write(b, "global")
    outer, _ = s[b].split(b.op.axis[0], 3)
    s[cache].compute_at(s[b], outer)
    s[cache].reorder(cache.op.reduce_axis[0], cache.op.axis[0])


def write_after_a_split(s, a, d, b, c, k):
    s[b].split(b.op.axis[0], 3)
    s.cache_write(b, "global")


def write_in_another_layout(s, a, d, b, c, k):
    i, j = d.op.axis
    io, ii = s[d].split(i, 3)
    jo, ji = s[d].split(j, 4)
    s[d].reorder(jo, io, ii, ji)
    s.cache_write(d, "global")
    s[d].compute_inline()


def write_fused(s, a, d, b, c, k):
    s[d].split(s[d].fuse(*d.op.axis), 8)
    s.cache_write(d, "global")


def write_twice(s, a, d, b, c, k):
    first = s.cache_write(b, "global")
    s.cache_write(first, "global")
    s.cache_write(b, "global")


def write_the_output(s, a, d, b, c, k):
    cache = s.cache_write(c, "global")
    s[cache].compute_at(s[c], c.op.axis[0])


def factor(place=0, outer=False, size=4, begin_at_loop=False):
    def change(s, a, d, b, c, k):
        loops = s[b].split(k, size)
        part = s.rfactor(b, loops[0] if outer else loops[1], place)
        if begin_at_loop:
            s[part].compute_at(s[b], s[b].op.reduce_axis[0])
        s[d].compute_inline()

    return change


def factor_the_axis(s, a, d, b, c, k):
    s.rfactor(b, k)


def factor_twice(s, a, d, b, c, k):
    _, inner = s[b].split(k, 6)
    part = s.rfactor(b, inner)
    _, innermost = s[part].split(part.op.reduce_axis[0], 2)
    s.rfactor(part, innermost)


def factor_a_cache(s, a, d, b, c, k):
    cache = s.cache_write(b, "global")
    _, inner = s[cache].split(k, 4)
    part = s.rfactor(cache, inner, -1)
    s[cache].compute_at(s[b], b.op.axis[0])
    s[part].compute_at(s[cache], s[cache].op.axis[0])


def inline_all(s, a, d, b, c, k):
    s[d].compute_inline()


def layouts(s, a, d, b, c, k):
    s[d].transform_layout(lambda i, j: [j, i])
    s[d].compute_at(s[b], b.op.axis[0])


CHANGES = {
    "read at root": read_at_root,
    "read at a loop": read_at_a_loop,
    "write at a loop": write_at_a_loop,
    "write after a split": write_after_a_split,
    "write in another layout": write_in_another_layout,
    "write fused": write_fused,
    "write twice": write_twice,
    "write the output": write_the_output,
    "factor": factor(),
    "factor the outer loop": factor(outer=True),
    "factor at the end": factor(1),
    "factor at a loop": factor(begin_at_loop=True),
    "factor by more than there is": factor(size=20),
    "factor the axis": factor_the_axis,
    "factor twice": factor_twice,
    "factor a cache": factor_a_cache,
    "inline": inline_all,
    "layouts": layouts,
}


@pytest.mark.parametrize("change", CHANGES)
def test_sums_of_rows(change):
    tensors, s, array, wanted = row_sums()
    CHANGES[change](s, *tensors)
    check(s, [tensors[0], tensors[3]], [array], wanted)


@pytest.mark.parametrize("change", ["write at a loop", "factor", "factor the axis", "inline"])
@pytest.mark.parametrize(("dtype", "begin"), [("float16", 0), ("int8", 0), ("float32", 3)])
def test_sums_in_other_dtypes_and_ranges(change, dtype, begin):
    tensors, s, array, wanted = row_sums(dtype, begin)
    CHANGES[change](s, *tensors)
    check(s, [tensors[0], tensors[3]], [array], wanted)


def argmax_program():
    def larger(x, y):
        wins = te.any(x[1] > y[1], te.all(x[1] == y[1], x[0] < y[0]))
        return tir.Select(wins, x[0], y[0]), tir.Select(wins, x[1], y[1])

    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    argmax = te.comm_reducer(
        larger, lambda t0, t1: (tir.const(1000, t0), tir.min_value(t1)), name="argmax"
    )
    index, value = te.compute((n,), lambda i: argmax((k, a[i, k]), axis=k), name="T")
    array = rng.permutation(n * m).reshape(n, m).astype("float32")
    return a, index, value, k, te.create_schedule(index.op), array


def tuple_cached(s, a, index, value, k):
    first, _ = s.cache_write([index, value], "global")
    s[first].compute_at(s[index], s[index].op.axis[0])


def tuple_factored(s, a, index, value, k):
    _, inner = s[index].split(k, 5)
    first, _ = s.rfactor(index, inner)
    s[first].compute_at(s[index], s[index].op.axis[0])


def tuple_cached_and_factored(s, a, index, value, k):
    first, _ = s.cache_write([index, value], "global")
    outer, _ = s[first].split(k, 5)
    s.rfactor(first, outer, 1)


def tuple_read(s, a, index, value, k):
    copy = s.cache_read(a, "global", [index])
    s[copy].compute_at(s[index], index.op.axis[0])


@pytest.mark.parametrize(
    "change", [tuple_cached, tuple_factored, tuple_cached_and_factored, tuple_read]
)
def test_tuple_reductions(change):
    a, index, value, k, s, array = argmax_program()
    change(s, a, index, value, k)
    check(s, [a, index, value], [array], array.argmax(1).astype("int32"), array.max(1))


@pytest.mark.parametrize("size", [4, 5])
def test_first_values_conditions_and_several_axes(size):
    a, first = te.placeholder((n, 3, m), name="A"), te.placeholder((n,), name="F")
    r, k = te.reduce_axis((0, 3), name="r"), te.reduce_axis((1, m), name="k")
    b = te.compute(
        (n,),
        lambda i: te.sum(a[i, r, k], axis=[r, k], where=r + k > 3, init=first[i]),
        name="B",
    )
    s = te.create_schedule(b.op)
    _, inner = s[b].split(s[b].fuse(r, k), size)
    s.rfactor(b, inner)
    array, start = values(n, 3, m), values(n)
    used = np.add.outer(np.arange(3), np.arange(m)) > 3
    used[:, 0] = False
    check(s, [a, first, b], [array, start], start + (array * used).sum((1, 2)))


def test_padding_is_inlined_into_a_stencil():
    a = te.placeholder((n, m), name="A")
    padded = te.compute(
        (n + 2, m + 2),
        lambda i, j: te.if_then_else(te.all(i >= 1, i <= n, j >= 1, j <= m), a[i - 1, j - 1], 0.0),
        name="P",
    )
    x, y = te.reduce_axis((0, 3), name="x"), te.reduce_axis((0, 3), name="y")
    b = te.compute((n, m), lambda i, j: te.sum(padded[i + x, j + y], axis=[x, y]), name="B")
    array = values(n, m)
    wide = np.pad(array, 1)
    wanted = sum(wide[i : i + n, j : j + m] for i in range(3) for j in range(3))

    def inlined(s):
        s[padded].compute_inline()

    def factored(s):
        s[padded].compute_inline()
        s.rfactor(b, y)

    def cached(s):
        copy = s.cache_read(padded, "global", [b])
        io, jo, _, _ = s[b].tile(*b.op.axis, 3, 4)
        s[copy].compute_at(s[b], jo)
        s[padded].compute_inline()

    for change in (inlined, factored, cached):
        s = te.create_schedule(b.op)
        change(s)
        check(s, [a, b], [array], wanted)


def test_several_results_with_different_bodies():
    a = te.placeholder((n,), name="A")
    b0, b1 = te.compute((n,), lambda i: (a[i] + 1.0, a[i].astype("int32") * 2), name="B")
    array = values(n)
    wanted = array + 1, array.astype("int32") * 2
    for change in (
        lambda s: None,
        lambda s: s.cache_write([b0, b1], "global"),
        lambda s: (s[b0].split(b0.op.axis[0], 3), s.cache_write([b0, b1], "global")),
    ):
        s = te.create_schedule(b0.op)
        change(s)
        check(s, [a, b0, b1], [array], *wanted)


def test_external_code_reads_copies_and_is_not_inlined():
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")

    def double(ins, outs):
        builder = tir.ir_builder.create()
        source, target = builder.buffer_ptr(ins[0]), builder.buffer_ptr(outs[0])
        with builder.for_range(0, n, name="i") as i:
            target[i] = source[i] * 2.0
        return builder.get()

    c = te.extern((n,), [b], double, name="C")
    d = te.compute((n,), lambda i: c[n - 1 - i] - 1.0, name="D")
    s = te.create_schedule(d.op)
    copy = s.cache_read(b, "global", [c])
    te.schedule.AutoInlineInjective(s)
    assert s[copy].attach_type == te.schedule.AttachType.GROUP_ROOT
    array = values(n)
    check(s, [a, d], [array], (array + 1)[::-1] * 2 - 1)


def adds_four():
    """An intrinsic that adds rows of four elements, as a statement."""
    x, y = te.placeholder((4,), name="x"), te.placeholder((4,), name="y")
    z = te.compute((4,), lambda i: x[i] + y[i], name="z")

    def add(ins, outs):
        builder = tir.ir_builder.create()
        left, right, total = [builder.buffer_ptr(one) for one in (*ins, *outs)]
        with builder.for_range(0, 4, name="lane") as lane:
            total[lane] = left[lane] + right[lane]
        return builder.get()

    views = {
        one: tir.decl_buffer((4,), name=one.op.name, offset_factor=1, strides=[1])
        for one in (x, y, z)
    }
    return te.decl_tensor_intrin(z.op, add, binds=views)


@pytest.mark.parametrize("inner", [False, True])
def test_tensors_that_intrinsics_make_and_read_are_cached(inner):
    a, b = te.placeholder((n, 4), name="A"), te.placeholder((n, 4), name="B")
    add = adds_four()
    c = te.compute((n, 4), lambda i: add(a[i, 0:4], b[n - 1 - i, 0:4]), name="C")
    s = te.create_schedule(c.op)
    cache = s.cache_write(c, "global")
    copy = s.cache_read(a, "global", [cache])
    if inner:
        s[cache].compute_at(s[c], s[c].op.axis[0])
        s[copy].compute_at(s[cache], s[cache].op.axis[0])
    left, right = values(n, 4), values(n, 4)
    check(s, [a, b, c], [left, right], left + right[::-1])


@pytest.mark.parametrize("function", ["AutoInlineElemWise", "AutoInlineBroadcast"])
def test_automatic_inlining(function):
    tensors, s, array, wanted = row_sums()
    getattr(te.schedule, function)(s)
    assert s[tensors[1]].attach_type == te.schedule.AttachType.INLINE
    check(s, [tensors[0], tensors[3]], [array], wanted)


def test_symbolic_sizes():
    size = te.var("n")
    a = te.placeholder((size, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    b = te.compute((size,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    s[b].split(b.op.axis[0], 4)
    cache = s.cache_write(b, "global")
    _, inner = s[cache].split(cache.op.reduce_axis[0], 5)
    s.rfactor(cache, inner)
    for count in (1, 4, 9):
        array = values(count, m)
        check(s, [a, b], [array], array.sum(1))


def test_compiled_code_does_the_same():
    tensors, s, array, wanted = row_sums()
    factor_a_cache(s, *tensors)
    check(s, [tensors[0], tensors[3]], [array], wanted, compiled=True)
    a, index, value, k, s, array = argmax_program()
    tuple_cached_and_factored(s, a, index, value, k)
    check(
        s, [a, index, value], [array], array.argmax(1).astype("int32"), array.max(1),
        compiled=True,
    )  # fmt: skip


@te.hybrid.script
def scaled(a):
    b = output_tensor(a.shape, a.dtype)  # noqa: F821
    for i in range(a.shape[0]):
        b[i] = a[i] * 2.0
    return b


@pytest.mark.parametrize(
    "function",
    [lambda s, b, c: s[b].compute_inline(), lambda s, b, c: s.cache_read(b, "global", [c])],
)
def test_hybrid_scripts_read_expressions_and_copies(function):
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[n - 1 - i] + 1.0, name="B")
    c = scaled(b)
    d = te.compute((n,), lambda i: c[i] - 1.0, name="D")
    s = te.create_schedule(d.op)
    function(s, b, c)
    array = values(n)
    check(s, [a, d], [array], (array[::-1] + 1) * 2 - 1)

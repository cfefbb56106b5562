"""Schedules do not change results: each one against numpy, in the interpreter; some built too."""

import numpy as np
import pytest

from tests.te.schedule.programs import check, convolution, rng, rows
from tilesmith import build, nd, te, tir


def whole(s, P, C):
    pass


def tiles(s, P, C):
    _, x_outer, _, _ = s[C].tile(*C.op.axis, 4, 5)
    s[P].compute_at(s[C], x_outer)


def inside_the_reduction(s, P, C):
    y, x = C.op.axis
    ry, rx = C.op.reduce_axis
    xo, xi = s[C].split(x, factor=4)
    s[C].reorder(y, xo, ry, rx, xi)
    s[P].compute_at(s[C], ry)
    s[C].vectorize(xi)


def fused_and_split(s, P, C):
    fused = s[C].fuse(*C.op.axis)
    outer, inner = s[C].split(fused, factor=7)
    s[P].compute_at(s[C], outer)
    s[C].parallel(outer)
    parts = s[P].fuse(*P.op.axis)
    s[P].split(parts, nparts=3)


def split_twice(s, P, C):
    y, x = C.op.axis
    outer, inner = s[C].split(y, factor=5)
    s[C].split(inner, factor=2)
    a, b = s[C].split(x, nparts=4)
    s[C].split(a, nparts=3)
    s[P].compute_at(s[C], outer)
    s[P].unroll(P.op.axis[0])


def reduction_first(s, P, C):
    y, x = C.op.axis
    ry, rx = C.op.reduce_axis
    s[C].reorder(ry, y, rx, x)
    both = s[C].fuse(rx, x)
    s[C].split(both, factor=4)


def inlined(s, P, C):
    s[P].compute_inline()
    s[C].reorder(*C.op.reduce_axis, *C.op.axis)


def rolling(s, P, C):
    s[P].compute_at(s[C], C.op.axis[0])
    s[P].rolling_buffer()


def double(s, P, C):
    outer, _ = s[C].split(C.op.axis[0], factor=3)
    s[P].compute_at(s[C], outer)
    s[P].double_buffer()
    s[P].storage_align(P.op.axis[0], 8, 3)


SCHEDULES = [
    whole, tiles, inside_the_reduction, fused_and_split, split_twice, reduction_first, inlined,
    rolling, double,
]  # fmt: skip


@pytest.mark.parametrize("primitives", SCHEDULES, ids=lambda one: one.__name__)
@pytest.mark.parametrize("n", [9, 8])
def test_schedules_of_a_convolution_give_its_result(primitives, n):
    A, W, P, C, inputs, wanted = convolution(n)
    s = te.create_schedule(C.op)
    primitives(s, P, C)
    check(s, [A, W, C], wanted, *inputs)


@pytest.mark.parametrize("primitives", [tiles, inside_the_reduction, fused_and_split, rolling])
def test_built_schedules_give_the_result(primitives):
    A, W, P, C, inputs, wanted = convolution()
    s = te.create_schedule(C.op)
    primitives(s, P, C)
    out = nd.array(np.zeros_like(wanted))
    build(s, [A, W, C], target="llvm")(*[nd.array(one) for one in inputs], out)
    np.testing.assert_allclose(out.numpy(), wanted, rtol=1e-5)


def test_a_group_is_computed_where_it_is_placed():
    A, D, C, a, _ = rows()
    E = te.compute(D.shape, lambda i, j: D[i, j] + A[i, j], name="E")
    k = te.reduce_axis((0, 7), name="k")
    F = te.compute((9,), lambda i: te.sum(E[i, k], axis=k), name="F")
    s = te.create_schedule(F.op)
    group = s.create_group(outputs=E, inputs=A, include_inputs=False)
    group.compute_at(s[F], k)
    bounds = te.schedule.InferBound(s)
    assert all(bounds[axis].extent.value == 1 for axis in (*D.op.axis, *E.op.axis))
    check(s, [A, F], (a * 3 + 1).sum(1), a)


def test_stages_at_stages_that_are_placed_themselves():
    A, D, C, a, wanted = rows(12, 6)
    E = te.compute((12,), lambda i: C[i] * 3.0, name="E")
    s = te.create_schedule(E.op)
    outer, _ = s[E].split(E.op.axis[0], factor=4)
    s[C].compute_at(s[E], outer)
    s[D].compute_at(s[C], C.op.axis[0])
    bounds = te.schedule.InferBound(s.normalize())
    extents = [bounds[axis].extent.value for axis in (*C.op.axis, *D.op.axis)]
    assert extents == [4, 1, 6]
    check(s, [A, E], wanted * 3, a)


def test_several_consumers_get_what_all_of_them_need():
    A = te.placeholder((10,), name="A")
    D = te.compute((10,), lambda i: A[i] * 2.0, name="D")
    E = te.compute((8,), lambda i: D[i] + 1.0, name="E")
    F = te.compute((8,), lambda i: D[i + 2] + E[i], name="F")
    s = te.create_schedule(F.op)
    outer, _ = s[F].split(F.op.axis[0], factor=4)
    s[E].compute_at(s[F], outer)
    s[D].compute_at(s[F], outer)
    bounds = te.schedule.InferBound(s)
    assert bounds[D.op.axis[0]].extent.value == 6
    a = rng.random(10, dtype="float32")
    check(s, [A, F], a[2:] * 2 + a[:8] * 2 + 1, a)


def test_a_tuple_reduction_finds_value_and_place():
    A = te.placeholder((5, 9), name="A")
    k = te.reduce_axis((0, 9), name="k")

    def larger(x, y):
        is_left = te.any(x[1] > y[1], te.all(x[1] == y[1], x[0] < y[0]))
        return te.Select(is_left, x[0], y[0]), te.Select(is_left, x[1], y[1])

    argmax = te.comm_reducer(
        larger, lambda t0, t1: (te.const(2**30, t0), te.min_value(t1)), name="argmax"
    )
    value = lambda i: argmax((k.var, A[i, k]), axis=k)
    T0, T1 = te.compute((5,), value, name="T")
    P = te.compute((5,), lambda i: T0[i] * 2, name="P")
    a = rng.random((5, 9), dtype="float32")
    s = te.create_schedule(P.op)
    s[T0].split(k, factor=4)
    check(s, [A, P], a.argmax(1) * 2, a)
    s = te.create_schedule(P.op)
    _, ki = s[T0].split(k, factor=4)
    s[T0].bind(ki, te.thread_axis("threadIdx.x"))
    check(s, [A, P], a.argmax(1) * 2, a)


def test_a_condition_of_a_reduction_holds_for_each_value():
    A = te.placeholder((6, 8), name="A")
    k = te.reduce_axis((0, 8), name="k")
    C = te.compute((6,), lambda i: te.sum(A[i, k], axis=k, where=k <= i), name="C")
    s = te.create_schedule(C.op)
    s[C].split(k, factor=3)
    a = rng.random((6, 8), dtype="float32")
    check(s, [A, C], np.tril(a).sum(1), a)


def test_sizes_come_from_shapes_and_scalars_are_arguments():
    n, x = te.var("n"), te.var("x", "float32")
    A = te.placeholder((n,), name="A")
    D = te.compute((n,), lambda i: A[i] + x, name="D")
    C = te.compute((n,), lambda i: D[i] * 2.0, name="C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], factor=8)
    s[C].vectorize(inner)
    s[D].compute_at(s[C], outer)
    built = build(s, [A, x, C], target="llvm", name="scaled")
    for size in (1, 8, 19):
        a, out = rng.random(size, dtype="float32"), nd.array(np.zeros(size, "float32"))
        built["scaled"](nd.array(a), 1.5, out)
        np.testing.assert_allclose(out.numpy(), (a + 1.5) * 2, rtol=1e-6)


def test_tensors_are_bound_to_given_buffers():
    A = te.placeholder((4, 6), name="A")
    C = te.compute((4, 6), lambda i, j: A[i, j] + 1.0, name="C")
    s = te.create_schedule(C.op)
    given = tir.decl_buffer((4, 6), "float32", name="given", strides=[8, 1])
    built = build(s, [given, C], binds={A: given}, target="llvm")
    a = rng.random((4, 8), dtype="float32")
    out = nd.array(np.zeros((4, 6), "float32"))
    built(a[:, :6], out)
    np.testing.assert_allclose(out.numpy(), a[:, :6] + 1)


def test_statements_over_buffers_are_stages():
    A = te.placeholder((4, 6), name="A")
    D = te.compute((4, 6), lambda i, j: A[i, j] * 2.0, name="D")

    def negated(ins, outs):
        builder = tir.ir_builder.create()
        read, write = builder.buffer_ptr(ins[0]), builder.buffer_ptr(outs[0])
        with builder.for_range(0, 4, name="i") as i:
            with builder.for_range(0, 6, name="j") as j:
                write[i, j] = -read[i, j]
        return builder.get()

    E = te.extern((4, 6), [D], negated, name="E", dtype="float32")
    C = te.compute((4, 6), lambda i, j: E[i, j] + 1.0, name="C")
    s = te.create_schedule(C.op)
    a = rng.random((4, 6), dtype="float32")
    check(s, [A, C], 1 - a * 2, a)


def test_layouts_of_results_change_with_their_loops():
    A = te.placeholder((8, 6), name="A")
    C = te.compute((8, 6), lambda i, j: A[i, j] + 1.0, name="C")
    s = te.create_schedule(C.op)
    s[C].transform_layout(lambda i, j: [i // 4, j, i % 4])
    a = rng.random((8, 6), dtype="float32")
    wanted = (a + 1).reshape(2, 4, 6).transpose(0, 2, 1)
    out = nd.array(np.zeros((2, 6, 4), "float32"))
    build(s, [A, C], target="llvm")(nd.array(a), out)
    np.testing.assert_allclose(out.numpy(), wanted)


def test_readable_c():
    A = te.placeholder((10,), name="A")
    C = te.compute((10,), lambda x: A[x] + A[x], name="C")
    s = te.create_schedule(C.op)
    s[C].split(C.op.axis[0], factor=5)
    source = build(s, [A, C], target="c", name="hello").get_source()
    assert source.count("for (") == 2
    for line in ("for (int32_t x_outer = 0; x_outer < 2", "for (int32_t x_inner = 0; x_inner < 5"):
        assert line in source


def test_readers_of_a_copy_may_read_each_other():
    A = te.placeholder((8,), name="A")
    D = te.compute((8,), lambda i: A[i] + 1.0, name="D")
    E = te.compute((8,), lambda i: D[i] * 2.0, name="E")
    C = te.compute((8,), lambda i: D[i] + E[i], name="C")
    s = te.create_schedule(C.op)
    s.cache_read(D, "global", [E, C])
    a = rng.random(8, dtype="float32")
    check(s, [A, C], (a + 1) * 3, a)

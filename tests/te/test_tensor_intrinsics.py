"""Tensor intrinsics: their declaration, tensorized loops, te.compute of intrinsic calls."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith
from tilesmith import te, tir
from tilesmith.support.errors import ScheduleError, ShapeError, TypeMismatchError
from tilesmith.tir import interpreter


def declared(buffers, tensors, statements, name="gemv", **options):
    return te.decl_tensor_intrin(
        tensors[-1].op, statements, name=name, binds=dict(zip(tensors, buffers)), **options
    )


def loops(outer, inner, emit):
    """Return two nested loops around a statement."""
    ib = tir.ir_builder.create()
    with ib.for_range(0, outer, "p") as p:
        with ib.for_range(0, inner, "q") as q:
            ib.emit(emit(p, q))
    return ib.get()


def gemv(m, depth, bodies="all", dtype="float32", strides=True):
    """c[i] = sum(a[k] * b[i, k]), by loops over the buffers."""
    a, b = te.placeholder((depth,), dtype, "a"), te.placeholder((m, depth), dtype, "b")
    k = te.reduce_axis((0, depth), "k")
    c = te.compute((m,), lambda i: te.sum(a[k] * b[i, k], axis=k), name="c")
    step = [te.var("step"), 1] if strides else None
    buffers = [
        tir.decl_buffer(a.shape, dtype, "a", offset_factor=1, strides=[1]),
        tir.decl_buffer(b.shape, dtype, "b", offset_factor=1, strides=step),
        tir.decl_buffer(c.shape, dtype, "c", offset_factor=1, strides=[1]),
    ]

    def statements(ins, outs):
        (x, y), (z,) = ins, outs

        def add(p, q):
            return z.vstore([p], z.vload([p]) + x.vload([q]) * y.vload([p, q]))

        reset = loops(m, 1, lambda p, q: z.vstore([p], tir.const(0, dtype)))
        update = loops(m, depth, add)
        whole = tir.stmt_seq(reset, update)
        return {
            "all": (whole, reset, update),
            "whole": whole,
            "parts": (None, reset, update),
            "no start": (whole, None, update),
        }[bodies]

    return declared(buffers, [a, b, c], statements)


class Product:
    """C = A B^T."""

    def __init__(self, n=4, m=6, depth=8):
        self.A, self.B = te.placeholder((n, depth), name="A"), te.placeholder((m, depth), name="B")
        self.k = te.reduce_axis((0, depth), "k")
        self.C = te.compute(
            (n, m),
            lambda i, j: te.sum(self.A[i, self.k] * self.B[j, self.k], axis=self.k),
            name="C",
        )
        self.s = te.create_schedule(self.C.op)
        self.x, self.y = self.C.op.axis

    def check(self):
        generator = np.random.default_rng(0)
        a, b = [
            generator.random([int(n) for n in one.shape], dtype="float32")
            for one in (self.A, self.B)
        ]
        c = np.full((len(a), len(b)), np.nan, "float32")
        module = tilesmith.lower(self.s, [self.A, self.B, self.C], simple_mode=True)
        interpreter.run(module["main"], a, b, c)
        np.testing.assert_allclose(c, a @ b.T, rtol=1e-5)
        return str(module)


@pytest.mark.parametrize("bodies", ["all", "whole", "parts"])
def test_all_of_a_reduction_inside(bodies):
    p = Product()
    outer, inner = p.s[p.C].split(p.y, 3)
    p.s[p.C].reorder(p.x, outer, inner, p.k)
    p.s[p.C].tensorize(inner, gemv(3, 8, bodies))
    text = p.check()
    assert "for x, y_outer" in text or "for i, j_outer" in text


@pytest.mark.parametrize("bodies", ["all", "parts", "no start"])
@pytest.mark.parametrize("order", ["k outside", "k inside"])
def test_a_reduction_around(bodies, order):
    p = Product()
    outer, inner = p.s[p.C].split(p.y, 2)
    around, inside = p.s[p.C].split(p.k, 4)
    if order == "k outside":
        p.s[p.C].reorder(around, p.x, outer, inner, inside)
    else:
        p.s[p.C].reorder(p.x, outer, around, inner, inside)
    p.s[p.C].tensorize(inner, gemv(2, 4, bodies))
    p.check()


def test_factors_in_the_other_order_and_one_tensor_twice():
    A, k = te.placeholder((4, 8), name="A"), te.reduce_axis((0, 8), "k")
    C = te.compute((4, 4), lambda i, j: te.sum(A[j, k] * A[i, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    s[C].tensorize(C.op.axis[1], gemv(4, 8))
    a, c = np.random.default_rng(0).random((4, 8), dtype="float32"), np.zeros((4, 4), "float32")
    interpreter.run(tilesmith.lower(s, [A, C], simple_mode=True)["main"], a, c)
    np.testing.assert_allclose(c, a @ a.T, rtol=1e-5)


def test_stages_around_tensorized_loops():
    p = Product()
    AA = p.s.cache_read(p.A, "global", [p.C])
    CC = p.s.cache_write(p.C, "global")
    x, y = p.s[p.C].op.axis
    p.s[CC].compute_at(p.s[p.C], x)
    xc, yc = p.s[CC].op.axis
    (k,) = p.s[CC].op.reduce_axis
    outer, inner = p.s[CC].split(k, 4)
    p.s[CC].reorder(outer, xc, yc, inner)
    p.s[AA].compute_at(p.s[CC], outer)
    p.s[CC].tensorize(yc, gemv(6, 4))
    p.check()


def increment(n, **options):
    a, factor = te.placeholder((n,), name="a"), te.var("factor", "float32")
    b = te.compute((n,), lambda i: a[i] * factor, name="b")

    def statements(ins, outs, scalars):
        return loops(n, 1, lambda p, q: outs[0].vstore([p], ins[0].vload([p]) * scalars[0]))

    return te.decl_tensor_intrin(b.op, statements, scalar_params=[factor], **options)


@pytest.mark.parametrize("axes", [1, 2])
def test_a_computation_of_calls(axes):
    A, S = te.placeholder((4, 24), name="A"), te.placeholder((4,), name="S")
    scale = increment(8)
    if axes == 1:  # the other dimension is the intrinsic's
        rows = te.compute((4, 24), lambda i: increment(24)(A[i, 0:24], S[i]), name="rows")
    else:
        rows = te.compute(
            (4, 3, 8), lambda i, j: scale(A[i, j * 8 : j * 8 + 8], S[i] + 0.0), name="rows"
        )
    last = rows.ndim
    out = te.compute(rows.shape, lambda *i: rows[i] + 1.0, name="out")
    s = te.create_schedule(out.op)
    s[rows].compute_at(s[out], out.op.axis[0])
    a = np.random.default_rng(0).random((4, 24), dtype="float32")
    factors = np.arange(4, dtype="float32")
    expected = (a * factors[:, None] + 1).reshape([int(n) for n in out.shape])
    for program in (
        tilesmith.lower(s, [A, S, out], simple_mode=True)["main"],
        te.create_prim_func([A, S, out]),
    ):
        found = np.zeros_like(expected)
        interpreter.run(program, a, factors, found)
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert last == axes + 1


@pytest.mark.parametrize("bodies", ["all", "no start"])
def test_a_computation_of_calls_that_reduces(bodies):
    A, B = te.placeholder((5, 8), name="A"), te.placeholder((6, 8), name="B")
    dot = gemv(6, 4, bodies)
    k = te.reduce_axis((0, 2), "k")
    C = te.compute(
        (5, 6),
        lambda i: dot(A[i, k * 4 : k * 4 + 4], B[0:6, k * 4 : k * 4 + 4], reduce_axis=k),
        name="C",
    )
    generator = np.random.default_rng(0)
    a, b = generator.random((5, 8), dtype="float32"), generator.random((6, 8), dtype="float32")
    programs = [tilesmith.lower(te.create_schedule(C.op), [A, B, C], simple_mode=True)["main"]]
    if bodies == "all":
        programs.append(te.create_prim_func([A, B, C]))
    for program in programs:
        c = np.full((5, 6), np.nan, "float32")
        interpreter.run(program, a, b, c)
        np.testing.assert_allclose(c, a @ b.T, rtol=1e-5)


def test_the_update_of_a_scan():
    X, state = te.placeholder((3, 16), name="X"), te.placeholder((3, 16), name="state")
    init = te.compute((1, 16), lambda _, i: X[0, i])
    update = te.compute((3, 16), lambda t, i: state[t - 1, i] + X[t, i], name="update")
    out = te.scan(init, update, state, inputs=[X])
    a, b = te.placeholder((8,), name="a"), te.placeholder((8,), name="b")
    c = te.compute((8,), lambda i: a[i] + b[i], name="c")

    def statements(ins, outs):
        sums = [buffer.vload([0], "float32x8") for buffer in ins]
        return outs[0].vstore([0], sums[0] + sums[1])

    s = te.create_schedule(out.op)
    _, inner = s[update].split(update.op.axis[1], 8)
    s[update].tensorize(inner, te.decl_tensor_intrin(c.op, statements))
    x = np.random.default_rng(0).random((3, 16), dtype="float32")
    found = np.zeros_like(x)
    interpreter.run(tilesmith.lower(s, [X, out], simple_mode=True)["main"], x, found)
    np.testing.assert_allclose(found, np.cumsum(x, 0), rtol=1e-5)


def tensorized(schedule, intrin, program=None):
    p = program or Product()
    p.s[p.C].tensorize(schedule(p), intrin)
    return p.check()


def split(factor):
    def primitives(p):
        outer, inner = p.s[p.C].split(p.y, factor)
        p.s[p.C].reorder(p.x, outer, inner, p.k)
        return inner

    return primitives


def strided(p):
    outer, inner = p.s[p.C].split(p.y, 3)
    p.s[p.C].reorder(p.x, inner, outer, p.k)
    return outer


def threaded(p):
    p.s[p.C].bind(p.y, te.thread_axis("threadIdx.x"))
    return p.y


def largest(m, depth):
    a = te.placeholder((m, depth), name="a")
    k = te.reduce_axis((0, depth), "k")
    c = te.compute((m,), lambda i: te.max(a[i, k], axis=k), name="c")
    return te.decl_tensor_intrin(c.op, lambda ins, outs: tir.Evaluate(0))


@pytest.mark.parametrize(
    ("message", "make"),
    [
        ("values of 'j', the intrinsic over 5 values", lambda: tensorized(split(3), gemv(5, 8))),
        ("combines values in another way", lambda: tensorized(split(3), largest(3, 8))),
        ("do not count", lambda: tensorized(split(4), gemv(4, 8))),
        ("do not run over neighbouring", lambda: tensorized(strided, gemv(2, 8))),
        ("runs on threads", lambda: tensorized(threaded, gemv(6, 8))),
        ("a tensor intrinsic is needed", lambda: tensorized(split(3), 7)),
        ("takes scalars", lambda: tensorized(split(3), increment(3))),
        ("something else", lambda: tensorized(split(3), shifted(3, 8))),
    ],
)
def test_tensorize_refuses_what_is_not_the_same(message, make):
    with pytest.raises(ScheduleError, match=message) as caught:
        make()
    text = str(caught.value)
    assert "tensorize: stage 'C'" in text and caught.value.place.file == __file__
    if "is not that of" in text:
        assert "the loops:     C[i, j] = reduce(A[i, k] * B[j, k]" in text
        assert "the intrinsic: c[i] = " in text


def shifted(m, depth):
    a, b = te.placeholder((depth,), name="a"), te.placeholder((m, depth), name="b")
    k = te.reduce_axis((0, depth), "k")
    c = te.compute((m,), lambda i: te.sum(a[k] * b[i, depth - 1 - k], axis=k), name="c")
    return te.decl_tensor_intrin(c.op, lambda ins, outs: tir.Evaluate(0))


def by_pointer(m, depth, strides):
    a, b = te.placeholder((depth,), name="a"), te.placeholder((m, depth), name="b")
    k = te.reduce_axis((0, depth), "k")
    c = te.compute((m,), lambda i: te.sum(a[k] * b[i, k], axis=k), name="c")
    buffer = tir.decl_buffer(b.shape, name="b", offset_factor=1, strides=strides)

    def statements(ins, outs):
        pointers = [one.access_ptr("rw") for one in (*ins, *outs)]
        call = tir.call_extern("int32", "gemv", *pointers, ins[1].elem_offset)
        return call, call, call

    return te.decl_tensor_intrin(c.op, statements, binds={b: buffer})


def test_pointers_into_rows():
    def program(strides):
        p = Product()
        outer, inner = p.s[p.C].split(p.k, 4)
        p.s[p.C].reorder(p.x, outer, p.y, inner)
        p.s[p.C].tensorize(p.y, by_pointer(6, 4, strides))
        return str(tilesmith.lower(p.s, [p.A, p.B, p.C], simple_mode=True))

    assert "B.data, k_outer * 4, 48, 3" in program([te.var("s"), 1])
    with pytest.raises(ShapeError, match="the stride 8 where 4 is needed"):
        program(None)
    with pytest.raises(ShapeError, match="is said to have the stride 5, it has 8"):
        program([5, 1])


A = te.placeholder((4, 24), name="A")
WHOLE = te.placeholder((4, 24), "int32", name="I")
B = te.compute((24,), lambda i: A[0, i] * 2.0, name="B")


@pytest.mark.parametrize(
    ("kind", "message", "make"),
    [
        (ShapeError, "takes 1 tensors and 1 scalars, got 1 and 0", lambda: increment(8)(A[0, 0:8])),
        (TypeMismatchError, "takes float32 for 'a'", lambda: increment(8)(WHOLE[0, 0:8], 1.0)),
        (ShapeError, "has 2 dimensions, got 3 indices", lambda: increment(8)(A[0, 0, 0:8], 1.0)),
        (TypeMismatchError, "has the step 2", lambda: increment(8)(A[0, 0:8:2], 1.0)),
        (TypeMismatchError, "and reduce_axis, got 'axis'",
         lambda: increment(8)(A[0, 0:8], 1.0, axis=3)),
        (TypeMismatchError, "computes the operation of te.compute",
         lambda: te.decl_tensor_intrin(A.op, lambda i, o: None)),
        (TypeMismatchError, "reads 'B', which is computed", lambda: te.decl_tensor_intrin(
            te.compute((24,), lambda i: B[i]).op, lambda i, o: None)),
        (TypeMismatchError, "gave 2 statements", lambda: te.decl_tensor_intrin(
            B.op, lambda i, o: (tir.Evaluate(0), tir.Evaluate(0)))),
        (TypeMismatchError, "a statement or a call is needed", lambda: te.decl_tensor_intrin(
            B.op, lambda i, o: 3.5)),
        (TypeMismatchError, "nothing that computes the whole", lambda: te.decl_tensor_intrin(
            B.op, lambda i, o: (None, None, tir.Evaluate(0)))),
        (ShapeError, "leaves 2 dimensions to the intrinsic", lambda: te.compute(
            (2, 4, 8), lambda i: increment(8)(A[i, 0:8], 1.0))),
    ],
)  # fmt: skip
def test_refusals_of_declarations_and_calls(kind, message, make):
    with pytest.raises(kind, match=message) as caught:
        make()
    assert caught.value.place.file == __file__

"""te.extern in classic schedules and in PrimFuncs: packed functions, statements, PrimFuncs."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith
from tilesmith import te, tir
from tilesmith.script import tir as T
from tilesmith.support.errors import ShapeError, TypeMismatchError
from tilesmith.tir import interpreter

A = te.placeholder((5, 3), name="A")


def programs(arguments, output):
    """Return the functions of the schedule and of create_prim_func."""
    s = te.create_schedule([one.op for one in output])
    lowered = tilesmith.lower(s, arguments, simple_mode=True)["main"]
    return [lowered, te.create_prim_func(arguments)]


@tilesmith.register_func("tests.te.extern.double")
def double(x, y):
    y.copyfrom(x.numpy() * 2)


@pytest.mark.parametrize("way", ["schedule", "prim func"])
def test_a_registered_function(way):
    doubled = te.extern(
        A.shape,
        [A],
        lambda ins, outs: tir.call_packed("tests.te.extern.double", ins[0], outs[0]),
        name="doubled",
    )
    out = te.compute((5, 3), lambda i, j: doubled[i, j] + 1.0, name="out")
    if way == "schedule":
        built = tilesmith.build(te.create_schedule(out.op), [A, out], target="llvm")
    else:
        built = tilesmith.build(te.create_prim_func([A, out]), target="llvm")
    a = np.random.default_rng(0).random((5, 3), dtype="float32")
    result = tilesmith.nd.array(np.zeros_like(a))
    built(tilesmith.nd.array(a), result)
    np.testing.assert_allclose(result.numpy(), a * 2 + 1, rtol=1e-6)


def sums_and_signs(ins, outs):
    """Sums over rows, and the signs of the elements."""
    ib = tir.ir_builder.create()
    x, sums, signs = [ib.buffer_ptr(one) for one in (*ins, *outs)]
    with ib.for_range(0, 5, "i") as i:
        sums[i] = 0.0
        with ib.for_range(0, 3, "j") as j:
            sums[i] = sums[i] + x[i, j]
            signs[i, j] = tir.Select(x[i, j] < 0.0, -1, 1)
    return ib.get()


def test_several_outputs_by_a_statement():
    sums, signs = te.extern(
        [(5,), (5, 3)], [A], sums_and_signs, name="parts", dtype=["float32", "int32"]
    )
    out = te.compute((5, 3), lambda i, j: sums[i] * signs[i, j].astype("float32"), name="out")
    a = np.random.default_rng(0).normal(size=(5, 3)).astype("float32")
    for program in programs([A, out], [out]):
        found = np.zeros_like(a)
        interpreter.run(program, a, found)
        np.testing.assert_allclose(found, a.sum(1)[:, None] * np.where(a < 0, -1, 1), rtol=1e-5)
    for program in programs([A, sums, signs], [sums]):
        found = [np.zeros(5, "float32"), np.zeros((5, 3), "int32")]
        interpreter.run(program, a, *found)
        np.testing.assert_allclose(found[0], a.sum(1), rtol=1e-5)
        np.testing.assert_array_equal(found[1], np.where(a < 0, -1, 1))


def test_buffers_that_are_given():
    source = tir.decl_buffer((5, 3), name="source", strides=[te.var("s"), 1], offset_factor=1)
    target = tir.decl_buffer((5, 3), name="target", strides=[te.var("t"), 1], offset_factor=1)

    def copy(ins, outs):
        ib = tir.ir_builder.create()
        with ib.for_range(0, 5, "i") as i:
            with ib.for_range(0, 3, "j") as j:
                ib.emit(outs[0].vstore([i, j], ins[0].vload([4 - i, j]) * 2.0))
        return ib.get()

    shifted = te.compute((5, 3), lambda i, j: A[i, j] + 1.0, name="shifted")
    out = te.extern((5, 3), [shifted], copy, in_buffers=[source], out_buffers=[target], name="out")
    a = np.random.default_rng(0).random((5, 3), dtype="float32")
    for program in programs([A, out], [out]):
        found = np.zeros_like(a)
        interpreter.run(program, a, found)
        np.testing.assert_allclose(found, (a[::-1] + 1) * 2, rtol=1e-6)


@T.prim_func
def increment(X: T.Buffer((5, 3), "float32"), Y: T.Buffer((5, 3), "float32")):
    T.func_attr({"global_symbol": "increment"})
    for i, j in T.grid(5, 3):
        with T.block("Y"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = X[vi, vj] + T.float32(1)


def test_a_prim_func_twice():
    first = te.extern_primfunc([A], increment)
    second = te.extern_primfunc([first], increment, name="again")
    a = np.random.default_rng(0).random((5, 3), dtype="float32")
    for program in programs([A, second], [second]):
        found = np.zeros_like(a)
        interpreter.run(program, a, found)
        np.testing.assert_allclose(found, a + 2, rtol=1e-6)
    assert (first.op.name, second.op.name) == ("increment", "again")


@pytest.mark.parametrize(
    ("kind", "message", "make"),
    [
        (TypeMismatchError, "a statement or a call is needed",
         lambda: te.extern((5,), [A], lambda ins, outs: 3.5)),
        (TypeMismatchError, "needs a dtype", lambda: te.extern(
            (5,), [], lambda ins, outs: tir.Evaluate(0))),
        (ShapeError, "leave none for", lambda: te.extern_primfunc([A, A], increment)),
    ],
)  # fmt: skip
def test_refusals(kind, message, make):
    with pytest.raises(kind, match=message) as caught:
        make()
    assert caught.value.place.file == __file__

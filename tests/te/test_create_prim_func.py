"""Tensor expressions and the functions that they become."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith
from tilesmith import te, tir
from tilesmith.ir import assert_structural_equal
from tilesmith.script import tir as T
from tilesmith.support.errors import ShapeError, TypeMismatchError
from tilesmith.tir import interpreter


def test_elementwise_and_reduction():
    a = te.placeholder((8, 6), name="A")
    k = te.reduce_axis((0, 6), name="k")
    rows = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="rows")
    out = te.compute((8,), lambda i: rows[i] * 2.0, name="out")

    @T.prim_func
    def main(A: T.Buffer((8, 6), "float32"), result: T.Buffer((8,), "float32")):
        T.func_attr({"tir.noalias": True})
        rows = T.alloc_buffer((8,), "float32")
        for i, k in T.grid(8, 6):
            with T.block("rows"):
                v_i, v_k = T.axis.remap("SR", [i, k])
                with T.init():
                    rows[v_i] = T.float32(0)
                rows[v_i] = rows[v_i] + A[v_i, v_k]
        for i in range(8):
            with T.block("out"):
                v_i = T.axis.spatial(8, i)
                result[v_i] = rows[v_i] * T.float32(2)

    assert_structural_equal(te.create_prim_func([a, out]), main)


def test_symbolic_sizes_keep_their_dtype_or_take_another():
    n = te.var("n")
    a = te.placeholder((n, 4), name="A")
    b = te.compute((n, 4), lambda i, j: a[i, j] + 1.0, name="B")
    function = te.create_prim_func([a, b])
    assert function.buffers[0].shape[0].dtype == "int32"
    wide = te.create_prim_func([a, b], index_dtype_override="int64")
    assert wide.buffers[0].shape[0].dtype == wide.buffers[1].shape[1].dtype == "int64"
    for one in (function, wide):
        x, y = np.ones((3, 4), "float32"), np.zeros((3, 4), "float32")
        interpreter.run(one, x, y)
        np.testing.assert_array_equal(y, x + 1)


def test_scalars_among_the_arguments():
    factor = te.var("factor", "float32")
    a = te.placeholder((5,), name="A")
    b = te.compute((5,), lambda i: a[i] * factor, name="B")
    x, y = np.arange(5, dtype="float32"), np.zeros(5, "float32")
    interpreter.run(te.create_prim_func([a, factor, b]), x, 3.0, y)
    np.testing.assert_array_equal(y, x * 3)


def test_a_tensor_without_dimensions():
    a = te.placeholder((7,), name="A")
    k = te.reduce_axis((0, 7), name="k")
    total = te.compute((), lambda: te.max(a[k], axis=k), name="total")
    x, y = np.random.default_rng(0).random(7).astype("float32"), np.zeros((), "float32")
    interpreter.run(te.create_prim_func([a, total]), x, y)
    assert y == x.max()


def test_extern_operations():
    a = te.placeholder((6,), name="A")

    def body(inputs, outputs):
        i = tir.Var("i", "int32")
        return tir.For(i, 0, 6, 0, tir.BufferStore(outputs[0], inputs[0][i] + 1.0, [i]))

    b = te.extern((6,), [a], body, name="B")
    c = te.compute((6,), lambda i: b[i] * 2.0, name="C")
    x, y = np.arange(6, dtype="float32"), np.zeros(6, "float32")
    interpreter.run(te.create_prim_func([a, c]), x, y)
    np.testing.assert_array_equal(y, (x + 1) * 2)


def test_arithmetic_of_whole_tensors_is_elementwise():
    a, b = te.placeholder((3,), name="A"), te.placeholder((3,), name="B")
    c = (a + b) * 2.0 - a / b
    x, y, z = np.ones(3, "float32"), np.full(3, 4, "float32"), np.zeros(3, "float32")
    interpreter.run(te.create_prim_func([a, b, c]), x, y, z)
    np.testing.assert_allclose(z, (x + y) * 2 - x / y)


def test_names_are_unique():
    a = te.placeholder((3,), name="A")
    first = te.compute((3,), lambda i: a[i] + 1.0, name="T")
    second = te.compute((3,), lambda i: first[i] + 1.0, name="T")
    text = te.create_prim_func([a, second]).script()
    assert 'T.block("T")' in text and 'T.block("T_1")' in text


def test_wrong_programs_are_said():
    a = te.placeholder((3, 4), name="A")
    with pytest.raises(ShapeError, match="2 dimensions, got 1"):
        te.compute((3,), lambda i: a(i))
    with pytest.raises(ShapeError, match="indices"):
        te.compute((3, 4), lambda i: a[i, i])
    b = te.compute((3,), lambda i: a[i, 0], name="B")
    with pytest.raises(TypeMismatchError, match="placeholder 'A'"):
        te.create_prim_func([b])


def test_results_that_are_no_reduction_have_blocks_of_their_own():
    a = te.placeholder((4, 5), name="A")
    both = te.compute((4, 5), lambda i, j: (a[i, j] + 1, a[i, j] * 2), name="BC")
    func = te.create_prim_func([a, *both])
    schedule = tilesmith.tir.Schedule(func)
    loops = schedule.get_loops("BC_v0")
    assert [schedule.get(loop) for loop in loops] == [
        schedule.get(loop) for loop in schedule.get_loops("BC_v1")
    ]
    values = np.random.default_rng(0).random((4, 5)).astype("float32")
    for built in (tilesmith.build(func), tilesmith.build(schedule.mod)):
        first, second = tilesmith.nd.empty((4, 5)), tilesmith.nd.empty((4, 5))
        built(values, first, second)
        np.testing.assert_array_equal(first.numpy(), values + 1)
        np.testing.assert_array_equal(second.numpy(), values * 2)


def test_several_results_without_axes():
    a = te.placeholder((2,), name="A")
    func = te.create_prim_func([a, *te.compute((), lambda: (a[0], a[1]), name="both")])
    first, second = tilesmith.nd.empty(()), tilesmith.nd.empty(())
    tilesmith.build(func)(np.array([3, 4], "float32"), first, second)
    assert (first.numpy(), second.numpy()) == (3, 4)


def test_inputs_whose_layout_is_free_are_told_to_the_function():
    a, w = te.placeholder((4, 4), name="A"), te.placeholder((4, 4), name="W")
    k = te.reduce_axis((0, 4), "k")
    product = te.compute(
        (4, 4),
        lambda i, j: te.sum(a[i, k] * w[j, k], axis=k),
        attrs={"layout_free_placeholders": [w]},
    )
    func = te.create_prim_func([a, w, product])
    assert func.attrs["layout_free_buffers"] == (1,)
    assert "layout_free_placeholders" not in func.script()


@pytest.mark.parametrize("axis", [[], ()])
def test_a_reduction_over_nothing(axis):
    a = te.placeholder((4,), name="a")
    b = te.compute((4,), lambda i: te.sum(a[i] * 2.0, axis), name="b")
    assert isinstance(b.op.body[0], tir.Reduce)
    values, result = np.arange(4, dtype="float32"), np.zeros(4, "float32")
    interpreter.run(te.create_prim_func([a, b]), values, result)
    assert result.tolist() == [0.0, 2.0, 4.0, 6.0]


def test_a_tensor_between_whose_layout_is_free_is_told_to_the_block():
    a, p = te.placeholder((4, 6), name="A"), te.placeholder((3,), name="p")
    inner = te.compute((3,), lambda i: p[i] * 2.0, name="D")
    free = {"layout_free_placeholders": [inner, p]}
    made = te.compute((4, 6), lambda i, j: a[i, j] + inner[0] + p[1], name="E", attrs=free)
    function = te.create_prim_func([a, p, made])
    assert 'T.block_attr({"layout_free_placeholders": [D]})' in function.script()
    assert function.attrs["layout_free_buffers"] == (1,)

"""``target="stackvm"``: modules whose functions the interpreter runs."""

import numpy as np
import pytest

import tilesmith
from tilesmith import te, tir
from tilesmith.support.errors import ShapeError, TypeMismatchError, UnsupportedError


def build(*arguments):
    return tilesmith.build(te.create_prim_func(list(arguments)), target="stackvm")


def row_sums():
    n = te.var("n")
    A = te.placeholder((n, 3), name="A")
    k = te.reduce_axis((0, 3), "k")
    return A, te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")


@pytest.mark.parametrize("size", [0, 1, 5])
def test_functions_run(size):
    given = np.arange(size * 3, dtype="float32").reshape(size, 3)
    result = tilesmith.nd.empty((size,))
    build(*row_sums())(tilesmith.nd.array(given), result)
    assert np.array_equal(result.numpy(), given.sum(1))


@pytest.mark.parametrize(
    "arguments, error, text",
    [
        ([((2, 4), "float32"), ((2,), "float32")], ShapeError, "must have size 3 along axis 1"),
        ([((2, 3), "int32"), ((2,), "float32")], TypeMismatchError, "must be of dtype float32"),
        ([((2, 3), "float32")], TypeMismatchError, "expected 2 arguments, got 1"),
    ],
)
def test_arguments_are_checked(arguments, error, text):
    with pytest.raises(error, match=text):
        build(*row_sums())(*[tilesmith.nd.empty(shape, dtype) for shape, dtype in arguments])


def test_registered_functions_are_called():
    tilesmith.register_func("test.double", lambda x, y: y.copyfrom(x.numpy() * 2), override=True)
    A = te.placeholder((4,), name="A")
    B = te.extern((4,), [A], lambda i, o: tir.call_packed("test.double", i[0], o[0]))
    result = tilesmith.nd.empty((4,))
    build(A, B)(tilesmith.nd.array(np.ones(4, "float32")), result)
    assert np.array_equal(result.numpy(), np.full(4, 2, "float32"))


def test_source_is_the_lowered_program():
    module = build(*row_sums())
    assert module.type_key == "stackvm" and "T.grid(n, 3)" in module.get_source()
    with pytest.raises(UnsupportedError, match="no object code"):
        module.export_library("never.so")

"""Tensor expressions that are refused where they are written."""

import pytest

from tilesmith import te
from tilesmith.support.errors import OutOfBoundsError, ShapeError, TypeMismatchError

A = te.placeholder((8, 4), name="A")
B = te.placeholder((8,), name="B")
n = te.var("n")
N = te.placeholder((n,), name="N")


def axis(*bounds):
    return te.reduce_axis(bounds, name="k")


def reduced(shape, element, *bounds):
    k = axis(*bounds)
    return te.compute(shape, lambda *i: element(*i, k))


REFUSED = {
    "a shape is a size": lambda: te.compute(None, lambda i: B[i]),
    "takes a function of the indices": lambda: te.compute((8,), 3),
    "gave 'text'": lambda: te.compute((8,), lambda i: "text"),
    "tensor 'B' is used where a single value": lambda: te.compute((8,), lambda i: A[B, i]),
    "tensor 'A' is used where": lambda: te.sum(A, axis(0, 4)),
    "index of tensor 'B' is float32": lambda: te.compute((8,), lambda i: B[1.5]),
    "a part of tensor 'B'": lambda: te.compute((8,), lambda i: B[0:3]),
    "no elements to iterate over": lambda: list(A),
    "truth of `i < 3`": lambda: te.compute((8,), lambda i: 1 if i < 3 else 2),
    "reduction inside of a larger": lambda: reduced(
        (8,), lambda i, k: te.sum(A[i, k], k) + 1.0, 0, 4
    ),
    "`i` is not a reduction axis": lambda: te.compute((8,), lambda i: te.sum(B[i], axis=i)),
    "needs an axis": lambda: te.compute((8,), lambda i: te.sum(B[i])),
    "an axis is twice": lambda: reduced((8,), lambda i, k: te.sum(A[i, k], [k, k]), 0, 4),
    "a comparison is needed": lambda: reduced((8,), lambda i, k: te.sum(A[i, k], k, where=3), 0, 4),
    "has a begin and an end": lambda: te.reduce_axis((0, 4, 4)),
    "end of a reduction axis lies before": lambda: te.reduce_axis((0, -4)),
    "takes two lists of buffers": lambda: te.extern((8,), [B], lambda ins: 3),
    "twice among the arguments": lambda: te.create_prim_func([B, B]),
}


@pytest.mark.parametrize("message", REFUSED)
def test_mistakes_are_refused_at_the_users_line(message):
    with pytest.raises((TypeMismatchError, ShapeError), match=message) as caught:
        REFUSED[message]()
    assert caught.value.place.file == __file__


@pytest.mark.parametrize(
    "make",
    [
        lambda: te.compute((16,), lambda i: B[i]),
        lambda: te.compute((8,), lambda i: B[i + 1]),
        lambda: te.compute((4,), lambda i: B[i * 2 + 2]),
        lambda: te.compute((8,), lambda i: B[-1]),
        lambda: reduced((8,), lambda i, k: te.sum(A[i, k], axis=k), 0, 5),
        lambda: te.compute((4,), lambda i: N[n]),
    ],
)
def test_reads_beyond_a_tensor_are_refused(make):
    with pytest.raises(OutOfBoundsError, match="is read outside of its axis") as caught:
        make()
    assert caught.value.place.file == __file__


@pytest.mark.parametrize(
    "make",
    [
        lambda: te.compute((8,), lambda i: te.if_then_else(i > 0, B[i - 1], 0.0)),
        lambda: te.compute((10,), lambda i: te.Select(te.all(i >= 1, i < 9), B[i - 1], 0.0)),
        lambda: te.compute((n,), lambda i: N[i]),
        lambda: te.compute((0,), lambda i: B[i + 9]),
        lambda: reduced((8,), lambda i, k: te.sum(A[i, k], k, where=k < 4), 0, 5),
        lambda: te.compute((4,), lambda i: te.sum(B[i], B[i + 4])),
    ],
)
def test_reads_that_may_be_right_are_accepted(make):
    make()


def test_a_reduction_axis_outside_of_its_reduction():
    k = axis(0, 4)
    loose = te.compute((8,), lambda i: A[i, k], name="loose")  # the line that is shown
    with pytest.raises(TypeMismatchError, match="'loose' uses 'k', which is neither") as caught:
        te.create_prim_func([A, loose])
    assert "the line that is shown" in str(caught.value)


def test_scalars_among_the_arguments_are_known():
    scaled = te.compute((8,), lambda i: B[i] * n.astype("float32"))
    assert len(te.create_prim_func([B, n, scaled]).params) == 3

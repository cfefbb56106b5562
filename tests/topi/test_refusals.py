"""Attributes of operators that are refused."""

import pytest

from tilesmith import te, topi
from tilesmith.support.errors import OpAttributeInvalid, ShapeError, TypeMismatchError

X = te.placeholder((1, 3, 8, 8), name="X")
W = te.placeholder((4, 3, 3, 3), name="W")
LARGE = te.placeholder((4, 3, 9, 9), name="LARGE")
A = te.placeholder((8, 4), name="A")


def conv(stride=1, padding=0, dilation=1, weight=W):
    return topi.nn.conv2d(X, weight, stride, padding, dilation)


def pool(kernel=2, stride=1, padding=0, dilation=1):
    pad = (padding, 0, 0, 0)
    return topi.nn.pool2d(X, (kernel, 2), (stride, 1), (dilation, 1), pad, "max")


REFUSED = [
    (OpAttributeInvalid, "padding is at least 0", lambda: conv(padding=-1)),
    (OpAttributeInvalid, "strides is at least 1", lambda: conv(stride=0)),
    (OpAttributeInvalid, "dilation is at least 1", lambda: conv(dilation=0)),
    (ShapeError, "window of 9 elements is larger", lambda: conv(weight=LARGE)),
    (OpAttributeInvalid, "1 group", lambda: topi.nn.group_conv2d_nchw(X, W, 1, 0, 1, 0)),
    (OpAttributeInvalid, "kernel is at least 1", lambda: pool(kernel=0)),
    (OpAttributeInvalid, "stride is at least 1", lambda: pool(stride=0)),
    (OpAttributeInvalid, "padding is at least 0", lambda: pool(padding=-1)),
    (ShapeError, "window of 5 elements, 2 apart, is larger", lambda: pool(kernel=5, dilation=2)),
    (OpAttributeInvalid, "step of arange is 0", lambda: topi.arange(0, 10, 0)),
    (ShapeError, "at least one tensor", lambda: topi.concatenate([], 0)),
    (ShapeError, "cannot be joined", lambda: topi.concatenate([A, te.placeholder((8, 9))], 0)),
    (ShapeError, "cannot be joined", lambda: topi.concatenate([A, te.placeholder((8,))], 0)),
    (ShapeError, "not an order of 2 axes", lambda: topi.transpose(A, (0, 5))),
    (TypeMismatchError, "axis is a number from -2 to 1", lambda: topi.sum(A, axis=["x"])),
]  # fmt: skip


@pytest.mark.parametrize("kind, message, make", REFUSED, ids=[row[1] for row in REFUSED])
def test_attributes_are_refused_at_the_users_line(kind, message, make):
    with pytest.raises(kind, match=message) as caught:
        make()
    assert caught.value.place.file == __file__

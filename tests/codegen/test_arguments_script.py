"""What the wrapper of a public function accepts and refuses."""

import numpy as np
import pytest

import tilesmith
from tilesmith.script import tir as T


@T.prim_func
def add_one(a: T.handle, b: T.handle):
    n, m = T.int64(), T.int64()
    A = T.match_buffer(a, (n, m), "float32")
    B = T.match_buffer(b, (n, m), "float32")
    for i, j in T.grid(n, m):
        with T.block("b"):
            v, w = T.axis.remap("SS", [i, j])
            B[v, w] = A[v, w] + T.float32(1)


@T.prim_func
def fixed(A: T.Buffer((0, 5), "float32"), B: T.Buffer((0, 5), "float32")):
    for i, j in T.grid(0, 5):
        with T.block("b"):
            v, w = T.axis.remap("SS", [i, j])
            B[v, w] = A[v, w]


@pytest.fixture(scope="module")
def compiled():
    return tilesmith.build(add_one, target="llvm")


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (1, 3), (3, 1)])
@pytest.mark.parametrize("make", [np.ascontiguousarray, np.asfortranarray, tilesmith.nd.array])
def test_tensors_without_elements_are_compact(compiled, shape, make):
    source, target = make(np.zeros(shape, "f4")), make(np.zeros(shape, "f4"))
    compiled(source, target)
    assert (np.asarray(target) == 1).all()


def test_tensors_without_elements_of_a_fixed_shape():
    module = tilesmith.build(fixed, target="llvm")
    module(np.zeros((0, 5), "f4"), np.zeros((0, 5), "f4")[:, ::-1])


def test_strides_are_still_looked_at(compiled):
    with pytest.raises(ValueError, match=r"must be compact .*, got stride 6 along axis 0"):
        compiled(np.zeros((4, 6), "f4")[:, ::2], np.zeros((4, 3), "f4"))

"""Flat positions as indices, in shapes that are known or given as a tensor."""

import numpy as np
import pytest

import tilesmith
from tilesmith import te, topi
from tilesmith.tir import Var


@pytest.mark.parametrize("shape", [(3, 4), (2, 2, 3), (12,)])
@pytest.mark.parametrize("is_tensor", [True, False])
def test_positions(shape, is_tensor):
    positions = np.array([[0, 5], [7, 11]], "int32")
    sizes = np.array(shape, "int32")
    flat = te.placeholder(positions.shape, "int32", name="flat")
    given = te.placeholder(sizes.shape, "int32", name="sizes")
    found = topi.unravel_index(flat, given if is_tensor else shape)
    inputs = [flat, given] if is_tensor else [flat]
    built = tilesmith.build(te.create_prim_func([*inputs, found]), target="llvm")
    out = tilesmith.nd.empty((len(shape), 2, 2), "int32")
    built(*[tilesmith.nd.array(x) for x in (positions, sizes)][: len(inputs)], out)
    np.testing.assert_array_equal(out.numpy(), np.stack(np.unravel_index(positions, shape)))


def test_a_single_position():
    assert len(topi.unravel_index(Var("i", "int32"), (3, 4))) == 2

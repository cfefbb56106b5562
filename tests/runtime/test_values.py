"""Shapes and bits as values of the runtime."""

import numpy as np

from tilesmith import nd
from tilesmith.runtime.container import ShapeTuple


def test_shapes_equal_lists_and_tuples():
    shape = ShapeTuple((3, 4))
    assert shape == [3, 4] and shape == (3, 4) and [3, 4] == shape and shape != [4, 3]
    assert shape != "34" and {shape: 1}[3, 4] == 1


def test_uint16_holds_the_bits_of_bfloat16():
    tensor = nd.empty((4,), "bfloat16")
    tensor.copyfrom(np.array([0x3F80, 0x4000, 0xC000, 0], "uint16"))
    np.testing.assert_array_equal(tensor.numpy().astype("float32"), [1, 2, -2, 0])
    tensor.copyfrom(np.array([3, 4, 5, 6], "int32"))
    np.testing.assert_array_equal(tensor.numpy().astype("float32"), [3, 4, 5, 6])

"""Layouts by letters, and the ways between them."""

import itertools

import pytest

import tilesmith as ts
from tilesmith import tir


def numbers(values):
    return [int(value) for value in values]


def test_axes_of_a_layout():
    layout = tir.layout("NCHW16c")
    assert len(layout) == 5 and list(layout) == ["N", "C", "H", "W", "c"]
    assert "c" in layout and "D" not in layout and layout[-1] == "c"
    assert layout.index_of("W") == 3 and layout.index_of("w") == -1
    assert [layout.factor_of(axis) for axis in "NCcD"] == [1, 16, 16, -1]
    assert str(layout) == layout.name == "NCHW16c"
    assert ts.ir.structural_equal(ts.ir.load_json(ts.ir.save_json(layout)), layout)


def test_shapes():
    way = tir.bijective_layout("NCHW", "NCHW16c")
    assert numbers(way.forward_shape((1, 32, 7, 8))) == [1, 2, 7, 8, 16]
    assert numbers(way.forward_shape((1, 33, 7, 8))) == [1, 3, 7, 8, 16]
    assert numbers(way.backward_shape((1, 2, 7, 8, 16))) == [1, 32, 7, 8]


@pytest.mark.parametrize("target", ["NHWC", "NCHW4c", "NHWC2h4c", "CNWH8c2n"])
def test_indices_go_there_and_back(target):
    way = tir.bijective_layout("NCHW", target)
    sizes = (2, 8, 2, 3)
    seen = set()
    shape = numbers(way.forward_shape(sizes))
    for index in itertools.product(*[range(size) for size in sizes]):
        there = numbers(way.forward_index(index))
        assert all(0 <= i < size for i, size in zip(there, shape))
        assert numbers(way.backward_index(there)) == list(index)
        seen.add(tuple(there))
    assert len(seen) == 96


def test_symbolic_indices():
    n, c, h, w = (tir.Var(name, "int32") for name in "nchw")
    index = tir.bijective_layout("NCHW", "NCHW16c").forward_index([n, c, h, w])
    assert [str(i) for i in index] == ["n", "c // 16", "h", "w", "c % 16"]


@pytest.mark.parametrize(
    "text, message",
    [
        ("NC-HW", "'-' has no meaning"),
        ("NCC", "'C' twice"),
        ("NHW16c", "no axis 'C'"),
        ("NCHWc", "'c' has no meaning"),
        ("NCHW0c", "is empty"),
    ],
)
def test_texts_that_are_no_layouts(text, message):
    with pytest.raises(ts.TilesmithError, match=message):
        tir.layout(text)


def test_layouts_that_do_not_fit():
    with pytest.raises(ts.TilesmithError, match="different axes"):
        tir.bijective_layout("NCHW", "NCW")
    with pytest.raises(ts.TilesmithError, match="has 4 axes, the index 3"):
        tir.bijective_layout("NCHW", "NHWC").forward_index([0, 1, 2])

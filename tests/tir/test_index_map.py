"""Index maps: application, shapes, arrays, inverses with and without padding."""

import functools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilesmith.arith import Analyzer
from tilesmith.ir import (
    Var,
    assert_structural_equal,
    const,
    convert,
    is_const,
    load_json,
    save_json,
)
from tilesmith.support.errors import ShapeError, TypeMismatchError, UnsupportedError
from tilesmith.tir import Evaluate, PrimFunc, Select, ret
from tilesmith.tir.functor import substitute
from tilesmith.tir.index_map import IndexMap
from tilesmith.tir.interpreter import run

MAPS = {
    "transpose": (lambda i, j: (j, i), (4, 6), (6, 4)),
    "pack": (lambda n, c, h: (n, c // 4, h, c % 4), (2, 8, 3), (2, 2, 3, 4)),
    "fuse": (lambda i, j: (i * 6 + j,), (4, 6), (24,)),
    "split twice": (lambda i: (i // 12, i // 4 % 3, i % 4), (24,), (2, 3, 4)),
    "tiles": (lambda i, j: (i // 2, j // 3, i % 2, j % 3), (4, 6), (2, 2, 2, 3)),
    "interleave": (lambda i, j: (i // 2 * 3 + j // 2, i % 2 * 2 + j % 2), (4, 6), (6, 4)),
    "of one": (lambda i, j: (i, j, 0), (1, 5), (1, 5, 1)),
    "swizzle": (lambda i: (i % 4 * 4 + i // 4,), (16,), (16,)),
}


def evaluate(variables, values, exprs):
    """Index expressions at given values, by the interpreter."""
    return tuple(run(PrimFunc(list(variables), Evaluate(ret(expr))), *values) for expr in exprs)


@pytest.mark.parametrize("name", MAPS)
def test_shape_array_and_inverse(name):
    function, shape, mapped = MAPS[name]
    index_map = IndexMap.from_func(function)
    assert [int(size) for size in index_map.map_shape(shape)] == list(mapped)
    source = np.arange(np.prod(shape)).reshape(shape)
    result = index_map.map_ndarray(source)
    inverse = index_map.inverse(shape)
    assert [int(size) for size in inverse.map_shape(mapped)] == list(shape)
    np.testing.assert_array_equal(inverse.map_ndarray(result), source)
    for place in np.ndindex(*shape):
        where = tuple([int(index) for index in index_map.map_indices(place)])
        assert result[where] == source[place]
        assert evaluate(inverse.initial_indices, where, inverse.final_indices) == place


@pytest.mark.parametrize("size", [13, 16, 20])
def test_padding(size):
    index_map = IndexMap.from_func(lambda c, h: (c // 8, h, c % 8))
    inverse, padding = index_map.non_surjective_inverse((size, 3))
    shape = [int(extent) for extent in index_map.map_shape((size, 3))]
    assert shape == [-(-size // 8), 3, 8]
    count = 0
    for place in np.ndindex(*shape):
        (unused,) = evaluate(inverse.initial_indices, place, [padding])
        count += bool(unused)
        if not unused:
            old = evaluate(inverse.initial_indices, place, inverse.final_indices)
            assert tuple(int(i) for i in index_map.map_indices(old)) == place
    assert count == int(np.prod(shape)) - size * 3
    if size % 8:
        with pytest.raises(ShapeError, match="unused"):
            index_map.inverse((size, 3))
    else:
        assert is_const(padding, 0)


@given(st.permutations(range(3)), st.tuples(*[st.sampled_from([1, 2, 4, 6])] * 3), st.data())
def test_random_layouts(order, shape, data):
    factors = [data.draw(st.sampled_from([f for f in (1, 2, 3) if n % f == 0])) for n in shape]

    def layout(i, j, k):
        outer = [index // factor for index, factor in zip((i, j, k), factors)]
        inner = [index % factor for index, factor in zip((i, j, k), factors)]
        return [outer[axis] for axis in order] + [inner[axis] for axis in order]

    index_map = IndexMap.from_func(layout)
    source = np.arange(np.prod(shape)).reshape(shape)
    back = index_map.inverse(shape).map_ndarray(index_map.map_ndarray(source))
    np.testing.assert_array_equal(back.reshape(shape), source)


def test_variadic_functions_and_ranks():
    index_map = IndexMap.from_func(lambda n, *rest: [*rest, n], ndim=4)
    assert [int(i) for i in index_map.map_indices([1, 2, 3, 4])] == [2, 3, 4, 1]
    with pytest.raises(TypeMismatchError, match="ndim"):
        IndexMap.from_func(lambda *indices: indices)
    with pytest.raises(ShapeError, match="takes 2 indices"):
        IndexMap.from_func(lambda i, j: (i, j), ndim=3)
    with pytest.raises(ShapeError, match="takes 4 sizes"):
        index_map.map_shape((1, 2))


def test_axis_separators():
    index_map, separators = IndexMap.from_func_with_separators(
        lambda i, j: (i, IndexMap.AXIS_SEPARATOR, j)
    )
    assert separators == [1] and len(index_map.final_indices) == 2
    with pytest.raises(TypeMismatchError, match="separators"):
        IndexMap.from_func(lambda i, j: (i, IndexMap.AXIS_SEPARATOR, j))


def test_indices_keep_their_dtype():
    index_map = IndexMap.from_func(lambda i, j: (i * 8 + j,))
    x = Var("x", "int32")
    (mapped,) = index_map.map_indices([x, const(3, "int32")])
    assert mapped.dtype == "int32"


def test_lost_elements():
    with pytest.raises(ShapeError, match="share places"):
        IndexMap.from_func(lambda i, j: (i // 2, j)).inverse((8, 8))


def test_given_inverse():
    index_map = IndexMap.from_func(
        lambda i: (Select(i < 4, i, 11 - i),),
        inverse_index_map=lambda i: (Select(i < 4, i, 11 - i),),
    )
    source = np.arange(8)
    mapped = index_map.map_ndarray(source)
    np.testing.assert_array_equal(mapped, [0, 1, 2, 3, 7, 6, 5, 4])
    np.testing.assert_array_equal(index_map.inverse((8,)).map_ndarray(mapped), source)


def test_equivalence():
    first = IndexMap.from_func(lambda i, j: (i * 4 + j, j))
    second = IndexMap.from_func(lambda a, b: (b + a * 4, b))
    assert first.is_equivalent_to(second)
    assert not first.is_equivalent_to(IndexMap.from_func(lambda a, b: (a * 4 + b, a)))
    assert not first.is_equivalent_to(IndexMap.from_func(lambda a, b: (a * 4 + b,)))


def test_maps_are_nodes():
    index_map = IndexMap.from_func(MAPS["pack"][0])
    assert_structural_equal(index_map, IndexMap.from_func(lambda a, b, c: (a, b // 4, c, b % 4)))
    assert_structural_equal(load_json(save_json(index_map)), index_map)


def test_symbolic_shapes():
    n = Var("n", "int64")
    index_map = IndexMap.from_func(lambda i, j: (j, i))
    shape = index_map.map_shape((n, 8))
    assert is_const(shape[0], 8)
    assert shape[1] is n


@pytest.mark.parametrize(
    ("function", "shape", "expected"),
    [
        (lambda c: (c // 16, c % 16), [4], [1, 16]),
        (lambda c: (c // 16, c % 16), [20], [2, 16]),
        (lambda c: (c % 16,), [4], [16]),
        (lambda c: (c // 4 % 4, c % 4), [8], [4, 4]),
        (lambda c: (c % 8, c // 8), [1], [8, 1]),
        (lambda a, b: (a % 4 * 8 + b % 8, b // 8), [3, 5], [32, 1]),
        (lambda n, h, w: (n * 35 + h * 7 + w,), [1, 5, 7], [35]),
        (lambda i: ((i + 1) // 4, (i + 1) % 4), [14], [4, 4]),
        (lambda i: (i // 4 % 8, i % 4), [14], [8, 4]),
        (lambda i: (i // 16, i // 4 % 4, i % 4), [35], [3, 4, 4]),
        (lambda i, j: (i // 4 * 8 + j // 2, j % 2, i % 4), [14, 15], [32, 2, 4]),
        (lambda i, j: (i // 4, j // 8, i % 4, j % 8), [14, 31], [4, 4, 4, 8]),
    ],
)
def test_digits_take_all_of_their_places(function, shape, expected):
    mapping = IndexMap.from_func(function, index_dtype="int32")
    assert [int(size) for size in mapping.map_shape(shape)] == expected
    inverse, padding = mapping.non_surjective_inverse(shape)
    places = list(np.ndindex(*expected))
    images = {}
    for element in np.ndindex(*shape):
        images[tuple([int(i) for i in mapping.map_indices(list(element))])] = element
    analyzer = Analyzer()
    for place in places:
        bound = dict(zip(inverse.initial_indices, place))
        is_padding = bool(int(analyzer.simplify(substitute(padding, bound))))
        assert is_padding == (place not in images)
        if place in images:
            assert tuple([int(i) for i in inverse.map_indices(list(place))]) == images[place]


@pytest.mark.parametrize(
    ("function", "shape", "expected"),
    [
        (lambda i: (i // 4, i % 4), [14], "axis0 == 3 and 2 <= axis1"),
        (lambda i: (i % 4, i // 4), [14], "axis1 == 3 and 2 <= axis0"),
        (lambda i: (i // 16, i // 4 % 4, i % 4), [14], "14 <= axis1 * 4 + axis2"),
        (lambda i, j: (j, i // 4, i % 4), [3, 5], "axis2 == 3"),
        (lambda i: (i // 4, i % 4), [16], "T.bool(False)"),
        (
            lambda i, j: (i // 4, j // 8, i % 4, j % 8),
            [14, 31],
            "axis0 == 3 and 2 <= axis2 or axis1 == 3 and axis3 == 7",
        ),
    ],
)
def test_padding_is_told_by_the_highest_digit(function, shape, expected):
    _, padding = IndexMap.from_func(function, index_dtype="int32").non_surjective_inverse(shape)
    assert str(padding).splitlines()[-1] == expected


def test_digits_of_symbolic_sizes():
    n = Var("n", "int32")
    index_map = IndexMap.from_func(lambda i: (i // 8, i // 2 % 4, i % 2), index_dtype="int32")
    inverse, padding = index_map.non_surjective_inverse([n])
    for size in range(1, 20):
        shape = [
            int(Analyzer().simplify(substitute(s, {n: size}))) for s in index_map.map_shape([n])
        ]
        assert shape == [-(-size // 8), 4, 2]
        for number, place in enumerate(np.ndindex(*shape)):
            bound = {n: size, **dict(zip(inverse.initial_indices, place))}
            assert bool(int(Analyzer().simplify(substitute(padding, bound)))) == (number >= size)
            assert [int(i) for i in inverse.map_indices(list(place))] == [number]


N, M = Var("n", "int32"), Var("m", "int32")


def _numbers(values, exprs):
    return [Analyzer().simplify(substitute(convert(expr), values)) for expr in exprs]


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_maps_of_symbols_that_divide_each_other(data):
    """Digits of indices whose radices are symbols, in any order, combined to new indices."""
    radices = [
        data.draw(st.lists(st.sampled_from([N, M, 2]), min_size=1, max_size=3)) for _ in range(2)
    ]
    sizes = [math.prod(row) for row in radices]

    def layout(i, j):
        digits = []
        for index, row in zip((i, j), radices):
            for place, radix in enumerate(row):  # the lowest digit first
                digit = index // math.prod(row[:place])
                digits.append((digit if place + 1 == len(row) else digit % radix, radix))
        digits = data.draw(st.permutations(digits))
        number = data.draw(st.integers(1, len(digits)))
        groups = [digits[k::number] for k in range(number)]
        result = []
        for group in groups:
            value = 0
            for digit, radix in group:
                value = value * radix + digit
            result.append(value)
        return result

    index_map = IndexMap.from_func(layout, index_dtype="int32")
    shape = index_map.map_shape(sizes)
    inverse = index_map.inverse(sizes)  # there is no padding
    for values in ({N: 1, M: 1}, {N: 2, M: 3}, {N: 3, M: 2}, {N: 1, M: 4}):
        numbers = functools.partial(_numbers, values)
        old, new = [int(e) for e in numbers(sizes)], [int(e) for e in numbers(shape)]
        there = IndexMap(index_map.initial_indices, numbers(index_map.final_indices))
        back = IndexMap(inverse.initial_indices, numbers(inverse.final_indices))
        source = np.arange(math.prod(old)).reshape(old)
        assert math.prod(new) == source.size
        moved = there.map_ndarray(source).reshape(new)
        np.testing.assert_array_equal(back.map_ndarray(moved).reshape(old), source)


def test_symbols_that_do_not_divide_each_other():
    rows = IndexMap.from_func(lambda i: (i // N, i % N), index_dtype="int32")
    with pytest.raises(UnsupportedError, match="inverse of the index map"):
        rows.non_surjective_inverse([M])
    lost = IndexMap.from_func(lambda i: (i // N,), index_dtype="int32")
    with pytest.raises((ShapeError, UnsupportedError)):
        lost.inverse([N * M])
    flat = IndexMap.from_func(lambda i, j: (i * N + j,), index_dtype="int32")
    with pytest.raises((ShapeError, UnsupportedError)):
        flat.inverse([M, N * 2])

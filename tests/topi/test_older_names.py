"""Computes that users' own programs call: fixed-point products, searches, sparse rows."""

import numpy as np
import pytest

import tilesmith as ts
from tests.topi.harness import Case, check, real, whole
from tilesmith import te, topi
from tilesmith.support.errors import OutOfBoundsError, ShapeError
from tilesmith.target import Target
from tilesmith.tir import ir_builder

BIG = np.random.default_rng(0).integers(-(2**31), 2**31, (3, 5)).astype("int32")
SMALL = whole(3, 5, low=-1000, high=1000)


def scaled(x, factor, left, right=0):
    """x * factor * 2**(left - right - 31), rounded, halves up."""
    shift = 31 + right - np.minimum(left, 0)
    product = (x.astype(object) << np.maximum(left, 0)) * factor
    return np.vectorize(lambda p, s: (p + (1 << (s - 1))) >> s)(product, shift).astype("int32")


FACTORS = [np.int32([2**30, 1717986918, -3]), np.int32([0, 2, 1]), np.int32([3, 0, 1])]


def per_axis(x, y, left, right, with_left, with_right):
    moved = [part[:, None].astype(object) for part in (y, left, right)]
    return scaled(x, moved[0], moved[1] * with_left, moved[2] * with_right)


CASES = [
    *[
        Case(
            f"fixed_point_multiply_{shift}",
            lambda x, f=factor, s=shift: topi.fixed_point_multiply(x, f, s),
            lambda x, f=factor, s=shift: scaled(x, f, s),
            (data,),
        )
        for factor, shift, data in [
            (1 << 30, 0, BIG),
            (1518500250, -4, BIG),
            (1073741825, 3, SMALL),
            (-(1 << 30), 1, SMALL),
        ]
    ],
    *[
        Case(
            f"fixed_point_multiply_per_axis_{left}_{right}",
            lambda x, y, a, b, left=left, right=right: topi.fixed_point_multiply_per_axis(
                x, y, a, b, left, right, [0]
            ),
            lambda x, y, a, b, left=left, right=right: per_axis(x, y, a, b, left, right),
            (SMALL, *FACTORS),
        )
        for left, right in [(True, True), (False, True), (1, 0)]
    ],
    Case("left_shift", lambda x: topi.math.left_shift(x, 3), lambda x: x << 3, (SMALL,)),
    Case("right_shift", lambda x: topi.math.right_shift(x, 2), lambda x: x >> 2, (SMALL,)),
    Case(
        "scatter",
        lambda d, i, u: topi.scatter(d, i, u, 1),
        lambda d, i, u: np.stack([np.put_along_axis(row := d.copy(), i, u, 1) or row])[0],
        (real(2, 5), np.int32([[3, 0], [1, -1]]), real(2, 2, seed=1)),
    ),
    Case(
        "scatter_add",
        topi.scatter_add,
        lambda d, i, u: np.add.at(made := d.copy(), i[:, 0], u) or made,
        (real(4, 1), np.int32([[3], [0], [3]]), real(3, 1, seed=1)),
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_computes_agree_with_numpy(case):
    check(case)


@pytest.mark.parametrize("rank", range(1, 6))
def test_places_of_each_rank(rank):
    data = whole(*(3, 2, 2, 1, 2)[:rank], low=0, high=2)
    places = np.argwhere(data)
    function = getattr(topi, f"hybrid_argwhere_{rank}d")
    check(Case("argwhere", lambda x: function(places.shape, x), lambda x: places, (data,)))
    with pytest.raises(ShapeError, match=f"{rank} dimensions"):
        function((3, rank), te.placeholder((1,) * (rank + 1), name="x"))


@pytest.mark.parametrize("right", [False, True])
def test_a_search_in_one_row_of_many(right):
    rows = np.sort(whole(3, 6, low=0, high=5), 1)
    wanted = whole(3, 4, seed=1, low=-1, high=6)

    def build(x, values):
        def body(inputs, outputs):
            builder = ir_builder.create()
            sequence, given, out = [builder.buffer_ptr(b) for b in [*inputs, *outputs]]
            with builder.for_range(0, 3, "i") as i, builder.for_range(0, 4, "j") as j:
                out[i, j] = topi.binary_search(
                    builder, i * 6 + 1, 5, sequence, given[i, j], right, "int64"
                )
            return builder.get()

        return te.extern([(3, 4)], [x, values], body, "search", ["int64"])

    side = "right" if right else "left"
    want = np.stack([np.searchsorted(row[1:], own, side) for row, own in zip(rows, wanted)])
    check(Case("binary_search", build, lambda x, v: want, (rows, wanted)))


def filled(indices, values, default, rows):
    made = [(tuple(index), value) for index, value in zip(indices, values)]
    empty = np.array([row not in indices[:, 0] for row in range(rows)])
    made += [((row, *[0] * (indices.shape[1] - 1)), default[0]) for row in np.flatnonzero(empty)]
    made.sort(key=lambda item: item[0][0])
    return [np.array([index for index, _ in made]), np.array([value for _, value in made]), empty]


@pytest.mark.parametrize("rows", [4, 7])
@pytest.mark.parametrize(
    "indices",
    [[[0, 1], [0, 3], [2, 0], [3, 1]], [[3, 2, 1], [1, 0, 0], [3, 0, 2], [1, 5, 5], [1, 0, 1]]],
)
def test_rows_without_values_get_one(indices, rows):
    indices = np.array(indices, "int64")
    values, default = real(len(indices)), np.array([9], "float32")
    sizes = np.array([rows, *[6] * (indices.shape[1] - 1)], "int64")
    want = filled(indices, values, default, rows)
    case = Case(
        "fill",
        lambda i, v, s, d: topi.sparse_fill_empty_rows(
            i, v, s, d, want[0].shape, want[1].shape, (rows,)
        ),
        lambda i, v, s, d: want,
        (indices, values, sizes, default),
    )
    check(case)


@pytest.mark.parametrize("room, rows", [(4, 4), (5, 2)])
def test_values_that_do_not_fit_are_an_error(room, rows):
    indices, values = np.array([[0, 1], [2, 3]], "int64"), real(2)
    tensors = [te.placeholder(x.shape, str(x.dtype)) for x in (indices, values)]
    sizes, default = te.placeholder((2,), "int64"), te.placeholder((1,), "float32")
    made = topi.sparse_fill_empty_rows(
        *tensors, sizes, default, (room - 1, 2), (room - 1,), (rows,)
    )
    built = ts.build(te.create_prim_func([*tensors, default, *made]), target="llvm")["main"]
    outputs = [
        np.zeros((room - 1, 2), "int64"),
        np.zeros(room - 1, "float32"),
        np.zeros(rows, bool),
    ]
    given = [indices, values, np.zeros(1, "float32"), *outputs]
    if rows == 2:
        with pytest.raises(OutOfBoundsError, match="2 is outside of an axis of size 2"):
            built(*[ts.nd.array(x) for x in given])
    else:
        with pytest.raises(OutOfBoundsError, match="axis of size 3"):
            built(*[ts.nd.array(x) for x in given])


@pytest.mark.parametrize(
    "before, after, real_after",
    [
        ([2, 3, 6], [9, 4], [9, 4]),
        ([2, 3, 6], [9, -1], [9, 4]),
        ([12], [-1, 2, 3], [2, 2, 3]),
        ([2, 0, 3], [5, -1], [5, 0]),
    ],
)
@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_sparse_tensors_of_another_shape(before, after, real_after, dtype):
    count = 0 if 0 in before else 4
    flat = np.sort(np.random.default_rng(1).choice(max(np.prod(before), 1), count, replace=False))
    old = np.stack(np.unravel_index(flat, [max(size, 1) for size in before]), 1).astype(dtype)
    new = np.stack(np.unravel_index(flat, [max(size, 1) for size in real_after]), 1)
    case = Case(
        "reshape",
        lambda i, a, b: topi.sparse_reshape(i, a, b, new.shape, (len(after),)),
        lambda i, a, b: [new, np.array(real_after)],
        (old, np.array(before, dtype), np.array(after, dtype)),
    )
    check(case)


@pytest.mark.parametrize("function", [topi.erf_legalize, topi.take_legalize])
def test_targets_may_replace_an_operator(function):
    assert function({}, ["x"], []) is None
    function.register(lambda attrs, inputs, types: inputs[0], "replacing")
    with Target({"kind": "llvm", "keys": ["replacing", "cpu"]}):
        assert function({}, ["x"], []) == "x"
    with Target("llvm"):
        assert function({}, ["x"], []) is None


@pytest.mark.parametrize(
    "build",
    [
        lambda x, v: topi.sparse_fill_empty_rows(x, v, v, v, (3, 2), (3,), (3,)),
        lambda x, v: topi.sparse_reshape(x, v, v, (3, 2), (2,)),
        lambda x, v: topi.sparse_reshape(x, te.placeholder((2,), "int64"), v, (3, 2), (2,)),
    ],
)
def test_what_does_not_fit_is_refused(build):
    with pytest.raises(ShapeError):
        build(te.placeholder((3, 2), "int64", "x"), te.placeholder((3,), "int64", "v"))


def test_tags_are_asked_by_the_names_of_topi():
    x = te.placeholder((3,), name="x")
    assert topi.is_broadcast(topi.exp(x).op.tag) and topi.is_injective(
        topi.reshape(x, (3, 1)).op.tag
    )
    assert not topi.is_injective(topi.sum(x).op.tag)

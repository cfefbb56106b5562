"""Slices with bounds that are tensors, look-ups, searches and transforms, against numpy."""

import numpy as np
import pytest

import tilesmith as ts
from tests.topi.harness import Case, check, real, whole
from tilesmith import te, tir, topi
from tilesmith.support.errors import (
    OpAttributeInvalid,
    OutOfBoundsError,
    ShapeError,
    TypeMismatchError,
    UnsupportedError,
)
from tilesmith.topi import testing

A = real(3, 5)
BANDS = real(2, 3, 4, seed=2)
SEQUENCE = np.array([-2.0, -0.5, -0.5, 0.0, 0.3, 1.7], "float32")
WANTED = np.array([[-3.0, -2.0, -0.5], [0.1, 1.7, 9.0]], "float32")
DATA = np.array([5, 2, 5, 7, 2, 2, 9], "int32")


def transform(x, y, sign=-1):
    """The Fourier transform along the last axis, as real and imaginary part."""
    size = x.shape[-1]
    turned = np.exp(sign * 2j * np.pi * np.outer(np.arange(size), np.arange(size)) / size)
    made = (x + 1j * y) @ turned
    return [made.real, made.imag]


def distinct(x, ascending, with_counts):
    """`topi.unique` in numpy; what is not defined is 0."""
    values, first, inverse, counts = np.unique(x, True, True, True)
    if not ascending:
        order = np.argsort(first)
        values, first, counts = values[order], first[order], counts[order]
        inverse = np.argsort(order)[inverse]

    def filled(part):
        return np.concatenate([part, np.zeros(len(x) - len(part), part.dtype)])

    results = [filled(values), filled(first), inverse, np.array([len(values)])]
    return [*results, filled(counts)] if with_counts else results


CASES = [
    Case("ndarray_size", topi.ndarray_size, lambda x: np.int32(15), (A,)),
    Case(
        "adv_index",
        lambda x, i, j: topi.adv_index(x, [i, j]),
        lambda x, i, j: x[i, j],
        (real(3, 4, 2), whole(5, 1, low=-3, high=3), whole(2, low=0, high=4)),
    ),
    *[
        Case(
            f"meshgrid_{indexing}",
            lambda *xs, i=indexing: topi.meshgrid(xs, i),
            lambda *xs, i=indexing: np.meshgrid(*xs, indexing=i),
            (real(3), real(2, seed=1), real(4, seed=2)),
        )
        for indexing in ("ij", "xy")
    ],
    Case(
        "meshgrid_of_a_value",
        lambda x, y: topi.meshgrid([x, y], "ij"),
        lambda x, y: np.meshgrid(x, y, indexing="ij"),
        (real(), real(2)),
    ),
    Case(
        "sliding_window",
        lambda x: topi.sliding_window(x, 1, (2, 3), (1, 2)),
        lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 3), (1, 2))[:, :, ::2],
        (real(2, 4, 8),),
    ),
    *[
        Case(
            f"matrix_set_diag_{k}_{align}",
            lambda x, d, k=k, a=align: topi.matrix_set_diag(x, d, k, a),
            lambda x, d, k=k, a=align: testing.matrix_set_diag(x, d, k, a),
            (BANDS, real(2, *rest, seed=4)),
        )
        for k, align, rest in (
            (0, "RIGHT_LEFT", (3,)),
            (-1, "RIGHT_LEFT", (2,)),
            ((-1, 2), "RIGHT_LEFT", (4, 3)),
            ((-2, 1), "LEFT_RIGHT", (4, 3)),
            ((0, 1), "RIGHT_RIGHT", (2, 3)),
        )
    ],
    Case(
        "sparse_to_dense",
        lambda i, v: topi.sparse_to_dense(i, (3, 4), v, -1),
        lambda i, v: np.array([[-1, -1, 2, -1], [-1] * 4, [5, -1, -1, -1]]),
        (np.int32([[0, 2], [2, 0], [0, 2]]), np.float32([1, 5, 2])),
    ),
    Case(
        "sparse_to_dense_of_one_value",
        lambda i, v, d: topi.sparse_to_dense(i, (4,), v, d),
        lambda i, v, d: np.array([7, 3, 7, 3]),
        (np.int32([1, 3]), np.int32(3), np.int32(7)),
    ),
    Case(
        "invert_permutation",
        topi.invert_permutation,
        np.argsort,
        (np.int32([2, 0, 3, 1]),),
    ),
    Case("reinterpret", lambda x: topi.reinterpret(x, "int32"), lambda x: x.view("int32"), (A,)),
    Case(
        "ceil_log2",
        topi.ceil_log2,
        lambda x: np.array([0, 1, 2, 2, 10, 11]),
        (np.int32([1, 2, 3, 4, 1024, 1025]),),
    ),
    *[
        Case(
            f"searchsorted_{right}",
            lambda s, v, r=right: topi.searchsorted(s, v, r, "int32"),
            lambda s, v, r=right: testing.searchsorted_ref(s, v, r, "int32"),
            (SEQUENCE, WANTED),
        )
        for right in (False, True)
    ],
    Case(
        "searchsorted_rows",
        topi.searchsorted,
        lambda s, v: testing.searchsorted_ref(s, v, False, "int64"),
        (np.sort(real(2, 6), -1), WANTED),
    ),
    Case(
        "argwhere",
        lambda x: topi.argwhere((4, 2), x),
        lambda x: np.argwhere(x),
        (np.int32([[0, 3, 0], [1, 0, 2], [0, 0, 4]]),),
    ),
    *[
        Case(
            f"unique_{ascending}_{counts}",
            lambda x, a=ascending, c=counts: topi.unique(x, a, c),
            lambda x, a=ascending, c=counts: distinct(x, a, c),
            (DATA,),
        )
        for ascending in (True, False)
        for counts in (True, False)
    ],
    Case(
        "dft",
        lambda x, y: topi.dft(x, y, False),
        transform,
        (real(2, 7), real(2, 7, seed=1)),
        1e-3,
    ),
    Case(
        "dft_inverse",
        lambda x, y: topi.dft(x, y, True),
        lambda x, y: [part / 6 for part in transform(x, y, 1)],
        (real(6), real(6, seed=1)),
        1e-3,
    ),
    Case(
        "strided_set",
        lambda x, v: topi.strided_set(x, v, [2, 0], [0, 5], [-1, 2]),
        lambda x, v: testing.strided_set_python(x, v, [2, 0], [0, 5], [-1, 2]),
        (A, real(2, 3, seed=3)),
    ),
    Case(
        "strided_set_of_the_first_axis",
        lambda x, v: topi.strided_set(x, v, [-2], [3]),
        lambda x, v: testing.strided_set_python(x, v, [-2], [3], None),
        (A, real(2, 5, seed=3)),
    ),
    Case(
        "strided_set_by_tensors",
        topi.strided_set,
        testing.strided_set_python,
        (A, real(2, 3, seed=3), np.int64([-1, 1]), np.int64([-9, 4]), np.int64([-2, 1])),
    ),
    Case(
        "dynamic_strided_slice",
        lambda x, b, e, s: topi.dynamic_strided_slice(x, b, e, s, (2, 3)),
        lambda x, b, e, s: testing.strided_slice_python(x, b, e, s),
        (A, np.int64([2, -9]), np.int64([0, 9]), np.int64([-1, 2])),
    ),
    Case(
        "unravel_index_by_a_tensor",
        lambda i, s: topi.unravel_index(i, s),
        lambda i, s: np.stack(np.unravel_index(i, s)),
        (np.int32([5, 0, 11]), np.int32([3, 4])),
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_against_numpy(case):
    check(case)


@pytest.mark.parametrize("normalized, onesided", [(False, True), (True, False)])
def test_transforms_of_windows(normalized, onesided):
    torch = pytest.importorskip("torch")
    window = np.hamming(6).astype("float32")
    want = torch.stft(
        torch.from_numpy(real(2, 20)), 8, 3, 6, torch.from_numpy(window), center=False,
        normalized=normalized, onesided=onesided, return_complex=True,
    )  # fmt: skip
    case = Case(
        "stft",
        lambda x, w: topi.stft(x, 8, 3, 6, w, normalized, onesided),
        lambda x, w: torch.view_as_real(want).numpy(),
        (real(2, 20), window),
        1e-3,
    )
    check(case)


def sliced():
    a, b, e, s = [
        te.placeholder(shape, dtype, name)
        for shape, dtype, name in (
            ((4, 6, 2), "float32", "A"),
            ((2,), "int64", "begin"),
            ((2,), "int64", "end"),
            ((2,), "int64", "strides"),
        )
    ]
    made = topi.strided_slice(a, b, e, s)
    return ts.build(te.create_prim_func([a, b, e, s, made]), target="llvm")


def run_slice(library, begin, end, strides, shape):
    data = real(4, 6, 2)
    out = ts.nd.array(np.zeros(shape, "float32"))
    bounds = [ts.nd.array(np.int64(values)) for values in (begin, end, strides)]
    library(ts.nd.array(data), *bounds, out)
    return data, out.numpy()


@pytest.mark.parametrize(
    "begin, end, strides, shape",
    [
        ([1, 0], [3, 6], [1, 2], (2, 3, 2)),
        ([-1, 4], [-9, 1], [-2, -1], (2, 3, 2)),
        ([3, 0], [1, 6], [1, 1], (0, 6, 2)),
    ],
)
def test_a_slice_by_tensors_has_the_sizes_of_what_it_is_given(begin, end, strides, shape):
    data, got = run_slice(sliced(), begin, end, strides, shape)
    want = testing.strided_slice_python(data, begin, end, strides)
    np.testing.assert_array_equal(got, want)


def test_a_slice_by_tensors_does_not_leave_the_data():
    with pytest.raises(OutOfBoundsError, match="strided_slice: the index 2"):
        run_slice(sliced(), [2, 0], [9, 6], [1, 1], (3, 6, 2))


def test_a_vector_of_integers_gives_its_elements():
    sizes = te.placeholder((3,), "int32", "sizes")
    first, second, third = sizes
    assert [tir.Add(x, 0).a.indices[0].value for x in (first, second, third)] == [0, 1, 2]
    data = te.placeholder((4, 6), name="A")
    part = topi.strided_slice(data, [0, 1], te.placeholder((2,), "int32", "end"))
    assert part.op.name == "T_strided_slice_dynamic"
    for tensor in (data, te.placeholder((3,), name="x"), te.placeholder((te.var("n"),), "int32")):
        with pytest.raises(TypeMismatchError, match="no elements to iterate over"):
            list(tensor)


def test_casts_to_the_dtype_of_an_index_vanish():
    data = te.placeholder((4, 6), name="A")
    made = te.compute((4, 6), lambda i, j: data[tir.Cast("int64", i), j] + tir.Cast("int64", j))
    text = te.create_prim_func([data, made], index_dtype_override="int64").script()
    assert "A[v_i, v_j]" in text and 'T.Cast("int64"' not in text


@pytest.mark.parametrize(
    "build, error",
    [
        (lambda x, i: topi.strided_slice(x, i, i, axes=[0, 1]), UnsupportedError),
        (lambda x, i: topi.strided_slice(x, i, [1]), ShapeError),
        (lambda x, i: topi.strided_set(x, x, [0], [2]), ShapeError),
        (lambda x, i: topi.strided_set(x, i, [0], [2]), ShapeError),
        (lambda x, i: topi.adv_index(x, [i, i, i]), ShapeError),
        (lambda x, i: topi.meshgrid([i], "yx"), UnsupportedError),
        (lambda x, i: topi.sliding_window(x, 0, [4, 1], [1, 1]), ShapeError),
        (lambda x, i: topi.sliding_window(x, 0, [1, 1], [0, 1]), OpAttributeInvalid),
        (lambda x, i: topi.matrix_set_diag(x, i, (1, 0)), OpAttributeInvalid),
        (lambda x, i: topi.matrix_set_diag(x, i, align="MIDDLE"), UnsupportedError),
        (lambda x, i: topi.sparse_to_dense(i, (3, 4), i), ShapeError),
        (lambda x, i: topi.searchsorted(x, i), ShapeError),
        (lambda x, i: topi.argwhere((3, 1), x), ShapeError),
        (lambda x, i: topi.unique(x), ShapeError),
        (lambda x, i: topi.reinterpret(x, "int64"), TypeMismatchError),
        (lambda x, i: topi.stft(i, 4, 1, 5, i, False, True), OpAttributeInvalid),
    ],
)
def test_what_does_not_fit_is_refused(build, error):
    with pytest.raises(error):
        build(te.placeholder((3, 5), name="x"), te.placeholder((2,), "int32", "i"))

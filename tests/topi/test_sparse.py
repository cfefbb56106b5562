"""Products, sums and transposes of sparse matrices against dense ones, with blocks and without."""

from types import SimpleNamespace

import numpy as np
import pytest

from tests.topi.harness import Case, check, real, torch_function
from tilesmith import te, topi
from tilesmith.lowering import build
from tilesmith.runtime import nd
from tilesmith.support.errors import (
    OpAttributeInvalid,
    OutOfBoundsError,
    ShapeError,
    TypeMismatchError,
    UnsupportedError,
)
from tilesmith.topi.sparse import utils


def sparse(rows, columns, block=(1, 1), seed=0, dtype="float32"):
    """A dense matrix in which about half of the blocks, a whole row of them too, are zero."""
    height, width = block
    kept = np.random.default_rng(seed).uniform(size=(rows // height, columns // width)) < 0.5
    kept[len(kept) // 2] = False
    return (real(rows, columns, seed=seed) * np.kron(kept, np.ones(block))).astype(dtype)


def parts(matrix, block=None):
    """Data, indices and indptr of a matrix, of single values or of blocks."""
    height, width = block or (1, 1)
    rows, columns = matrix.shape[0] // height, matrix.shape[1] // width
    cut = matrix.reshape(rows, height, columns, width).swapaxes(1, 2)
    stored = np.abs(cut).sum((2, 3)) > 0
    data = cut[stored] if block else cut[stored].reshape(-1)
    starts = np.concatenate([[0], stored.sum(1).cumsum()])
    return np.ascontiguousarray(data), np.nonzero(stored)[1].astype("int32"), starts.astype("int32")


def product(block, is_left, dtype="float32", sizes=(5, 6, 8)):
    m, n, k = sizes
    matrix = sparse(m if is_left else n, k, block or (1, 1), 1, dtype)
    dense = real(n if is_left else m, k).astype(dtype)
    if is_left:
        meaning = lambda *_: matrix.astype("float64") @ dense.T.astype("float64")
    else:
        meaning = lambda *_: dense.astype("float64") @ matrix.T.astype("float64")
    return Case(
        f"product_{block}_{is_left}_{dtype}_{m}",
        lambda x, *weight: topi.nn.sparse_dense(x, *weight, sparse_lhs=is_left),
        meaning,
        (dense, *parts(matrix, block)),
        2e-3 if dtype == "float16" else 1e-4,
    )


def convolved(layout, kernel_size, block):
    data, weight = real(2, 4, 5, 3), real(6, 4, kernel_size, kernel_size, seed=1)
    order = (0, 2, 3, 1) if layout == "NHWC" else (0, 1, 2, 3)
    matrix = weight.transpose(order).reshape(6, -1)
    matrix = matrix * (sparse(*matrix.shape, block or (1, 1)) != 0)
    pruned = matrix.reshape(weight.transpose(order).shape)
    pruned = np.ascontiguousarray(pruned.transpose(np.argsort(order)))
    wanted = torch_function("conv2d", data, pruned, padding=kernel_size // 2).transpose(order)
    return Case(
        f"convolved_{layout}_{kernel_size}_{block}",
        lambda x, *w: topi.nn.sparse_conv2d(x, *w, layout, kernel_size),
        lambda *_: wanted,
        (np.ascontiguousarray(data.transpose(order)), *parts(matrix, block)),
        1e-4,
    )


MATRIX = sparse(5, 7)
SQUARE = sparse(6, 6, seed=2)
VECTOR = real(7, 1, seed=3)
OTHER = real(7, 4, seed=4)


def placeholders(*tensors):
    return SimpleNamespace(data=tensors[0], indices=tensors[1], indptr=tensors[2])


CASES = [
    product(None, False),
    product(None, True),
    product((2, 4), False),
    product((3, 2), False, sizes=(1, 6, 8)),
    product((3, 2), True, sizes=(6, 5, 8)),
    product((1, 8), True, sizes=(6, 1, 8)),
    product(None, False, sizes=(9, 6, 8)),
    product((3, 2), False, sizes=(11, 6, 8)),
    product(None, False, "float16"),
    product((2, 4), False, "float64"),
    *[
        convolved(*row)
        for row in (
            ("NHWC", 1, None), ("NCHW", 1, (3, 2)), ("NHWC", 3, (2, 4)), ("NCHW", 3, (3, 1)),
            ("NHWC", 5, None),
        )
    ],
    Case(
        "transposed",
        topi.nn.sparse_transpose,
        lambda *_: parts(np.ascontiguousarray(SQUARE.T)),
        parts(SQUARE),
    ),
    Case(
        "transposed_one",
        topi.nn.sparse_transpose,
        lambda *given: given,
        parts(np.ones((1, 1), "float32")),
    ),
    *[
        Case(
            f"sum_{block}",
            topi.nn.sparse_add,
            lambda x, *_, block=block: x + sparse(6, 8, block or (1, 1)),
            (real(6, 8, seed=5), *parts(sparse(6, 8, block or (1, 1)), block)),
        )
        for block in (None, (3, 2))
    ],
    Case(
        "csrmv",
        lambda d, i, p, x: topi.sparse.csrmv(placeholders(d, i, p), x),
        lambda *_: MATRIX @ VECTOR,
        (*parts(MATRIX), VECTOR),
        1e-4,
    ),
    Case(
        "csrmv_bias",
        lambda d, i, p, x, y: topi.sparse.csrmv(placeholders(d, i, p), x, y),
        lambda *given: MATRIX @ VECTOR + given[4],
        (*parts(MATRIX), VECTOR, real(1, seed=7)),
        1e-4,
    ),
    Case(
        "csrmm",
        lambda d, i, p, b: topi.sparse.csrmm(placeholders(d, i, p), b),
        lambda *_: MATRIX @ OTHER,
        (*parts(MATRIX), OTHER),
        1e-4,
    ),
    Case(
        "csrmm_bias",
        lambda d, i, p, b, c: topi.sparse.csrmm(placeholders(d, i, p), b, c),
        lambda *given: MATRIX @ OTHER + given[4][:, None],
        (*parts(MATRIX), OTHER, real(5, seed=7)),
        1e-4,
    ),
    Case(
        "dense_of_sparse_data",
        lambda d, i, p, w, b: topi.sparse.dense(placeholders(d, i, p), w, b),
        lambda *given: MATRIX @ OTHER + given[4],
        (*parts(MATRIX), np.ascontiguousarray(OTHER.T), real(4, seed=7)),
        1e-4,
    ),
    Case(
        "dense_of_a_sparse_weight",
        lambda x, d, i, p, b: topi.sparse.dense(x, placeholders(d, i, p), b),
        lambda *given: OTHER.T @ MATRIX.T + given[4],
        (np.ascontiguousarray(OTHER.T), *parts(MATRIX), real(5, seed=7)),
        1e-4,
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_sparse_operators_agree_with_dense_ones(case):
    check(case)


def test_random_matrices():
    made = utils.random_bsr_matrix(12, 20, 3, 4, 0.3, "float32")
    assert made.shape == (12, 20) and made.data.dtype == np.float32
    assert made.data.shape == (7, 3, 4) and made.indptr[-1] == 7  # 0.3 of 20 blocks, and one
    for own, again in zip((made.data, made.indices, made.indptr), parts(made.todense(), (3, 4))):
        assert (own == again).all()
    whole = utils.random_bsr_matrix(4, 4, 2, 2, 1.0, "float64")
    assert (whole.toarray() != 0).all()


def test_inputs_of_a_sparse_product_are_found():
    data = te.placeholder((5, 8), name="data")
    weight = [
        te.placeholder(shape, dtype, name)
        for shape, dtype, name in (
            ((3, 2, 4), "float32", "w"), ((3,), "int32", "i"), ((4,), "int32", "p")
        )
    ]  # fmt: skip
    made = topi.nn.relu(topi.nn.sparse_dense(topi.nn.relu(data), *weight))
    names = topi.nn.try_get_sparse_input([data, *weight, made])
    # 24 of 6 x 8 elements are stored
    assert names == dict(
        zip(weight, [f"sparse_dense_bsr_6_8_2_4_0.50_W_{x}" for x in ("data", "indices", "indptr")])
    )
    assert topi.nn.try_get_conv2d_sparse_input([made]) == {}
    image = te.placeholder((1, 4, 4, 8), name="image")
    convolution = topi.nn.sparse_conv2d(image, *weight)
    assert list(topi.nn.try_get_conv2d_sparse_input([convolution])) == weight
    assert topi.nn.try_get_sparse_input([convolution]) == {}


@pytest.mark.parametrize(
    ("place", "value", "text"),
    [(1, 9, "sparse_dense_sp_rhs: the index 9 .* of size 4"), (2, 500, "stored values, row 1")],
)
def test_indices_are_checked_when_a_program_runs(place, value, text):
    given = [real(2, 8), *parts(sparse(6, 8, (2, 2)), (2, 2))]
    inputs = [te.placeholder(x.shape, str(x.dtype)) for x in given]
    made = topi.nn.sparse_dense(*inputs)
    function = build(te.create_prim_func([*inputs, made]), target="llvm")
    given[1 + place] = given[1 + place].copy()
    given[1 + place][place] = value
    out = nd.array(np.zeros((2, 6), "float32"))
    with pytest.raises(OutOfBoundsError, match=text):
        function["main"](*[nd.array(x) for x in given], out)


def tensors(*shapes, dtype="float32"):
    return [te.placeholder(shape, dtype, "x") for shape in shapes]


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (
            lambda d, i, p, x: topi.nn.sparse_dense(x, d, x, p),
            ShapeError,
            "indices and indptr have 1; got 1, 2 and 1",
        ),
        (lambda d, i, p, x: topi.nn.sparse_dense(x, d, d, p), TypeMismatchError, "are integers"),
        (
            lambda d, i, p, x: topi.nn.sparse_conv2d(x, d, i, p),
            ShapeError,
            "4 dimensions, got 2",
        ),
        (
            lambda d, i, p, x: topi.nn.sparse_dense(x, *tensors((3, 2, 3)), i, p),
            ShapeError,
            "8 columns are not blocks of 3",
        ),
        (
            lambda d, i, p, x: topi.nn.sparse_transpose(*tensors((3, 2, 3)), i, p),
            ShapeError,
            "blocks are not transposed",
        ),
        (
            lambda d, i, p, x: topi.nn.sparse_conv2d(x, d, i, p, "HWNC"),
            OpAttributeInvalid,
            "neither NHWC nor NCHW",
        ),
        (
            lambda d, i, p, x: topi.nn.sparse_conv2d(x, d, i, p, "NHWC", 2),
            OpAttributeInvalid,
            "an odd size is needed",
        ),
        (lambda d, i, p, x: topi.sparse.csrmv(x, x), TypeMismatchError, "sparse placeholder"),
        (
            lambda d, i, p, x: topi.sparse.csrmv(placeholders(d, i, p), x),
            ShapeError,
            r"\(K, 1\), not \[4, 8\]",
        ),
        (
            lambda d, i, p, x: topi.sparse.dense(placeholders(d, i, p), placeholders(d, i, p)),
            TypeMismatchError,
            "both sparse",
        ),
        (lambda *_: utils.sparse_sketch_rules(), UnsupportedError, "sketches"),
        (
            lambda *_: utils.convert_model_dense_to_sparse(None, {}),
            UnsupportedError,
            r"convert_model_dense_to_sparse\(mod, params",
        ),
        (
            lambda *_: utils.random_bsr_matrix(5, 4, 2, 2, 0.5, "float32"),
            ShapeError,
            "5 by 4 elements in blocks of 2 by 2",
        ),
        (
            lambda *_: utils.random_bsr_matrix(4, 4, 2, 2, 0.0, "float32"),
            OpAttributeInvalid,
            "a density of 0.0",
        ),
    ],
)
def test_mistakes_are_said(build, error, text):
    data, matrix = tensors((3,), (4, 8))
    indices, indptr = tensors((3,), (6,), dtype="int32")
    with pytest.raises(error, match=text):
        build(data, indices, indptr, matrix)

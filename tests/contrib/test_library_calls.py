"""Operators that call libraries: results against numpy, and what is said where a library is
missing.
"""

import ctypes.util
import importlib

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import te
from tilesmith.contrib import cblas, cublas, cublaslt, dnnl, mkl, random, sort, sparse
from tilesmith.runtime.libraries import blas, find
from tilesmith.runtime.libraries import dnnl as onednn
from tilesmith.runtime.libraries.table import FUNCTIONS
from tilesmith.runtime.registry import get_global_func
from tilesmith.support.errors import (
    MissingDependencyError,
    ShapeError,
    TypeMismatchError,
    UnsupportedError,
)
from tilesmith.support.lazy import resolve


def is_there(finder):
    try:
        finder()
    except MissingDependencyError:
        return False
    return True


HAS_MKL, HAS_DNNL = is_there(blas.find_mkl), is_there(onednn.find_dnnl)
needs_mkl = pytest.mark.skipif(not HAS_MKL, reason="MKL is not installed (pip install mkl)")
needs_dnnl = pytest.mark.skipif(
    not HAS_DNNL, reason="oneDNN is not installed (pip install onednn-cpu-gomp)"
)


def call(output, inputs, values, dtype="float32"):
    """Build a tensor expression and run it; return the result."""
    library = ts.build(te.create_prim_func([*inputs, output]), target="llvm")
    out = ts.nd.array(np.zeros([int(size) for size in output.shape], dtype))
    library(*[ts.nd.array(value) for value in values], out)
    return out.numpy()


def numbers(*shape, dtype="float32"):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def matrices(batches, transa, transb, dtype="float32"):
    a = numbers(*batches[0], *((7, 5) if transa else (5, 7)), dtype=dtype)
    b = numbers(*batches[1], *((4, 7) if transb else (7, 4)), dtype=dtype)
    left = a.swapaxes(-1, -2) if transa else a
    right = b.swapaxes(-1, -2) if transb else b
    return a, b, left @ right


LIBRARIES = [
    pytest.param(cblas),
    pytest.param(mkl, marks=needs_mkl),
    pytest.param(dnnl, marks=needs_dnnl),
]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("transa", [False, True])
@pytest.mark.parametrize("transb", [False, True])
def test_products(library, transa, transb):
    a, b, expected = matrices(((), ()), transa, transb)
    x, y = te.placeholder(a.shape, name="x"), te.placeholder(b.shape, name="y")
    made = library.matmul(x, y, transa, transb)
    doubled = te.compute(made.shape, lambda i, j: made[i, j] * 2.0, name="doubled")
    np.testing.assert_allclose(call(doubled, [x, y], [a, b]), expected * 2, rtol=1e-4, atol=1e-5)
    with pytest.raises(ShapeError, match="inner sizes"):
        library.matmul(x, x, transa, transa)
    with pytest.raises(ShapeError, match="2 dimensions"):
        library.matmul(te.placeholder((1, 5, 7)), y)


@pytest.mark.parametrize("library", LIBRARIES[:2])
@pytest.mark.parametrize("batches", [((3,), (3,)), ((3,), (1,)), ((1,), (3,))])
@pytest.mark.parametrize("is_iterative", [False, True])
def test_products_of_batches(library, batches, is_iterative):
    a, b, expected = matrices(batches, False, True, "float64")
    x, y = te.placeholder(a.shape, "float64", "x"), te.placeholder(b.shape, "float64", "y")
    made = library.batch_matmul(x, y, False, True, is_iterative)
    np.testing.assert_allclose(call(made, [x, y], [a, b], "float64"), expected, rtol=1e-12)
    with pytest.raises(ShapeError, match="batches of 3 and 2"):
        library.batch_matmul(te.placeholder((3, 5, 7)), te.placeholder((2, 7, 4)))


@needs_mkl
def test_products_of_bytes():
    random_numbers = np.random.default_rng(0)
    a = random_numbers.integers(0, 256, (5, 7)).astype("uint8")
    b = random_numbers.integers(-128, 128, (4, 7)).astype("int8")
    x, y = te.placeholder(a.shape, "uint8", "x"), te.placeholder(b.shape, "int8", "y")
    made = mkl.matmul_u8s8s32(x, y, False, True)
    np.testing.assert_array_equal(
        call(made, [x, y], [a, b], "int32"), a.astype("int32") @ b.T.astype("int32")
    )


@pytest.mark.parametrize("spelling", ["scipy_cblas_{}64_", "scipy_cblas_{}"])
def test_builds_of_openblas(spelling):
    """The wheels of numpy and scipy spell the functions differently, and have other sizes."""
    package = {"scipy_cblas_{}64_": "numpy", "scipy_cblas_{}": "scipy"}[spelling]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    paths = find.libraries_of_packages([package], "*openblas*")
    library = find.open_first(paths, [spelling.format("sgemm")])
    if library is None:
        pytest.skip(f"this {package} was built with another BLAS")
    size = {"numpy": ctypes.c_int64, "scipy": ctypes.c_int}[package]
    a, b, out = numbers(5, 7), numbers(7, 4), np.zeros((5, 4), "float32")
    blas.Blas(package, library, spelling, size).gemm("float32")(
        101, 111, 111, 5, 4, 7, 1.0, a.ctypes.data, 7, b.ctypes.data, 4, 0.0, out.ctypes.data, 4
    )
    np.testing.assert_allclose(out, a @ b, rtol=1e-5, atol=1e-6)


def test_blas_refuses_what_it_does_not_multiply():
    multiply = get_global_func("tvm.contrib.cblas.matmul")
    tensors = [ts.nd.array(np.ones((2, 2), "int32")) for _ in range(3)]
    with pytest.raises(TypeMismatchError, match="cblas multiplies float32 and float64, not int32"):
        multiply(*tensors)
    tensors = [ts.nd.array(np.ones((2, size), "float32")) for size in (2, 2, 3)]
    with pytest.raises(ShapeError, match="do not make one of"):
        multiply(*tensors)
    with pytest.raises(TypeMismatchError, match="uint8 by int8"):
        mkl.matmul_u8s8s32(te.placeholder((2, 2)), te.placeholder((2, 2)))


def test_products_of_parts_of_a_tensor():
    whole = ts.nd.array(numbers(6, 8))
    out = np.zeros((3, 3), "float32")
    part = whole.numpy_view()[::2, ::2]
    tensors = [ts.nd.from_dlpack(one) for one in (part, part, out)]
    get_global_func("tvm.contrib.cblas.matmul")(*tensors, False, True)
    np.testing.assert_allclose(out, part @ part.T, rtol=1e-5)


@pytest.mark.parametrize(
    "name, finder, package",
    [
        ("tvm.contrib.cblas.matmul", (blas, "_openblas"), "scipy-openblas64"),
        ("tvm.contrib.mkl.matmul", (blas, "_mkl"), "mkl"),
        ("tvm.contrib.mkl.matmul_u8s8s32", (blas, "_mkl"), "mkl"),
        ("tvm.contrib.dnnl.matmul", (onednn, "_library"), "onednn-cpu-gomp"),
    ],
)
def test_a_missing_library_is_named(monkeypatch, name, finder, package):
    monkeypatch.setattr(*finder, lambda: None)
    tensors = [ts.nd.array(np.ones((2, 2), "float32")) for _ in range(3)]
    with pytest.raises(MissingDependencyError, match=f"install {package}"):
        get_global_func(name)(*tensors)


def test_a_library_that_does_not_load_is_passed_over(tmp_path):
    (tmp_path / "libdnnl.so").write_bytes(b"nothing")
    assert find.open_first([str(tmp_path / "libdnnl.so")], ("dnnl_sgemm",)) is None
    assert list(find.system_libraries(("no_such_library",))) == []


@needs_dnnl
@pytest.mark.parametrize("is_last", [False, True])
@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions_by_onednn(is_last, groups):
    torch = pytest.importorskip("torch")
    data, filters = numbers(2, 4, 9, 8), numbers(6, 4 // groups, 3, 2)
    options = ((2, 1), (1, 0), (1, 2), groups)
    expected = torch.nn.functional.conv2d(*map(torch.tensor, (data, filters)), None, *options)
    if is_last:
        data, filters = data.transpose(0, 2, 3, 1).copy(), filters.transpose(2, 3, 1, 0).copy()
        expected = expected.permute(0, 2, 3, 1)
    x, w = te.placeholder(data.shape, name="x"), te.placeholder(filters.shape, name="w")
    made = dnnl.dnnl_conv2d(x, w, *options, is_last)
    np.testing.assert_allclose(call(made, [x, w], [data, filters]), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "padding, shape", [(1, (1, 6, 9, 9)), ((0, 1), (1, 6, 7, 9)), ((0, 1, 1, 1), (1, 6, 8, 9))]
)
def test_sizes_of_convolutions_by_onednn(padding, shape):
    x, w = te.placeholder((1, 4, 9, 9), name="x"), te.placeholder((6, 4, 3, 3), name="w")
    made = dnnl.dnnl_conv2d(x, w, 1, padding, 1, 1)
    assert [int(size) for size in made.shape] == list(shape)
    with pytest.raises(TypeMismatchError, match="float32"):
        dnnl.dnnl_conv2d(te.placeholder((1, 4, 9, 9), "int8"), w, 1, padding, 1, 1)
    with pytest.raises(UnsupportedError, match="sizes that are known"):
        dnnl.dnnl_conv2d(te.placeholder((te.var("n"), 4, 9, 9)), w, 1, padding, 1, 1)


@pytest.mark.parametrize(
    "function, shape",
    [(cublas.matmul, (5, 7)), (cublaslt.matmul, (5, 7)), (cublas.batch_matmul, (2, 5, 7))],
)
def test_products_of_nvidias_libraries_are_refused(function, shape):
    x, y = te.placeholder(shape, name="x"), te.placeholder(shape, name="y")
    made = function(x, y, transb=True)
    assert [int(size) for size in made.shape] == [*shape[:-1], 5]
    with pytest.raises(UnsupportedError, match="no library of NVIDIA.s is called .* on cpu"):
        call(made, [x, y], [numbers(*shape)] * 2)


def test_cublaslt_checks_the_sizes_it_is_told():
    x = te.placeholder((5, 7), name="x")
    assert cublaslt.matmul(x, x, transb=True, n=5, m=5).ndim == 2
    with pytest.raises(ShapeError, match="has 5, not 6"):
        cublaslt.matmul(x, x, transb=True, n=6)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_packed_functions_are_registered(name):
    assert get_global_func(name) is not None and callable(resolve(FUNCTIONS[name]))


# -- random numbers


def drawn(made, dtype="float32"):
    get_global_func("tvm.contrib.random.seed")(7)
    return call(made, [], [], dtype)


@pytest.mark.parametrize(
    "make, dtype, low, high",
    [
        (lambda: random.uniform(-1, 3, (40, 30)), "float32", -1, 3),
        (lambda: random.randint(-5, 9, (40, 30)), "int32", -5, 8),
        (lambda: random.randint(250, 256, (40, 30), "uint8"), "uint8", 250, 255),
    ],
)
def test_random_numbers(make, dtype, low, high):
    found = drawn(make(), dtype)
    assert found.min() >= low and found.max() <= high and len(np.unique(found)) > 5
    np.testing.assert_array_equal(found, drawn(make(), dtype))


def test_normal_numbers_are_used_by_what_follows():
    made = random.normal(3.0, 0.5, (50, 40))
    found = drawn(te.compute(made.shape, lambda i, j: made[i, j] * 2.0))
    assert abs(found.mean() - 6) < 0.1 and abs(found.std() - 1) < 0.1


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint8", "bool", "bfloat16"])
def test_tensors_of_every_dtype_are_filled(dtype):
    tensor = ts.nd.empty((30,), dtype)
    get_global_func("tvm.contrib.random.random_fill")(tensor)
    values = tensor.numpy().astype("float32")
    assert 0 <= values.min() and values.max() <= 10 and len(np.unique(values)) > 1


def test_random_numbers_of_another_kind_are_refused():
    with pytest.raises(TypeMismatchError, match="whole numbers, not float32"):
        random.randint(0, 5, (3,), "float32")
    for name, dtype in (("uniform", "int32"), ("normal", "int8"), ("randint", "float32")):
        with pytest.raises(TypeMismatchError, match=f"random.{name} fills"):
            get_global_func(f"tvm.contrib.random.{name}")(0, 1, ts.nd.empty((3,), dtype))
    with pytest.raises(TypeMismatchError, match="no int8 is in the range"):
        get_global_func("tvm.contrib.random.randint")(0, 1000, ts.nd.empty((3,), "int8"))


# -- sorting

TIES = np.array([[3, 1, 3, 2], [0, 0, 5, 0]], "float32")


def stable(values, axis, is_ascend):
    return np.argsort(values if is_ascend else -values, axis=axis, kind="stable")


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("is_ascend", [False, True])
def test_sorting(axis, is_ascend):
    data, out = ts.nd.array(TIES), ts.nd.empty(TIES.shape, "int32")
    expected = stable(TIES, axis, is_ascend)
    sort.argsort(data, out, axis, is_ascend)
    np.testing.assert_array_equal(out.numpy(), expected)
    values = ts.nd.empty(TIES.shape)
    get_global_func("tvm.contrib.sort.sort")(data, values, axis, is_ascend)
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(TIES, expected, axis))


@pytest.mark.parametrize("ret_type", ["both", "values", "indices"])
def test_the_first_elements(ret_type):
    expected = stable(TIES, 1, False)[:, :2]
    values, indices = ts.nd.empty((2, 2)), ts.nd.empty((2, 2), "int64")
    outs = {"both": [values, indices], "values": [values], "indices": [indices]}[ret_type]
    get_global_func("tvm.contrib.sort.topk")(ts.nd.array(TIES), *outs, 2, 1, ret_type, False)
    if ret_type != "values":
        np.testing.assert_array_equal(indices.numpy(), expected)
    if ret_type != "indices":
        np.testing.assert_array_equal(values.numpy(), np.take_along_axis(TIES, expected, 1))
    with pytest.raises(UnsupportedError, match="both, values or indices"):
        sort.topk(ts.nd.array(TIES), *outs, 2, 1, "all", False)


def test_only_the_valid_elements_are_sorted():
    out = ts.nd.empty(TIES.shape, "int32")
    counts = ts.nd.array(np.array([3, 0], "int32"))
    sort.argsort_nms(ts.nd.array(TIES), counts, out, 1, False)
    np.testing.assert_array_equal(out.numpy(), [[0, 2, 1, 3], [0, 1, 2, 3]])
    with pytest.raises(ShapeError, match="2 counts for 4 rows"):
        sort.argsort_nms(ts.nd.array(TIES), counts, out, 0, False)
    with pytest.raises(ShapeError, match="no axis 2"):
        sort.sort(ts.nd.array(TIES), ts.nd.empty(TIES.shape), 2)


# -- sparse matrices

MATRIX = np.array([[0, 2, 0], [0, 0, 0], [5, 0, 1]], "float32")


def test_sparse_matrices():
    made = sparse.array(MATRIX)
    assert made.shape == (3, 3) and made.stype == "csr" and str(made.dtype) == "float32"
    np.testing.assert_array_equal(made.data.numpy(), [2, 5, 1])
    np.testing.assert_array_equal(made.indices.numpy(), [1, 0, 2])
    np.testing.assert_array_equal(made.indptr.numpy(), [0, 1, 1, 3])
    parts = (made.data, made.indices, made.indptr)
    for again in (sparse.array(parts, shape=(3, 3)), sparse.CSRNDArray(made)):
        np.testing.assert_array_equal(again.numpy(), MATRIX)
        np.testing.assert_array_equal(again.asnumpy(), MATRIX)


@pytest.mark.parametrize(
    "parts, reason",
    [
        (([1], [0], [0, 1]), "indptr needs 4 numbers"),
        (([1], [3], [0, 1, 1, 1]), "column is not in the range"),
        (([1, 2], [0, 1], [0, 1, 1, 1]), "2 elements and 2 columns, indptr ends at 1"),
    ],
)
def test_wrong_sparse_matrices_are_refused(parts, reason):
    with pytest.raises(ShapeError, match=reason):
        sparse.array(tuple(np.array(one) for one in parts), shape=(3, 3))


def test_forms_of_sparse_matrices_that_are_refused():
    with pytest.raises(UnsupportedError, match="stype is 'csr'"):
        sparse.array(MATRIX, stype="coo")
    with pytest.raises(UnsupportedError, match="stype is 'csr'"):
        sparse.placeholder((3, 3), 2, stype="coo")
    with pytest.raises(ShapeError, match="number of elements"):
        sparse.placeholder((3, 3))
    with pytest.raises(ShapeError, match="2 dimensions"):
        sparse.placeholder((3,), 2)
    with pytest.raises(TypeMismatchError, match="a shape"):
        sparse.array((1, 2, 3))


def test_a_program_with_a_sparse_placeholder():
    """The sum of each row, which `indptr` delimits."""
    entry = sparse.placeholder((3, 3), nonzeros=3, dtype="float32", name="A")
    assert isinstance(entry, sparse.CSRPlaceholderOp) and entry.name == "A"
    step = te.reduce_axis((0, 3), "step")

    def row(i):
        place = entry.indptr[i] + step
        inside = place < entry.indptr[i + 1]
        return te.sum(te.if_then_else(inside, entry.data[te.min(place, 2)], 0.0), step)

    total = te.compute((3,), row, "total")
    made = sparse.array(MATRIX)
    function = te.create_prim_func([entry.data, entry.indices, entry.indptr, total])
    out = ts.nd.empty((3,))
    ts.build(function, target="llvm")(made.data, made.indices, made.indptr, out)
    np.testing.assert_array_equal(out.numpy(), MATRIX.sum(1))

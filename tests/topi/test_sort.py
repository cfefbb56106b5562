"""Sorting and the first few elements: ties, NaN, axes, dtypes, symbolic sizes, each back end."""

import numpy as np
import pytest

import tilesmith as ts
from tests.topi.harness import real, whole
from tilesmith import te, topi
from tilesmith.tir import interpreter


def order(x, axis, is_ascend):
    """The places of the elements in order; equal ones in their order, NaN the greatest."""
    if is_ascend:
        return np.argsort(x, axis, kind="stable")
    turned = np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    return x.shape[axis] - 1 - turned


def run(function, inputs, outputs, how):
    if how == "interpreter":
        interpreter.run(function, *[x.copy() for x in inputs], *outputs)
        return outputs
    arrays = [ts.nd.array(x) for x in outputs]
    ts.build(function, target=how)["main"](*[ts.nd.array(x) for x in inputs], *arrays)
    return [x.numpy() for x in arrays]


def check(x, axis, is_ascend, count=0, how="llvm"):
    data = te.placeholder(x.shape, str(x.dtype), "x")
    made = topi.topk(data, count, axis, "both", is_ascend, "int64")
    function = te.create_prim_func([data, *made])
    places = order(x, axis, is_ascend)
    if count:
        places = np.take(places, range(count), axis)
    outputs = [np.zeros(places.shape, x.dtype), np.zeros(places.shape, "int64")]
    values, found = run(function, [x], outputs, how)
    np.testing.assert_array_equal(found, places)
    np.testing.assert_array_equal(values, np.take_along_axis(x, places, axis))


def with_nan(*shape):
    x = np.random.default_rng(5).integers(-3, 3, shape).astype("float32")
    x[np.random.default_rng(6).random(shape) < 0.2] = np.nan
    x[np.random.default_rng(7).random(shape) < 0.2] = -np.inf
    return np.where(x == 0, np.float32(-0.0) * (np.arange(shape[-1]) % 2), x).astype("float32")


@pytest.mark.parametrize("how", ["llvm", "c", "interpreter"])
@pytest.mark.parametrize("is_ascend", [False, True])
@pytest.mark.parametrize("count", [0, 1, 3, 17])
def test_ties_and_nan(how, is_ascend, count):
    check(with_nan(3, 37), 1, is_ascend, count, how)


@pytest.mark.parametrize("size", [1, 2, 7, 31, 32, 33, 100, 513])
@pytest.mark.parametrize("is_ascend", [False, True])
def test_sizes(size, is_ascend):
    check(whole(2, size, high=size), 1, is_ascend)


@pytest.mark.parametrize("count", [1, 20, 150, 299])
@pytest.mark.parametrize("is_ascend", [False, True])
def test_the_first_few_to_all_but_a_few(count, is_ascend):
    """From a heap to sorting all: those that share the first digit of the last one stay."""
    check(with_nan(2, 300), 1, is_ascend, count)
    check(real(2, 300), 1, is_ascend, count)


@pytest.mark.parametrize("dtype", ["float64", "int64", "uint64", "int16"])
@pytest.mark.parametrize("is_ascend", [False, True])
def test_all_digits(dtype, is_ascend):
    """Keys that differ in any of their bytes, of both signs; some bytes are the same for all."""
    rng = np.random.default_rng(3)
    kind = np.dtype(dtype)
    bits = rng.integers(0, 256, (3, 200, kind.itemsize), dtype="uint8")
    bits[1, :, ::2] = 7
    bits[2, :, 1:] = 0
    x = bits.view(dtype).reshape(3, 200)
    x = np.nan_to_num(x) if kind.kind == "f" else x
    for count in (0, 90):
        check(x, 1, is_ascend, count)


@pytest.mark.parametrize("axis", [0, 1, 2, -3])
@pytest.mark.parametrize("count", [0, 2])
def test_axes(axis, count):
    check(whole(11, 9, 10, high=4), axis, False, count)


@pytest.mark.parametrize(
    "dtype", ["float16", "float64", "int8", "uint8", "int64", "uint32", "uint64", "bool"]
)
@pytest.mark.parametrize("count", [0, 4])
def test_dtypes(dtype, count):
    x = np.random.default_rng(0).integers(0, 200, (3, 40))
    check((x > 99) if dtype == "bool" else x.astype(dtype), 1, False, count)


@pytest.mark.parametrize("shape", [(0,), (0, 5), (5, 0)])
def test_empty(shape):
    check(np.zeros(shape, "float32"), -1, True)


@pytest.mark.parametrize("name", ["sorted", "turned", "equal"])
def test_rows_in_parallel_and_already_in_order(name):
    x = np.sort(real(40, 3000), 1)
    x = {"sorted": x, "turned": x[:, ::-1].copy(), "equal": np.ones_like(x)}[name]
    for count in (0, 12):
        check(x, 1, True, count)


@pytest.mark.parametrize("count", [0, 3, 40])
def test_symbolic_sizes(count):
    """Rows are sorted by insertion, by digits or with a heap, as their size says."""
    shape = [te.var("n"), te.var("m")]
    data = te.placeholder(shape, "float32", "x")
    made = topi.topk(data, count, 1, "both", False, "int32")
    built = ts.build(te.create_prim_func([data, *made]), target="llvm")["main"]
    for rows, size in ((1, 3), (4, 50), (3, 333), (2, 9000)):
        if size < count:
            continue
        x = with_nan(rows, size)
        places = order(x, 1, False)[:, : count or size]
        out = [ts.nd.array(np.zeros(places.shape, kind)) for kind in ("float32", "int32")]
        built(ts.nd.array(x), *out)
        np.testing.assert_array_equal(out[1].numpy(), places)
        np.testing.assert_array_equal(out[0].numpy(), np.take_along_axis(x, places, 1))


def test_too_few_elements_at_run_time():
    data = te.placeholder([te.var("n")], "float32", "x")
    values = topi.topk(data, 4, 0, "values")
    built = ts.build(te.create_prim_func([data, values]), target="llvm")["main"]
    with pytest.raises(ts.error.TilesmithError, match="fewer than 4 elements"):
        built(ts.nd.array(np.zeros(3, "float32")), ts.nd.array(np.zeros(4, "float32")))


def test_work_grows_almost_linearly():
    """A million elements take milliseconds where work is n log n, minutes where it is quadratic."""
    x = real(1_000_000)
    check(x, 0, True)
    check(x, 0, False, 10)


@pytest.mark.parametrize("is_ascend", [False, True])
@pytest.mark.parametrize(
    "shape, axis, counts",
    [((3, 7), 1, [4, 0, 99]), ((2, 40, 3), 1, [40, 33, 5, -1, 1, 12]), ((6,), 0, 4)],
)
def test_rows_sorted_in_part(shape, axis, counts, is_ascend):
    x, counts = whole(*shape, low=0, high=5), np.array(counts, "int32")
    data = te.placeholder(shape, "int32", "x")
    valid = te.placeholder(counts.shape, "int32", "counts")
    made = topi.argsort(data, valid, axis, is_ascend, "int64")
    function = te.create_prim_func([data, valid, made])
    rows = np.moveaxis(x, axis, -1).reshape(-1, shape[axis])
    wanted = np.tile(np.arange(shape[axis]), (len(rows), 1))
    for row, places, count in zip(rows, wanted, counts.reshape(-1)):
        used = min(max(count, 0), len(row))
        places[:used] = order(row[:used], 0, is_ascend)
    rest = [*shape[:axis], *shape[axis + 1 :], shape[axis]]
    wanted = np.moveaxis(wanted.reshape(rest), -1, axis)
    for how in ("llvm", "interpreter"):
        (found,) = run(function, [x, counts], [np.zeros(shape, "int64")], how)
        np.testing.assert_array_equal(found, wanted)

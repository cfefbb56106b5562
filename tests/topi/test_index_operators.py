"""Computes that move, choose, order and scatter elements, and reductions made of others."""

import numpy as np
import pytest

import tilesmith as ts
from tests.topi.harness import Case, check, real, whole
from tilesmith import te, tir, topi
from tilesmith.support.errors import OutOfBoundsError, ShapeError, UnsupportedError
from tilesmith.te import create_prim_func
from tilesmith.tir import interpreter

A = real(3, 5)
TIES = whole(2, 7, 3, low=0, high=3)
VALUES = np.array([7, -2, 0, 3], "int32")


def scattered(data, indices, updates, axis, combine):
    """`scatter_elements`, update by update."""
    out = data.copy()
    for place in np.ndindex(*indices.shape):
        target = list(place)
        target[axis] = indices[place]
        out[tuple(target)] = combine(out[tuple(target)], updates[place])
    return out


def scattered_nd(data, indices, updates, combine):
    out = data.copy()
    for place in np.ndindex(*indices.shape[1:]):
        target = tuple(indices[(slice(None), *place)])
        out[target] = combine(out[target], updates[place])
    return out


COMBINE = {
    "update": lambda old, new: new,
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}
INDICES = whole(2, 5, low=-3, high=3)
UPDATES = real(2, 5, seed=3)
TUPLES = whole(2, 4, low=0, high=3)

CASES = [
    Case(
        "tensordot",
        lambda a, b: topi.tensordot(a, b, 2),
        lambda a, b: np.tensordot(a, b, 2),
        (real(2, 3, 4), real(3, 4, 5)),
        1e-4,
    ),
    Case(
        "tensordot_axes",
        lambda a, b: topi.tensordot(a, b, ([0, 2], [-1, 0])),
        lambda a, b: np.tensordot(a, b, ([0, 2], [-1, 0])),
        (real(2, 3, 4), real(4, 5, 2)),
        1e-4,
    ),
    Case(
        "sequence_mask",
        lambda x, n: topi.sequence_mask(x, n, -1.5, 1),
        lambda x, n: np.where(np.arange(5) < n[:, None], x, -1.5),
        (A, np.int32([2, 0, 5])),
    ),
    Case(
        "sequence_mask_first",
        lambda x, n: topi.sequence_mask(x, n),
        lambda x, n: np.where(np.arange(3)[:, None] < n, x, 0),
        (A, np.int32([2, 0, 3, 1, 9])),
    ),
    Case(
        "reverse_sequence",
        topi.reverse_sequence,
        lambda x, n: np.stack([np.concatenate([r[:k][::-1], r[k:]]) for r, k in zip(x, n)]),
        (A, np.int32([2, 0, 5])),
    ),
    Case("mean", lambda x: topi.mean(x, 1), lambda x: x.mean(1), (A,)),
    Case(
        "mean_keep",
        lambda x: topi.mean(x, [0, -1], True),
        lambda x: x.mean((0, 1), keepdims=True),
        (A,),
    ),
    Case("mean_int", topi.mean, lambda x: np.trunc(x.mean()), (VALUES,)),
    Case("variance", lambda x: topi.variance(x, 0), lambda x: x.var(0), (A,)),
    Case("std", lambda x: topi.std(x, -1, True), lambda x: x.std(-1, keepdims=True), (A,)),
    Case(
        "collapse_sum",
        lambda x: topi.collapse_sum(x, (3, 1)),
        lambda x: x.sum((0, 2))[:, None],
        (real(2, 3, 4),),
    ),
    Case("cumsum", lambda x: topi.cumsum(x, 1), lambda x: x.cumsum(1), (A,)),
    Case("cumsum_flat", topi.cumsum, lambda x: x.cumsum(), (A,)),
    Case("cumsum_wide", lambda x: topi.cumsum(x, -1, "int64"), lambda x: x.cumsum(-1), (TIES,)),
    Case(
        "cumsum_exclusive",
        lambda x: topi.cumsum(x, 0, exclusive=True),
        lambda x: x.cumsum(0) - x,
        (A,),
    ),
    Case("cumprod", lambda x: topi.cumprod(x, 0), lambda x: x.cumprod(0), (A,)),
    Case(
        "scan_max",
        lambda x: topi.scanop(x, lambda a, b: tir.max(a, b), -1e9, "cummax", 1),
        lambda x: np.maximum.accumulate(x, 1),
        (A,),
    ),
    Case("sort", lambda x: topi.sort(x, 1), lambda x: np.sort(x, 1), (TIES,)),
    Case("sort_down", lambda x: topi.sort(x, is_ascend=0), lambda x: -np.sort(-x), (A,)),
    Case(
        "argsort",
        lambda x: topi.argsort(x, axis=1),
        lambda x: np.argsort(x, 1, kind="stable"),
        (TIES,),
    ),
    Case(
        "argsort_down",
        lambda x: topi.argsort(x, axis=1, is_ascend=False, dtype="int32"),
        lambda x: np.argsort(-x, 1, kind="stable"),
        (TIES,),
    ),
    Case(
        "topk",
        lambda x: topi.topk(x, 3),
        lambda x: [-np.sort(-x)[:, :3], np.argsort(-x)[:, :3]],
        (A,),
    ),
    Case("topk_all", lambda x: topi.topk(x, 0, 0, "values", True), lambda x: np.sort(x, 0), (A,)),
    Case(
        "topk_indices",
        lambda x: topi.topk(x, 2, 0, "indices", dtype="int32"),
        lambda x: np.argsort(-x, 0)[:2],
        (A,),
    ),
    Case(
        "one_hot",
        lambda x: topi.one_hot(x, 2, -1, 4, 0, "float32"),
        lambda x: np.where(x == np.arange(4)[:, None], 2, -1),
        (VALUES,),
    ),
    Case(
        "one_hot_narrow",
        lambda x: topi.one_hot(x, 1, 0, 300, -1, "int32"),
        lambda x: np.arange(300) == x[:, None],
        (np.array([5, -5], "int8"),),
    ),
    Case("repeat_flat", lambda x: topi.repeat(x, 2), lambda x: np.repeat(x, 2), (A,)),
    Case(
        "take_vector",
        lambda x, i: topi.take(x, i),
        lambda x, i: x[i],
        (real(6), whole(2, 3, low=0, high=6)),
    ),
    Case(
        "index_map",
        lambda x: topi.index_map_transform(
            x, tir.IndexMap.from_func(lambda i, j: (j // 4, i, j % 4)), 7
        ),
        lambda x: (
            np.pad(x, ((0, 0), (0, 3)), constant_values=7).reshape(3, 2, 4).transpose(1, 0, 2)
        ),
        (A,),
    ),
    Case(
        "einsum",
        lambda a, b: topi.einsum("bij, bkj -> bik", a, b),
        lambda a, b: np.einsum("bij,bkj->bik", a, b),
        (real(2, 3, 5), real(2, 4, 5)),
        1e-4,
    ),
    Case(
        "einsum_implicit",
        lambda a, b: topi.einsum("ij,jk", a, b),
        np.matmul,
        (real(3, 5), real(5, 2)),
        1e-4,
    ),
    Case("einsum_diagonal", lambda a: topi.einsum("ii->i", a), np.diagonal, (real(4, 4),)),
    Case("einsum_sum", lambda a: topi.einsum("ij->", a), np.sum, (A,), 1e-4),
    *[
        Case(
            f"scatter_elements_{name}",
            lambda d, i, u, name=name: topi.scatter_elements(d, i, u, 0, name),
            lambda d, i, u, combine=combine: scattered(d, i, u, 0, combine),
            (A, INDICES, UPDATES),
        )
        for name, combine in COMBINE.items()
    ],
    Case(
        "scatter_elements_axis",
        lambda d, i, u: topi.scatter_elements(d, i, u, -1),
        lambda d, i, u: scattered(d, i, u, 1, COMBINE["update"]),
        (A, whole(2, 4, low=-5, high=5), real(2, 4)),
    ),
    *[
        Case(
            f"scatter_nd_{name}",
            lambda d, i, u, name=name: topi.scatter_nd(d, i, u, name),
            lambda d, i, u, combine=combine: scattered_nd(d, i, u, combine),
            (real(3, 3, 2), TUPLES, real(4, 2)),
        )
        for name, combine in COMBINE.items()
    ],
]


NEGATIVE = whole(2, 4, low=-3, high=3)
FAR = np.array([[0, 9, -1, -9], [1, 1, 2, 2]], "int32")


CASES += [
    Case(
        "scatter_nd_tuples_last",
        lambda d, i, u: topi.scatter_nd(d, i, u, "add", tuples_last=True),
        lambda d, i, u: scattered_nd(d, i.T, u, COMBINE["add"]),
        (real(3, 3, 2), NEGATIVE.T.copy(), real(4, 2)),
    ),
    Case(
        "scatter_nd_whole",
        lambda d, i, u: topi.scatter_nd(d, i, u, "update"),
        lambda d, i, u: scattered_nd(d, i, u, COMBINE["update"]),
        (real(3, 4), whole(2, 3, 2, low=0, high=3), real(3, 2)),
    ),
    Case("cumsum_middle", lambda x: topi.cumsum(x, -2), lambda x: x.cumsum(1), (real(3, 7, 5),)),
    Case(
        "cumprod_exclusive_flat",
        lambda x: topi.cumprod(x, exclusive=True),
        lambda x: np.concatenate([[1], x.ravel().cumprod()[:-1]]),
        (A,),
    ),
    Case("cumsum_empty", lambda x: topi.cumsum(x, 1), lambda x: x, (real(3, 0),)),
    Case(
        "cumsum_narrow",
        lambda x: topi.cumsum(x, 0),
        lambda x: x.astype("float32").cumsum(0).astype("float16"),
        (real(3000).astype("float16") / np.float16(8),),
        1e-3,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_compute(case):
    check(case)


@pytest.mark.parametrize("axis", [0, 1])
def test_scatter_and_scan_of_symbolic_sizes(axis):
    n, m, k = te.var("n"), te.var("m"), te.var("k")
    data = te.placeholder([n, m], "float32", "data")
    indices = te.placeholder([k, m] if axis == 0 else [n, k], "int64", "indices")
    updates = te.placeholder(indices.shape, "float32", "updates")
    merged = topi.scatter_elements(data, indices, updates, axis, "add")
    sums = topi.cumsum(data, axis)
    built = ts.build(te.create_prim_func([data, indices, updates, merged, sums]))["main"]
    for rows, columns, count in ((3, 4, 2), (1, 7, 5), (6, 2, 0)):
        a = real(rows, columns)
        shape = (count, columns) if axis == 0 else (rows, count)
        i = np.random.default_rng(1).integers(-a.shape[axis], a.shape[axis], shape)
        outs = [ts.nd.array(np.zeros_like(a)) for _ in range(2)]
        built(*[ts.nd.array(x) for x in (a, i, real(*shape))], *outs)
        wanted = scattered(a, i, real(*shape), axis, np.add)
        np.testing.assert_allclose(outs[0].numpy(), wanted, rtol=1e-5)
        np.testing.assert_allclose(outs[1].numpy(), a.cumsum(axis), rtol=1e-5, atol=1e-5)


def test_many_updates_cost_one_pass():
    """A hundred thousand updates take milliseconds where each is made once."""
    size = 100_000
    places = np.random.default_rng(0).permutation(size).astype("int32")
    case = Case(
        "many",
        lambda d, i, u: topi.scatter_nd(d, i, u, "update"),
        lambda d, i, u: u[np.argsort(i[0])],
        (real(size), places[None], real(size, seed=1)),
    )
    check(case, "int64")


RANGES = [(5,), (2, 9, 3), (9, 2, -3), (4, 4, 1), (0, 1, 0.3), (3, 0, -0.7), (5, 2)]


@pytest.mark.parametrize("numbers", RANGES)
@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_arange(numbers, dtype):
    wanted = np.arange(*numbers).astype(dtype)
    if dtype == "int32" and any(isinstance(number, float) for number in numbers):
        wanted = np.zeros_like(wanted) + np.arange(len(wanted)) * np.int32(numbers[2]) + numbers[0]
    check(Case("arange", lambda x: topi.arange(*numbers, dtype=dtype), lambda x: wanted, (A,)))


SLICES = [
    (slice(1, 4), slice(None, None, 2)), (slice(-3, -1), slice(2, 100)),
    (slice(None, None, -1), slice(4, None, -2)), (slice(-100, 2), slice(-1, -100, -3)),
    (slice(3, 1), slice(100, -100, -1)),
]  # fmt: skip


@pytest.mark.parametrize("parts", SLICES)
@pytest.mark.parametrize("symbolic", [False, True])
def test_slices_follow_python(parts, symbolic):
    """Symbolic sizes clamp as constant ones do."""
    data = real(5, 6)
    shape = [tir.Var("n", "int32"), tir.Var("m", "int32")] if symbolic else [5, 6]
    x = te.placeholder(shape, "float32", "x")
    made = topi.strided_slice(
        x,
        [part.start for part in parts],
        [part.stop for part in parts],
        [part.step or 1 for part in parts],
    )
    wanted = data[parts]
    out = np.zeros(wanted.shape, "float32")
    interpreter.run(create_prim_func([x, made]), data.copy(), out)
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("target", ["llvm", "interpreter"])
def test_updates_out_of_range_are_an_error(target):
    inputs = [te.placeholder(FAR.shape, "int64", "i"), te.placeholder((4, 2), "float32", "u")]
    data = te.placeholder((3, 3, 2), "float32", "d")
    made = topi.scatter_nd(data, *inputs, "update")
    function = create_prim_func([data, *inputs, made])
    arrays = [real(3, 3, 2), FAR.astype("int64"), real(4, 2), np.zeros((3, 3, 2), "float32")]
    with pytest.raises(OutOfBoundsError, match="scatter_nd: the index .* of size 3"):
        if target == "llvm":
            ts.build(function)(*arrays)
        else:
            interpreter.run(function, *arrays)


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (lambda x: topi.collapse_sum(x, (1, 3, 5)), ShapeError, "collapse"),
        (lambda x: topi.topk(x, 6), ShapeError, "6 elements"),
        (lambda x: topi.topk(x, 1, ret_type="all"), UnsupportedError, "ret_type"),
        (lambda x: topi.argsort(x, x), ShapeError, "counts of shape"),
        (lambda x: topi.einsum("ij,jk->ik", x), ShapeError, "2 terms for 1"),
        (lambda x: topi.einsum("ij,ij->ik", x, x), ShapeError, "'k'"),
        (lambda x: topi.einsum("ij,jk->ik", x, x), ShapeError, "sizes 5 and 3"),
        (lambda x: topi.tensordot(x, x, 1), ShapeError, "tensordot"),
        (lambda x: topi.sequence_mask(x, x, 0, 2), ShapeError, "axis 0 or 1"),
        (lambda x: topi.einsum("i...->i", x), UnsupportedError, "ellipsis"),
        (lambda x: topi.scatter_elements(x, x, x, 0, "mean"), UnsupportedError, "'mean'"),
        (lambda x: topi.scatter_nd(x, x, x, "add"), ShapeError, "3 indices"),
        (lambda x: topi.strided_slice(x, [0], [1], [0]), ShapeError, "stride 0"),
    ],
)
def test_mistakes_are_said(build, error, text):
    with pytest.raises(error, match=text):
        build(te.placeholder((3, 5), "float32", "x"))


def run_symbolic(make, *arrays, shape):
    """Run a compute over a vector of symbolic size, given as the first array."""
    n = tir.Var("n", "int32")
    tensors = [te.placeholder((n,), str(arrays[0].dtype), "x")]
    tensors += [te.placeholder(a.shape, str(a.dtype), "i") for a in arrays[1:]]
    made = make(*tensors)
    module, result = ts.build(create_prim_func([*tensors, made])), np.zeros(shape, made.dtype)
    module(*arrays, result)
    return result


FROM_NOTHING = {
    "clip": (lambda x, i: topi.take(x, i, 0, mode="clip"), "take: there is nothing to read"),
    "wrap": (lambda x, i: topi.take(x, i, 0, mode="wrap"), "take: there is nothing to read"),
    "fast": (lambda x, i: topi.take(x, i, 0, mode="fast"), "take: the index 0 is outside"),
}


@pytest.mark.parametrize("mode", FROM_NOTHING)
def test_nothing_to_take(mode):
    make, message = FROM_NOTHING[mode]
    places = np.int32([0, -1, 5])[: 3 if mode != "fast" else 1]
    x = np.arange(4, dtype="float32")
    numpy_mode = "raise" if mode == "fast" else mode
    wanted = x.take(np.where((places < 0) & (places >= -4), places + 4, places), mode=numpy_mode)
    np.testing.assert_array_equal(run_symbolic(make, x, places, shape=len(places)), wanted)
    with pytest.raises(OutOfBoundsError, match=message):
        run_symbolic(make, x[:0], places, shape=len(places))


@pytest.mark.parametrize("pad", [topi.nn.circular_pad, topi.nn.replicate_pad])
def test_nothing_to_pad_with(pad):
    make = lambda x: pad(x, [1], [2])
    x = np.arange(4, dtype="float32")
    wanted = np.pad(x, (1, 2), mode="wrap" if pad is topi.nn.circular_pad else "edge")
    np.testing.assert_array_equal(run_symbolic(make, x, shape=7), wanted)
    with pytest.raises(OutOfBoundsError, match="nothing to read"):
        run_symbolic(make, x[:0], shape=3)


@pytest.mark.parametrize("length", [-1, 6])
def test_lengths_of_sequences(length):
    tensors = [te.placeholder((3, 5), "float32", "x"), te.placeholder((3,), "int32", "n")]
    module = ts.build(create_prim_func([*tensors, topi.reverse_sequence(*tensors)]))
    with pytest.raises(OutOfBoundsError, match=f"reverse_sequence: the length {length} is not"):
        module(A, np.int32([2, length, 5]), np.zeros((3, 5), "float32"))


@pytest.mark.parametrize("place", [-5, 4])
def test_gradients_of_what_was_not_there(place):
    tensors = [te.placeholder((3,), "float32"), te.placeholder((4,), "float32")]
    tensors.append(te.placeholder((3,), "int64"))
    module = ts.build(create_prim_func([*tensors, topi.take_grad(*tensors)]))
    g, x, result = np.float32([1, 2, 3]), np.zeros(4, "float32"), np.zeros(4, "float32")
    module(g, x, np.array([0, -1, 0]), result)
    np.testing.assert_array_equal(result, [4, 0, 0, 2])
    with pytest.raises(OutOfBoundsError, match=f"take_grad: the index {place} is outside"):
        module(g, x, np.array([0, place, 0]), result)

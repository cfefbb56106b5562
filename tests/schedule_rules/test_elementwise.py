"""Elementwise blocks run in vectors over all axes that their accesses run through together."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import te, topi
from tilesmith.schedule_rules import default_schedule
from tilesmith.target import Target
from tilesmith.tir import For, ForKind, Ramp
from tilesmith.tir.queries import loads, statements


def place(*shapes):
    return [te.placeholder(shape, name=f"x{k}") for k, shape in enumerate(shapes)]


def random(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


def scheduled(tensors, result, cores=1):
    function = te.create_prim_func([*tensors, result], index_dtype_override="int64")
    return default_schedule(function, Target(f"llvm -mcpu=skylake-avx512 -num-cores={cores}"))


def loops(function):
    """The loops of a function: their extents and kinds, outermost first."""
    found = [one for one in statements(function.body) if isinstance(one, For)]
    return [(int(one.extent), one.kind) for one in found]


def run(made, inputs, shape):
    out = ts.nd.array(np.full(shape, np.nan, "float32"))
    ts.build(made, target="llvm")["main"](*[ts.nd.array(one) for one in inputs], out)
    return out.numpy()


def numbered(x):
    return te.compute(x.shape, lambda i, j: x[i, j] * j.astype("float32"), name="numbered")


CASES = {  # shapes, in topi, in numpy, extents of the loops in front of the vectors
    "one shape": ([(3, 7, 7)], topi.exp, np.exp, [10]),
    "by channel": (
        [(2, 5, 7, 7), (5, 1, 1)],
        topi.add,
        lambda a, b: a + b,
        [2, 5, 4],
    ),
    "by column": ([(5, 33), (33,)], topi.multiply, lambda a, b: a * b, [5, 3]),
    "of different shapes": (
        [(5, 33), (5, 1)],
        topi.subtract,
        lambda a, b: a - b,
        [5, 3],
    ),
    "that uses an index": ([(5, 33)], numbered, lambda a: a * np.arange(33), [5, 3]),
    "a part": (
        [(9, 40)],
        lambda x: topi.strided_slice(x, [1, 2], [6, 35]),
        lambda a: a[1:6, 2:35],
        [5, 3],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_axes_in_the_order_of_memory_are_one_loop(name):
    shapes, in_topi, in_numpy, extents = CASES[name]
    tensors = place(*shapes)
    made = scheduled(tensors, in_topi(*tensors))
    assert [extent for extent, _ in loops(made)] == [*extents, 16]
    inputs = [random(*shape) for shape in shapes]
    want = in_numpy(*inputs)
    np.testing.assert_allclose(run(made, inputs, want.shape), want, rtol=1e-5, atol=1e-6)


def test_one_long_axis_is_shared_out_to_threads():
    count = (1 << 18) + 5
    tensors = place((count,), (count,))
    made = scheduled(tensors, topi.nn.relu(topi.add(*tensors)), cores=2)
    assert [kind for _, kind in loops(made)] == [ForKind.PARALLEL, ForKind.VECTORIZED]
    a, b = random(count), random(count)
    assert np.array_equal(run(made, [a, b], (count,)), np.maximum(a + b, 0))


def two_functions(x):
    return topi.tanh(topi.sigmoid(x))


@pytest.mark.parametrize("operator, wanted", [(topi.nn.relu, False), (two_functions, True)])
def test_threads_are_for_what_takes_long(operator, wanted):
    tensors = place((20, 480))
    kinds = [kind for _, kind in loops(scheduled(tensors, operator(*tensors), cores=2))]
    assert (ForKind.PARALLEL in kinds) == wanted


@pytest.mark.parametrize("shape", [(1, 14, 14, 24), (4, 5, 20), (8, 6, 14)])
def test_vectors_across_rows_are_rows_of_memory(shape):
    """Rows that are no whole vectors: what lies side by side is not gathered."""
    tensors = place(shape)
    made = scheduled(tensors, topi.exp(tensors[0]))
    accesses = list(loads(ts.lower(made)["main"].body))
    assert accesses and all(isinstance(one.indices[0], Ramp) for one in accesses)
    value = random(*shape)
    np.testing.assert_allclose(run(made, [value], shape), np.exp(value), rtol=1e-5)

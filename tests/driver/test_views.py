"""A reshape that no kernel has taken in is a view of the same memory."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import relax
from tilesmith.driver.relax_build import graph_pipeline
from tilesmith.relax import op
from tilesmith.script import relax as R
from tilesmith.target import Target

N = ts.tir.Var("n", "int64")


def graph(shapes, body):
    builder = relax.BlockBuilder()
    params = [relax.Var(f"x{k}", R.Tensor(shape, "float32")) for k, shape in enumerate(shapes)]
    with builder.function("main", params):
        with builder.dataflow():
            output = builder.emit_output(body(builder, *params))
        builder.emit_func_output(output)
    return builder.get()


def random(*shape):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype("float32")


def product(b, x, w):
    """Products of the last axis of x, as many rows as there are."""
    flat = b.emit(op.reshape(x, (-1, 8)))
    return op.reshape(b.emit(op.matmul(flat, w)), (2, -1, 5))


@pytest.mark.parametrize("pipeline", ["default", "zero"])
@pytest.mark.parametrize("rows", [3, N])
def test_reshapes_around_a_product_cost_nothing(rows, pipeline):
    mod = graph([(2, rows, 8), (8, 5)], product)
    text = graph_pipeline(mod, Target("llvm"), pipeline=pipeline).script()
    assert "def reshape" not in text and text.count("R.reshape") == 2
    x, w = random(2, 3, 8), random(8, 5)
    found = relax.build(mod, "llvm", pipeline=pipeline)(ts.nd.array(x), ts.nd.array(w)).numpy()
    np.testing.assert_allclose(found, x @ w, rtol=1e-5, atol=1e-5)


def test_results_have_memory_of_their_own():
    mod = graph([(3, 8)], lambda b, x: op.reshape(x, (4, 6)))
    x = ts.nd.array(random(3, 8))
    before = x.numpy().copy()
    found = relax.build(mod, "llvm")(x)
    x.copyfrom(np.zeros((3, 8), "float32"))
    np.testing.assert_array_equal(found.numpy(), before.reshape(4, 6))


def test_a_view_and_what_it_shows_are_both_results():
    def body(b, x):
        y = b.emit(op.matmul(x, x))
        return relax.Tuple([y, b.emit(op.reshape(y, (8, 2)))])

    x = random(4, 4)
    first, second = relax.build(graph([(4, 4)], body), "llvm")(ts.nd.array(x))
    np.testing.assert_allclose(first.numpy(), x @ x, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(second.numpy(), first.numpy().reshape(8, 2))
    first.copyfrom(np.zeros((4, 4), "float32"))
    assert np.abs(second.numpy()).max() > 0

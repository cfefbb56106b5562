"""A product with weights of 4 bits: lowered, scheduled, in LLVM code and in C."""

import ml_dtypes
import numpy as np
import pytest

import tilesmith
from tilesmith import tir
from tilesmith.codegen.c_compiler import find_compiler
from tilesmith.script import tir as T


@T.prim_func
def product(
    A: T.Buffer((33, 64), "float32"),
    W: T.Buffer((40, 64), "int4"),
    S: T.Buffer((40,), "float32"),
    C: T.Buffer((33, 40), "float32"),
):
    for i, j, k in T.grid(33, 40, 64):
        with T.block("product"):
            x, y, z = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[x, y] = T.float32(0)
            C[x, y] = C[x, y] + A[x, z] * (T.Cast("float32", W[y, z]) * S[y])


def plain(sch):
    pass


def vectorised(sch):
    """Weights are read along the reduction in rows of whole bytes."""
    i, j, k = sch.get_loops(sch.get_block("product"))
    outer, inner = sch.split(k, [None, 16])
    factored_block = sch.rfactor(inner, 0)
    factored = sch.get_loops(factored_block)
    sch.vectorize(factored[-1])


def cached_and_parallel(sch):
    block = sch.get_block("product")
    sch.cache_read(block, 1, "global")
    sch.parallel(sch.get_loops(block)[0])


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("schedule", [plain, vectorised, cached_and_parallel])
def test_product(schedule, target):
    if target == "c" and find_compiler() is None:
        pytest.skip("no C compiler here")
    random = np.random.default_rng(0)
    a, scale = random.random((33, 64)).astype("f4"), random.random(40).astype("f4")
    weights = random.integers(-8, 8, (40, 64)).astype("i1")
    sch = tir.Schedule(product)
    schedule(sch)
    result = np.zeros((33, 40), "f4")
    packed = tilesmith.nd.array(weights.astype(ml_dtypes.int4))
    tilesmith.build(sch.mod, target=target)(a, packed, scale, result)
    expected = a.astype("f8") @ (weights * scale.astype("f8")[:, None]).T
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-3)


def test_tensors_of_another_width_are_refused():
    module = tilesmith.build(product, target="llvm")
    ones = np.ones((40, 64), "i1")
    with pytest.raises(TypeError, match="must be of dtype int4, got int8"):
        module(np.ones((33, 64), "f4"), ones, np.ones(40, "f4"), np.zeros((33, 40), "f4"))

"""What LLVM is told about loops: which ones it unrolls."""

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.script import tir as T


def function(annotations, is_parallel):
    """A sum on one tile of vectors, and a product about whose loop nothing is said."""
    outer = T.parallel if is_parallel else T.serial

    @T.prim_func
    def tile(A: T.Buffer((64, 8, 8), "float32"), B: T.Buffer((64, 4, 8), "float32")):
        T.func_attr({"global_symbol": "main", "tir.is_scheduled": True})
        for i in outer(64):
            for j in T.serial(8, annotations=annotations):
                for lane in T.vectorized(8):
                    B[i, 0, lane] = B[i, 0, lane] + A[i, j, lane]
            for k in T.serial(4):
                for lane in T.vectorized(8):
                    B[i, k, lane] = B[i, k, lane] * T.float32(3)

    return tile


@pytest.mark.parametrize("is_parallel", [False, True])
@pytest.mark.parametrize(
    "annotations, sums, products",
    [
        ({}, 8, 4),  # LLVM decides
        ({"pragma_unroll_disable": True}, 1, 1),
        ({"llvm.loop.unroll.count": 2}, 2, 1),
    ],
)
def test_who_says_what_to_unroll_says_it_for_all_loops(annotations, sums, products, is_parallel):
    made = ts.build(function(annotations, is_parallel), target="llvm")
    text = ts.build(
        function(annotations, is_parallel), target="llvm -mtriple=x86_64-linux-gnu -mcpu=haswell"
    ).get_source("asm")
    copies = 1 if is_parallel else 2  # LLVM inlines the function into the one that checks arguments
    assert text.count("vaddps") == sums * copies
    assert text.count("vmulps") == products * copies
    a = np.random.default_rng(0).standard_normal((64, 8, 8)).astype("float32")
    out = ts.nd.array(np.ones((64, 4, 8), "float32"))
    made["main"](ts.nd.array(a), out)
    want = np.full((64, 4, 8), 3, "float32")
    want[:, 0] = 3 * (1 + a.sum(1))
    np.testing.assert_allclose(out.numpy(), want, rtol=1e-4, atol=1e-4)

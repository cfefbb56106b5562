"""Packed weights are prefetched, panel after panel: no layer of a model finds its own in L2."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import te
from tilesmith.schedule_rules import default_schedule
from tilesmith.schedule_rules.contractions.search import choose
from tilesmith.schedule_rules.contractions.time_model import Candidate, Product, predict
from tilesmith.target import Target
from tilesmith.target.machine import ZEN_AVX512

WIDTH = 32


def product(m, k, n, **changes):
    given = {
        "batch": 1, "shared": 1, "rows": m, "columns": n, "depth": k, "left_bytes": 4 * m * k,
        "row_stride": 4 * k, "element_bytes": 4, "depth_stride": 4 * WIDTH, "packed_width": WIDTH,
    }  # fmt: skip
    return Product(**{**given, **changes})


@pytest.mark.parametrize(
    ("given", "prefetches"),
    [
        (product(128, 768, 3072), True),
        (product(49, 512, 2048), True),
        (product(1024, 768, 3072, rows_are_known=False), True),
        (product(196, 64, 384), True),  # other layers have driven its weights out of L2
        (product(196, 256, WIDTH), False),  # no panel follows the first one
        (product(196, 8192, WIDTH), False),  # nor here, where it comes from memory
        (product(4, 768, 3072), False),  # one row tile
        (product(128, 768, 3072, packed_width=None), False),  # may come from near
    ],
)
def test_the_model_prefetches_where_panels_follow_each_other(given, prefetches):
    assert choose(given, ZEN_AVX512, 1).candidate.prefetches == prefetches


def test_small_weights_are_waited_for_as_long_as_l3_takes():
    given, candidate = product(196, 64, 384), Candidate(14, 2, None, False)
    far = replace(ZEN_AVX512, l3_bandwidth=ZEN_AVX512.l3_bandwidth / 2)
    near, waited = [predict(given, candidate, one).stream for one in (ZEN_AVX512, far)]
    assert waited == pytest.approx(2 * near)
    none = replace(ZEN_AVX512, l3_bytes=0)
    assert predict(given, candidate, none).stream > waited  # they come from memory


def test_weights_that_memory_delivers_too_slowly_are_waited_for():
    given, candidate = product(16, 512, 8192), Candidate(8, 2, None, False, True)
    slow = replace(ZEN_AVX512, memory_bandwidth=1.0)
    hidden, waited = [predict(given, candidate, one).stream for one in (ZEN_AVX512, slow)]
    assert hidden < 0.1 * waited


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("rows", [33, None])
def test_prefetched_panels_compute_the_product(rows, threads):
    """Also for an open number of rows, whose last tile keeps code for each size."""
    m, k, n = te.var("m", "int64") if rows is None else rows, 600, 1024
    x = te.placeholder((m, k), name="x")
    w = te.placeholder((n // WIDTH, k, WIDTH), name="w")
    r = te.reduce_axis((0, k), name="r")
    y = te.compute(
        (m, n),
        lambda i, j: te.sum(x[i, r] * w[te.indexdiv(j, WIDTH), r, te.indexmod(j, WIDTH)], axis=r),
        name="y",
    )
    made = te.create_prim_func([x, w, y], index_dtype_override="int64")
    func = default_schedule(made, Target(f"llvm -mcpu=znver5 -num-cores={threads}"))
    text = ts.lower(func).script()
    assert "T.prefetch(" in text
    if rows is None:
        assert "% T.int64(6) == T.int64(1)" in text
    built = ts.build(func, target="llvm")["main"]
    for count in [7, 13] if rows is None else [rows]:
        rng = np.random.default_rng(count)
        a = rng.standard_normal((count, k)).astype("float32")
        b = rng.standard_normal((k, n)).astype("float32")
        panels = b.reshape(k, n // WIDTH, WIDTH).transpose(1, 0, 2).copy()
        out = ts.nd.array(np.zeros((count, n), "float32"))
        built(ts.nd.array(a), ts.nd.array(panels), out)
        np.testing.assert_allclose(out.numpy(), a @ b, rtol=1e-4, atol=1e-3)

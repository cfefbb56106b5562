"""The GEMM ladder: every step multiplies matrices, without races, and lowers to what it promises."""

import re
from dataclasses import replace

import numpy as np
import pytest

import tilesmith as ts
from examples.gemm_ladder.ladder import FINAL, STEPS, VARIANTS, Tiling
from examples.gemm_ladder.tensor_cores import TensorTiling
from tilesmith.ir.transform import PassContext, Sequential
from tilesmith.lowering.pipelines import device_passes
from tilesmith.target import Target
from tilesmith.tir.interpreter import Options, run

CHECKED = Options(check_races=True, check_undefined=True)
TARGET = Target("cuda -arch=sm_90", host="llvm")
SMALL = Tiling(tile=(32, 64), warps=(1, 2), lanes=(4, 4), depth=8)
SIZES = {
    "naive": (None, (32, 16, 5)),
    "wide_loads": (None, (16, 128, 6)),
    "register_tiles": (Tiling(tile=(64, 64), depth=4), (64, 128, 8)),
    "shared_memory": (Tiling(tile=(64, 64), depth=16), (64, 64, 32)),
    "no_bank_conflicts": (Tiling(tile=(64, 64), depth=16), (64, 64, 32)),
    "warp_tiles": (SMALL, (32, 128, 16)),
    "double_buffering": (SMALL, (64, 64, 24)),
    "block_swizzle": (replace(SMALL, group=2), (128, 64, 16)),
    "asynchronous_copies": (replace(SMALL, group=2, stages=4), (64, 64, 40)),
    "tensor_cores": (
        TensorTiling(tile=(64, 32), depth=32, warps=(2, 1), stages=3, group=1), (64, 64, 128)
    ),
}  # fmt: skip


def small(name):
    tiling, sizes = SIZES[name]
    step = STEPS[name]
    return (step if tiling is None else replace(step, tiling=tiling)), sizes


def lowered(step, sizes):
    with PassContext(config=dict(step.options)):
        return ts.lower(step.schedule(*sizes).mod)


def kernel(step, sizes):
    """Return the kernel as the code generator gets it."""
    with PassContext(config=dict(step.options)):
        module = Sequential(device_passes(TARGET))(ts.lower(step.schedule(*sizes).mod))
    (found,) = [f for v, f in module.functions.items() if "kernel" in v.name_hint]
    return found.script()


@pytest.mark.parametrize("name", STEPS)
def test_a_step_multiplies(name):
    """The lowered kernel, run with its threads; the barriers come later, so races are not watched."""
    step, (rows, columns, depth) = small(name)
    rng = np.random.default_rng(0)
    a, b = [
        rng.integers(-3, 4, shape).astype(step.dtype) for shape in ((rows, depth), (depth, columns))
    ]
    c = np.full((rows, columns), np.nan, "float32")
    run(lowered(step, (rows, columns, depth))["main"], a, b, c)
    np.testing.assert_array_equal(c, a.astype("float32") @ b.astype("float32"))

"""Products of four warps (``wgmma``) on a real Hopper GPU.

    python -m pytest tests/gpu/test_wgmma_on_gpu.py -q -s

prints how long the scheduled product takes beside torch's.
"""

from dataclasses import replace

import numpy as np
import pytest

import tilesmith as ts
from examples.gemm_ladder.ladder import STEPS
from examples.gemm_ladder.warpgroups import WarpgroupTiling
from tests.codegen.gpu_warpgroups_script import CASES, arrays_of, product_of

TARGET = "cuda -arch=sm_90a"
SIZE = 4096


def _is_hopper():
    device = ts.cuda(0)
    return device.exist and str(device.compute_version) == "9.0"


pytestmark = pytest.mark.skipif(
    not _is_hopper(), reason="needs a CUDA device of compute capability 9.0 (wgmma)"
)


@pytest.fixture(scope="module")
def instructions():
    """All kernels of one product, built together: one call of the compiler."""
    functions = {
        f"case_{number}": product_of(case).with_attr("global_symbol", f"case_{number}")
        for number, case in enumerate(CASES.values())
    }
    return ts.build(ts.IRModule(functions), target=ts.target.Target(TARGET, host="llvm"))


@pytest.mark.parametrize("name", CASES)
def test_instruction(instructions, name):
    arrays, expected = arrays_of(CASES[name])
    device = ts.cuda(0)
    tensors = [ts.nd.array(array, device) for array in arrays]
    instructions[f"case_{list(CASES).index(name)}"](*tensors)
    device.sync()
    np.testing.assert_array_equal(tensors[2].numpy().astype("float64"), expected)


def build(tiling, rows, columns, depth):
    step = replace(STEPS["warpgroups"], tiling=tiling)
    return step.build(step.schedule(rows, columns, depth))


TILINGS = {
    "128x256x64": WarpgroupTiling(),
    "128x256x64, 3 tiles": WarpgroupTiling(stages=3),
    "128x128x64, 2 blocks": WarpgroupTiling((128, 128), stages=3, blocks=2),
    "128x128x64, 6 tiles": WarpgroupTiling((128, 128), stages=6),
    "256x128x64, 2 tiles a warpgroup": WarpgroupTiling((256, 128), rows=2),
    "256x128x64, 4 warpgroups": WarpgroupTiling((256, 128)),
    "128x256x32": WarpgroupTiling(depth=32, stages=6),
}


@pytest.mark.parametrize("name", TILINGS)
def test_schedule(name):
    """A product of random numbers is right, and is as fast as it is."""
    tiling = TILINGS[name]
    rows = SIZE - SIZE % tiling.tile[0]
    random = np.random.default_rng(0)
    shapes = (rows, SIZE), (SIZE, SIZE)
    a, b = [random.standard_normal(shape, "float32").astype("float16") for shape in shapes]
    built = build(tiling, rows, SIZE, SIZE)
    device = ts.cuda(0)
    tensors = [ts.nd.array(x, device) for x in (a, b, np.zeros((rows, SIZE), "float32"))]
    built["main"](*tensors)
    device.sync()
    some = random.integers(0, rows, 64)
    expected = a[some].astype("float64") @ b.astype("float64")
    np.testing.assert_allclose(tensors[2].numpy()[some], expected, atol=0.02, rtol=1e-4)
    ours = built.time_evaluator("main", device, number=20, repeat=3)(*tensors).mean
    rate = 2e-12 * rows * SIZE * SIZE
    print(f"\n{name}: {ours * 1e3:.3f} ms, {rate / ours:.0f} TFLOP/s", end="")
    if rows == SIZE:
        print(f"; torch {_torch_seconds(a, b) * 1e3:.3f} ms", end="")


def _torch_seconds(a, b):
    torch = pytest.importorskip("torch")
    left, right = [torch.from_numpy(x).cuda() for x in (a, b)]
    start, end = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    for count in (3, 20):
        start.record()
        for _ in range(count):
            torch.matmul(left, right)
        end.record()
        torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e-3 / 20

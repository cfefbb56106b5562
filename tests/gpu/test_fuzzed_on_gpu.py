"""Kernels that the fuzzer draws, compiled by NVRTC and by LLVM and run on a CUDA device, compute
what the interpreter does.
"""

import pytest

import tilesmith
from tilesmith.testing.fuzz.isolated import IsolatedRunner

pytestmark = pytest.mark.skipif(
    not tilesmith.cuda(0).exist, reason="there is no CUDA device here: these kernels run on one"
)
SEEDS = range(70_000, 70_072)
_PER_TEST = 6


@pytest.fixture(scope="module")
def runners():
    """A process with a context of the device, and how to get another one after a fault."""
    made = [IsolatedRunner()]
    yield made
    made[0].close()


@pytest.mark.parametrize("first", SEEDS[::_PER_TEST])
def test_drawn_kernels(first, runners):
    ran, failed = 0, []
    for seed in range(first, first + _PER_TEST):
        result = runners[0].run_seed(seed, "codegen", "gpu" if seed % 3 else "threads")
        assert "error" not in result, result
        ran += result["counts"].get("device cuda: run", 0)
        if result["finding"] is not None:
            failed.append((seed, result["finding"]["signature"], result["finding"]["detail"]))
            runners[0].close()  # a fault of the device ends its context
            runners[0] = IsolatedRunner()
    assert not failed, failed
    assert ran, "no kernel of these seeds ran on the device"

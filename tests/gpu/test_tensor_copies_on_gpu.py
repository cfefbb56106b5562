"""Bulk copies of boxes of tensors (tensor maps) on a real GPU of compute capability 9.0.

    python -m pytest tests/gpu/test_tensor_copies_on_gpu.py -q -s

prints how long a product takes whose tiles come so.
"""

import numpy as np
import pytest

import tilesmith as ts
from tests.codegen.gpu_tensor_copies_script import (
    CASES,
    arrays_of,
    arrays_of_product,
    copy_of,
    product_by_tensor_maps,
)
from tests.tir.warp_roles_script import arrays_of_tiles, by_tensor_maps, in_one_loop
from tests.tir.warp_roles_script import product as roles
from tilesmith.runtime.cuda import graph_of

TARGET = "cuda -arch=sm_90a"
SIZE = 4096


def _is_hopper():
    device = ts.cuda(0)
    return device.exist and str(device.compute_version) == "9.0"


pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not _is_hopper(), reason="needs a CUDA device of compute capability 9.0 (wgmma)"
    ),
]
NAMES = {name: f"case_{number}" for number, name in enumerate(CASES)}


def build(functions):
    named = {name: one.with_attr("global_symbol", name) for name, one in functions.items()}
    return ts.build(ts.IRModule(named), target=ts.target.Target(TARGET, host="llvm"))


@pytest.fixture(scope="module")
def copies():
    """All kernels of one copy, built together: one call of the compiler."""
    return build({NAMES[name]: copy_of(case) for name, case in CASES.items()})


@pytest.mark.parametrize("name", CASES)
def test_boxes_arrive(copies, name):
    arrays, expected = arrays_of(CASES[name])
    device = ts.cuda(0)
    tensors = [ts.nd.array(array, device) for array in arrays]
    copies[NAMES[name]](*tensors)
    device.sync()
    np.testing.assert_array_equal(tensors[2].numpy(), expected)


def test_other_memory_in_the_next_call(copies):
    """The description goes with the launch: each call has that of its own arguments."""
    arrays, expected = arrays_of(CASES["2d"])
    device = ts.cuda(0)
    for factor in (1, -1, 2):
        tensors = [ts.nd.array(one, device) for one in (arrays[0] * factor, *arrays[1:])]
        copies[NAMES["2d"]](*tensors)
        device.sync()
        np.testing.assert_array_equal(tensors[2].numpy(), expected * factor)


def test_a_graph_of_launches(copies):
    arrays, expected = arrays_of(CASES["2d"])
    tensors = [ts.nd.array(one, ts.cuda(0)) for one in arrays]
    graph = graph_of(copies[NAMES["2d"]], *tensors)
    tensors[2].copyfrom(arrays[2])
    graph.launch()
    ts.cuda(0).sync()
    np.testing.assert_array_equal(tensors[2].numpy(), expected)


@pytest.mark.parametrize("stages, sizes", [(2, (64, 64, 256)), (3, (72, 40, 192))])
def test_product(stages, sizes):
    built = build({"main": product_by_tensor_maps(*sizes, stages)})
    arrays, expected = arrays_of_product(*sizes)
    tensors = [ts.nd.array(array, ts.cuda(0)) for array in arrays]
    built["main"](*tensors)
    ts.cuda(0).sync()
    np.testing.assert_array_equal(tensors[2].numpy(), expected)


ROLES = {
    "2 stages": (by_tensor_maps(2, 5), 5), "3 stages": (by_tensor_maps(3, 64, warps=4), 64),
    "one stage": (by_tensor_maps(1, 3, warps=1), 3), "one loop": (in_one_loop(5, lag=0), 5),
    "one loop, two turns behind": (in_one_loop(5, lag=2), 5),
}  # fmt: skip


@pytest.mark.parametrize("name", ROLES)
def test_warps_of_different_roles(name):
    """Tiles are brought over others that threads have just read: many times, as an order that is
    missing shows seldom.
    """
    function, turns = ROLES[name]
    built = build({"main": function})
    arrays, expected = arrays_of_tiles(turns)
    tensors = [ts.nd.array(array, ts.cuda(0)) for array in arrays]
    for _ in range(200):
        tensors[1].copyfrom(np.zeros_like(arrays[1]))
        built["main"](*tensors)
        np.testing.assert_array_equal(tensors[1].numpy(), expected)


@pytest.mark.parametrize("elected", [False, True])
def test_a_warp_brings_tiles_to_a_warpgroup(elected):
    sizes = (1024, 1024, 1024)
    built = build({"main": roles(*sizes, 3, elected)})
    arrays, expected = arrays_of_product(*sizes)
    tensors = [ts.nd.array(array, ts.cuda(0)) for array in arrays]
    for _ in range(20):
        tensors[2].copyfrom(arrays[2])
        built["main"](*tensors)
        np.testing.assert_array_equal(tensors[2].numpy(), expected)
    seconds = built.time_evaluator("main", ts.cuda(0), number=20, repeat=3)(*tensors).mean
    print(f"\nroles: {seconds * 1e3:.3f} ms, {2e-12 * 1024**3 / seconds:.0f} TFLOP/s", end="")


def test_large_product():
    built = build({"main": product_by_tensor_maps(SIZE, SIZE, SIZE, 4)})
    arrays, expected = arrays_of_product(SIZE, SIZE, SIZE)
    tensors = [ts.nd.array(array, ts.cuda(0)) for array in arrays]
    built["main"](*tensors)
    ts.cuda(0).sync()
    np.testing.assert_array_equal(tensors[2].numpy(), expected)
    seconds = built.time_evaluator("main", ts.cuda(0), number=20, repeat=3)(*tensors).mean
    print(f"\n{seconds * 1e3:.3f} ms, {2e-12 * SIZE**3 / seconds:.0f} TFLOP/s", end="")

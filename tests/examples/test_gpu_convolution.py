"""Convolutions as implicit products: right for any size, with both iterators, on any path."""

import json

import numpy as np
import pytest

import tilesmith as ts
from examples.gemm_ladder.ladder import Tiling
from examples.gpu_convolution import page
from examples.gpu_convolution.convolution import (
    ITERATORS,
    SHAPES,
    TILINGS,
    Shape,
    convolution,
    schedule,
    tiling_of,
)
from examples.gpu_convolution.machine_code import loop_instructions, machine_code
from tests.codegen.gpu_products import needs_nvdisasm
from tests.codegen.opencl_harness import needs_opencl
from tilesmith.inspect import gpu_report
from tilesmith.ir import Call, FloorDiv, FloorMod
from tilesmith.ir.queries import is_call, nodes
from tilesmith.tir.stmt import For

SMALL = Tiling(tile=(32, 32), warps=(1, 1), lanes=(4, 8), depth=8)
CASES = {
    "whole tiles": Shape(2, 4, 4, 8, 32),
    "stride 2, tails": Shape(2, 7, 9, 16, 36, stride=2),
    "dilation, odd channels": Shape(1, 7, 8, 5, 7, padding=2, dilation=2),
    "5x5 without padding": Shape(1, 8, 9, 12, 8, kernel=5, stride=2, padding=0),
    "1x1": Shape(2, 6, 5, 8, 33, kernel=1, padding=0),
}


def arrays(shape):
    """Small whole numbers, and the convolution by numpy: sums are exact in any order."""
    rng = np.random.default_rng(0)
    image = rng.integers(-3, 4, (shape.batch, shape.height, shape.width, shape.channels))
    weight = rng.integers(-3, 4, (shape.kernel, shape.kernel, shape.channels, shape.filters))
    edge = (shape.padding, shape.padding)
    padded = np.pad(image, ((0, 0), edge, edge, (0, 0)))
    rows, columns = shape.out
    wanted = np.zeros((shape.batch, rows, columns, shape.filters), "float32")
    for r in range(shape.kernel):
        for s in range(shape.kernel):
            y, x = r * shape.dilation, s * shape.dilation
            window = padded[
                :, y : y + (rows - 1) * shape.stride + 1 : shape.stride,
                x : x + (columns - 1) * shape.stride + 1 : shape.stride,
            ]  # fmt: skip
            wanted += window @ weight[r, s]
    return image.astype("float32"), weight.astype("float32"), wanted


@needs_opencl
@pytest.mark.parametrize(
    ("name", "iterator"),
    [
        *[(name, "precomputed") for name in CASES],
        ("stride 2, tails", "analytic"),
        ("1x1", "analytic"),
    ],
)
def test_convolutions_on_a_device(name, iterator):
    image, weight, wanted = arrays(CASES[name])
    device = ts.opencl(0)
    built = ts.build(schedule(CASES[name], SMALL, iterator).mod, target="opencl")
    result = ts.nd.array(np.full_like(wanted, 9), device)
    built(ts.nd.array(image, device), ts.nd.array(weight, device), result)
    np.testing.assert_array_equal(result.numpy(), wanted)


@pytest.mark.parametrize("iterator", ITERATORS)
def test_threads_do_not_race(iterator):
    """All threads in lockstep, on a size with tails in rows and columns."""
    shape = Shape(1, 5, 5, 8, 36)
    image, weight, wanted = arrays(shape)
    result = np.full_like(wanted, 9)
    report = gpu_report(
        schedule(shape, SMALL, iterator),
        [image, weight, result],
        "H100",
        blocks=99,
        statements=10**9,
    )
    assert not report.findings


def step_divisors(iterator):
    """By what the loop over steps divides, in a convolution whose result has 4 x 5 pixels."""
    lowered = ts.lower(schedule(CASES["stride 2, tails"], SMALL, iterator).mod)["main"]
    (loop,) = [
        one for one in nodes(lowered.body, For)
        if any(is_call(node, "tir.tvm_storage_sync") for node in nodes(one, Call))
        or (one.loop_var.name.startswith("ax2_ax3_fused") and one.extent.value == 17)
    ]  # fmt: skip
    return {node.b.value for node in nodes(loop, FloorDiv | FloorMod)}


def test_precomputed_addresses_leave_the_loop():
    assert {5, 20} & step_divisors("analytic")
    assert not {5, 20} & step_divisors("precomputed")


def test_the_program_is_topi_as_it_is():
    shape = SHAPES["3x3 64 to 64, 56x56"]
    assert "conv2d_nhwc" in convolution(shape).script()
    assert tiling_of(shape) == TILINGS["128x64x16"]
    assert shape.out == (56, 56) and shape.flops == 2 * 32 * 56 * 56 * 64 * 9 * 64


def test_the_page_says_what_is_recorded():
    """`python -m examples.gpu_convolution.page` writes it again after changes."""
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.written(text) == text


def test_measured_times_get_into_the_page(monkeypatch, tmp_path):
    shapes = {
        name: {
            "cudnn_ms": 2.0,
            "ours": {f"analytic, {size}": {"ms": 4.0, "share": 0.5} for size in TILINGS},
        }
        for name in SHAPES
    }
    orders = {"8x8x8": {"cublas_ms": 1.5, "orders": {
        page.name_of(*order): {"ms": 3.25} for order in page.ORDERS
    }}}  # fmt: skip
    run = {"device": "A board", "shapes": shapes, "orders": orders}
    (tmp_path / "board.json").write_text(json.dumps(run), encoding="utf-8")
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    text = page.written(page.PAGE.read_text(encoding="utf-8"))
    assert "Measured on: A board." in text and "50% (analytic, 128x64x16)" in text
    assert "not measured" in text
    assert "3.250" in text and "cuBLAS: 8x8x8 1.500 ms" in text


def test_instructions_are_counted_in_the_largest_loop():
    text = """
    .L_x_1:
        /*0000*/  FFMA R1, R2, R3, R1 ;
        /*0010*/  @P0 IADD3 R4, R4, 0x1, RZ ;
        /*0020*/  LDS.128 R8, [R5] ;
        /*0030*/  UIADD3 UR4, UR4, 0x1, URZ ;
        /*0040*/  @!P1 BRA `(.L_x_1) ;
        /*0050*/  MOV R1, R2 ;
    """
    counts = loop_instructions(text)
    assert counts == {"multiply-adds": 1, "integers": 1, "memory": 1, "uniform": 1, "other": 1}


@pytest.mark.parametrize(("name", "size"), [
    ("3x3 64 to 256, 56x56", "128x128x16"),
    ("3x3 128 to 128, 28x28", "128x64x16"),  # 196 large tiles would leave some of it idle
    ("3x3 256 to 256, 14x14", "64x64x16"),
])  # fmt: skip
def test_small_images_get_small_tiles(name, size):
    assert tiling_of(SHAPES[name]) == TILINGS[size]


@needs_nvdisasm
def test_the_machine_multiplies_most_of_the_time():
    shape = SHAPES["3x3 64 to 128, 56x56"]
    sch = schedule(shape, tiling_of(shape), "precomputed")
    found = machine_code(ts.build(sch.mod, target="cuda -arch=sm_90"))
    assert found["registers"] <= 128
    assert found["loop"]["multiply-adds"] > 0.85 * sum(found["loop"].values())

"""Matrix cores of AMD GPUs: descriptions, implementations, whole products, and LLVM's code."""

import numpy as np
import pytest

from tests.schedule_rules.intrinsics.matrix_cores import MatrixCores
from tests.schedule_rules.intrinsics.test_gpu_script import product, tile_of
from tests.schedule_rules.intrinsics.test_warp_script import flipped, in_tiles, random_arrays
from tilesmith import tir
from tilesmith.codegen.llvm.compile import compile_formats
from tilesmith.ir.queries import calls
from tilesmith.schedule_rules.intrinsics import rocm
from tilesmith.target import Target
from tilesmith.tir.interpreter import run
from tilesmith.tir.schedule import ScheduleError

# name -> (steps of the sum, inputs, results, LLVM's name, the instruction)
PRODUCTS = {
    "rocm_mfma_f32f32f32": (
        4, "float32", "float32", "llvm.amdgcn.mfma.f32.16x16x4f32", "v_mfma_f32_16x16x4f32",
    ),
    "rocm_mfma_f16f16f32": (
        16, "float16", "float32", "llvm.amdgcn.mfma.f32.16x16x16f16", "v_mfma_f32_16x16x16f16",
    ),
    "rocm_mfma_s8s8s32": (
        16, "int8", "int32", "llvm.amdgcn.mfma.i32.16x16x16i8", "v_mfma_i32_16x16x16i8",
    ),
}  # fmt: skip
NAMES = [getattr(rocm, name) for name in dir(rocm) if name.startswith("ROCM_")]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_described_is_done(name):
    intrin = tir.TensorIntrin.get(name)
    arrays = random_arrays(intrin.desc)
    expected, got = [[array.copy() for array in arrays] for _ in range(2)]
    run(intrin.desc, *expected)
    if name in PRODUCTS:
        steps, in_dtype, out_dtype, instruction, _ = PRODUCTS[name]
        MatrixCores(steps, in_dtype, out_dtype).run(instruction, intrin.impl, *got)
    else:
        run(intrin.impl, *got)
    np.testing.assert_array_equal(got[-1], expected[-1])
    assert not np.array_equal(got[-1], arrays[-1])


@pytest.mark.parametrize(
    "layout, inverse, rows, columns, local_size",
    [
        ("shared_16x4_to_local_64x1_layout_A", "64x1_to_16x4_layout_A", 16, 4, 1),
        ("shared_4x16_to_local_64x1_layout_B", "64x1_to_4x16_layout_B", 4, 16, 1),
        ("shared_16x16_to_local_64x4_layout_A", "64x4_to_16x16_layout_A", 16, 16, 4),
        ("shared_16x16_to_local_64x4_layout_B", "64x4_to_16x16_layout_B", 16, 16, 4),
        ("shared_16x16_to_local_64x4_layout_C", "64x4_to_16x16_layout_C", 16, 16, 4),
    ],
)
def test_layouts(layout, inverse, rows, columns, local_size):
    places = set()
    for i in range(rows):
        for j in range(columns):
            place = getattr(rocm, layout)(i, j)
            assert getattr(rocm, f"thread_id_shared_access_{inverse}")(*place) == (i, j)
            places.add(place)
    assert places == {(thread, local) for thread in range(64) for local in range(local_size)}


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("transposed", [False, True])
def test_product_by_matrix_cores(name, transposed):
    steps, in_dtype, out_dtype, instruction, _ = PRODUCTS[name]
    program = product(16, 32, 2 * steps, in_dtype, out_dtype, transposed)
    if steps == 4:
        left, right = (
            rocm.shared_16x4_to_local_64x1_layout_A, rocm.shared_4x16_to_local_64x1_layout_B,
        )  # fmt: skip
    else:
        left, right = (
            rocm.shared_16x16_to_local_64x4_layout_A, rocm.shared_16x16_to_local_64x4_layout_B,
        )  # fmt: skip
    sch = tir.Schedule(program, debug_mask="all")
    block = sch.get_block("C")
    split = [
        sch.split(loop, [None, size]) for loop, size in zip(sch.get_loops(block), (16, 16, steps))
    ]
    sch.reorder(*[outer for outer, _ in split], *[inner for _, inner in split])
    loads = []
    right_tile = (16, steps) if transposed else (steps, 16)
    for index, (layout, tile) in enumerate(
        ((left, (16, steps)), (flipped(right) if transposed else right, right_tile))
    ):
        sch.cache_read(block, index, "shared")
        loads.append(sch.cache_read(block, index, "warp"))
        sch.transform_layout(loads[-1], ("write", 0), in_tiles(layout, *tile))
        load = rocm.get_mfma_load_intrin(
            steps, in_dtype, "shared", index == 1, index and transposed
        )
        sch.tensorize(tile_of(sch, loads[-1], *tile), load)
    store = sch.cache_write(block, 0, "warp")
    results = in_tiles(rocm.shared_16x16_to_local_64x4_layout_C)
    sch.transform_layout(block, ("write", 0), results)
    init = sch.decompose_reduction(block, split[2][0])
    short = "f32" if out_dtype == "float32" else "s32"
    sch.tensorize(tile_of(sch, store), f"rocm_mfma_store_16x16_{short}")
    sch.tensorize(split[0][1], name)
    sch.tensorize(sch.get_loops(init)[-2], f"ROCM_mfma_fill_16x16_{short.replace('s', 'i')}")
    arrays = random_arrays(program, -2, 3)
    expected = [array.copy() for array in arrays]
    run(program, *expected)
    MatrixCores(steps, in_dtype, out_dtype).run(instruction, sch.mod["main"], *arrays)
    np.testing.assert_array_equal(arrays[2], expected[2])


_TYPES = {"float32": "float", "float32x4": "<4 x float>", "float16x4": "<4 x half>",
          "int32": "i32", "int32x4": "<4 x i32>"}  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
def test_machine_code(name):
    """LLVM knows the intrinsic with these operands and makes the instruction of it."""
    *_, intrinsic, instruction = PRODUCTS[name]
    (call,) = calls(tir.TensorIntrin.get(name).impl.body, "tir.call_llvm_pure_intrin")
    assert call.args[0].value == intrinsic
    operands = [_TYPES[str(arg.dtype)] for arg in call.args[1:]]
    result = _TYPES[str(call.dtype)]
    values = ", ".join([f"{kind} %v{i}" for i, kind in enumerate(operands[:3])])
    text = (
        f"declare {result} @{intrinsic}({', '.join(operands)})\n"
        f"define amdgpu_kernel void @k(ptr %out, {values}) {{\n"
        f"  %r = call {result} @{intrinsic}({values}, i32 0, i32 0, i32 0)\n"
        f"  store {result} %r, ptr %out\n  ret void\n}}\n"
    )
    target = Target("llvm -mtriple=amdgcn-amd-amdhsa -mcpu=gfx908")
    assert instruction in compile_formats(text, target, ("asm",))["asm"].decode()


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: rocm.get_mfma_intrin(8, "float16", "float32"), "no mfma with 8 steps"),
        (lambda: rocm.get_mfma_intrin(16, "float16", "float16"), "of float16 and float16"),
        (lambda: rocm.get_mfma_load_intrin(4, "int8"), "no mfma with 4 steps of a sum of int8"),
        (lambda: rocm.get_mfma_store_intrin(8), "4 elements .* not 8"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(ScheduleError, match=message):
        make()

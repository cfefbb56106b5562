"""Products of `testing.tir`: by mma and MFMA, run by the interpreter."""

import numpy as np
import pytest

from tests.schedule_rules.intrinsics.matrix_cores import MatrixCores
from tests.schedule_rules.intrinsics.test_gpu_script import product
from tests.schedule_rules.intrinsics.test_rocm_script import PRODUCTS
from tests.schedule_rules.intrinsics.test_warp_script import in_tiles, random_arrays
from tilesmith.schedule_rules.intrinsics import cuda, rocm
from tilesmith.support.errors import ScheduleError
from tilesmith.testing.tir import mfma_schedule, mma_schedule
from tilesmith.tir.interpreter import run

# the usual maps: one layout for all tiles of float16, those of A and B for bytes
F16 = in_tiles(cuda.shared_16x16_to_ldmatrix_32x8_layout)
I8_A = in_tiles(cuda.shared_16x32_to_ldmatrix_32x16_layout, 16, 32)
I8_B = in_tiles(cuda.shared_32x16_to_ldmatrix_32x16_layout, 32, 16)


@pytest.mark.parametrize(
    "in_dtype, out_dtype, transposed",
    [
        ("float16", "float32", False), ("float16", "float16", True),
        ("int8", "int32", False), ("int8", "int32", True),
    ],
)  # fmt: skip
def test_mma_schedule(in_dtype, out_dtype, transposed):
    depth = 16 if in_dtype == "float16" else 32
    left, right = (F16, F16) if depth == 16 else (I8_A, I8_A if transposed else I8_B)
    workload = product(64, 64, 4 * depth, in_dtype, out_dtype, transposed)
    names = cuda.get_mma_intrin_group(
        "shared.dyn", "global", in_dtype, out_dtype, False, transposed, False
    )
    sch = mma_schedule(
        workload, depth, in_dtype, transposed,
        [1, 1, 2, 1, 2], [1, 2, 1, 2, 1], [2, 1, 2],
        left, right, F16,
        names["load_a"], names["load_b"], names["compute"], names["init"], names["store"],
        shared_scope="shared.dyn",
    )  # fmt: skip
    text = sch.mod.script()
    for word in ("T.ptx_ldmatrix", "T.ptx_mma", "T.mma_store", '"threadIdx.y"', "T.vectorized"):
        assert word in text
    arrays = random_arrays(workload, -2, 3)
    expected = [array.copy() for array in arrays]
    run(workload, *expected)
    run(sch.mod["main"], *arrays)
    np.testing.assert_array_equal(arrays[2], expected[2])


@pytest.mark.parametrize("name", PRODUCTS)
def test_mfma_schedule(name):
    depth, in_dtype, out_dtype, instruction, _ = PRODUCTS[name]
    workload = product(16, 32, 2 * depth, in_dtype, out_dtype, False)
    if depth == 4:
        left = in_tiles(rocm.shared_16x4_to_local_64x1_layout_A, 16, 4)
        right = in_tiles(rocm.shared_4x16_to_local_64x1_layout_B, 4, 16)
    else:
        left = in_tiles(rocm.shared_16x16_to_local_64x4_layout_A)
        right = in_tiles(rocm.shared_16x16_to_local_64x4_layout_B)
    short = {"float32": "f32", "int32": "s32"}[out_dtype]
    kind = {"float32": "16x4_{}_SHARED_f32", "float16": "16x16_{}_SHARED_f16",
            "int8": "16x16_{}_SHARED_s8"}[in_dtype]  # fmt: skip
    sch = mfma_schedule(
        workload, depth, in_dtype, False, [1, 1, 1, 1, 1], [1, 2, 1, 1, 1], [1, 1, 2],
        left, right, in_tiles(rocm.shared_16x16_to_local_64x4_layout_C),
        *[getattr(rocm, f"ROCM_MFMA_LOAD_{kind.format(matrix)}_INTRIN") for matrix in "AB"],
        name, f"ROCM_mfma_fill_16x16_{short.replace('s', 'i')}", f"rocm_mfma_store_16x16_{short}",
    )  # fmt: skip
    arrays = random_arrays(workload, -2, 3)
    expected = [array.copy() for array in arrays]
    run(workload, *expected)
    MatrixCores(depth, in_dtype, out_dtype).run(instruction, sch.mod["main"], *arrays)
    np.testing.assert_array_equal(arrays[2], expected[2])


def test_a_store_that_is_none():
    workload = product(32, 32, 16, "float16", "float32", False)
    with pytest.raises(ScheduleError, match="'mma_fill_16x16_f32' does not copy a tile"):
        mma_schedule(
            workload, 16, "float16", False, [1, 1, 1, 1, 2], [1, 1, 1, 1, 2], [1, 1, 1],
            F16, F16, F16, cuda.LDMATRIX_f16_A_INTRIN, cuda.LDMATRIX_f16_B_INTRIN,
            cuda.MMA_f16f16f32_INTRIN, cuda.MMA_fill_16x16_f32_INTRIN,
            cuda.MMA_fill_16x16_f32_INTRIN,
        )  # fmt: skip

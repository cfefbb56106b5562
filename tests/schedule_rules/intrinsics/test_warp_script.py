"""ldmatrix and mma in the interpreter, whose instructions follow the tables of the PTX ISA."""

import numpy as np
import pytest

from tests.schedule_rules.intrinsics.test_gpu_script import product, tile_of
from tilesmith import IRModule, tir
from tilesmith.schedule_rules.intrinsics import cuda
from tilesmith.script import tir as T
from tilesmith.tir.interpreter import run
from tilesmith.tir.schedule import ScheduleError

WARP_INTRINSICS = [name for name in dir(cuda) if name.startswith(("LDMATRIX_", "MMA_"))]


def random_arrays(function, low=-3, high=4):
    random = np.random.default_rng(0)
    return [
        random.integers(low, high, [int(size) for size in buffer.shape]).astype(str(buffer.dtype))
        for buffer in (function.buffer_map[param] for param in function.params)
    ]


@pytest.mark.parametrize("constant", WARP_INTRINSICS)
def test_what_is_described_is_done(constant):
    intrin = tir.TensorIntrin.get(getattr(cuda, constant))
    arrays = random_arrays(intrin.desc)
    expected, got = [[array.copy() for array in arrays] for _ in range(2)]
    run(intrin.desc, *expected)
    run(intrin.impl, *got)
    np.testing.assert_array_equal(got[-1], expected[-1])
    assert not np.array_equal(got[-1], arrays[-1])


LAYOUTS = {
    "shared_16x16_to_ldmatrix_32x8_layout": (16, 16, 8),
    "shared_16x16_to_ldmatrix_32x8_trans_layout": (16, 16, 8),
    "shared_16x16_to_ldmatrix_32x8_b_layout": (16, 16, 8),
    "shared_16x32_to_ldmatrix_32x16_layout": (16, 32, 16),
    "shared_32x16_to_ldmatrix_32x16_layout": (32, 16, 16),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_of_warps_are_bijections(name):
    rows, columns, local_size = LAYOUTS[name]
    places = {getattr(cuda, name)(i, j) for i in range(rows) for j in range(columns)}
    assert places == {(thread, local) for thread in range(32) for local in range(local_size)}


def test_the_inverse_layout():
    for i in range(16):
        for j in range(16):
            place = cuda.shared_16x16_to_ldmatrix_32x8_layout(i, j)
            assert cuda.ldmatrix_32x8_to_shared_16x16_layout(*place) == (i, j)
            assert cuda.index_map_shared_16x16_to_ldmatrix_32x8_layout([i, j]) == list(place)


def test_constants():
    assert (cuda.M_DIM, cuda.N_DIM, cuda.WARP_SIZE, cuda.HALF_WARP) == (16, 16, 32, 16)
    assert cuda.HALF_WARP_expr.value == cuda.lift(16).value == 16


def in_tiles(layout, rows=16, columns=16):
    return lambda i, j: [i // rows, j // columns, *layout(i % rows, j % columns)]


def transposed_product(m, n, k, in_dtype, out_dtype, trans_a, trans_b):
    if not trans_a:
        return product(m, n, k, in_dtype, out_dtype, trans_b)
    zero = T.int32(0) if out_dtype == "int32" else T.FloatImm(out_dtype, 0.0)

    @T.prim_func
    def main(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(a, (k, m), in_dtype)
        B = T.match_buffer(b, (n, k) if trans_b else (k, n), in_dtype)
        C = T.match_buffer(c, (m, n), out_dtype)
        for i, j, r in T.grid(m, n, k):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, r])
                with T.init():
                    C[vi, vj] = zero
                C[vi, vj] = C[vi, vj] + T.cast(A[vk, vi], out_dtype) * T.cast(
                    B[vj, vk] if trans_b else B[vk, vj], out_dtype
                )

    return main


def flipped(layout):
    return lambda first, second: layout(second, first)


@pytest.mark.parametrize(
    "in_dtype, out_dtype", [("float16", "float32"), ("float16", "float16"), ("int8", "int32")]
)
@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("simple", [False, True])
def test_product_by_warps(in_dtype, out_dtype, trans_a, trans_b, simple):
    depth = 16 if in_dtype == "float16" else 32
    program = transposed_product(32, 32, 3 * depth, in_dtype, out_dtype, trans_a, trans_b)
    names = cuda.get_mma_intrin_group(
        "shared", "global", in_dtype, out_dtype, trans_a, trans_b, simple
    )
    assert names["store"].endswith("_simple_") == simple
    if depth == 16:
        left = cuda.shared_16x16_to_ldmatrix_32x8_layout
        right = cuda.shared_16x16_to_ldmatrix_32x8_trans_layout
    else:
        left = cuda.shared_16x32_to_ldmatrix_32x16_layout
        right = cuda.shared_32x16_to_ldmatrix_32x16_layout
    sch = tir.Schedule(program, debug_mask="all")
    block = sch.get_block("C")
    split = [
        sch.split(loop, [None, size]) for loop, size in zip(sch.get_loops(block), (16, 16, depth))
    ]
    sch.reorder(*[outer for outer, _ in split], *[inner for _, inner in split])
    loads, tiles = [], []
    for index, (layout, is_transposed) in enumerate(((left, trans_a), (right, trans_b))):
        sch.cache_read(block, index, "shared")
        loads.append(sch.cache_read(block, index, "warp"))
        tile = (16, depth) if (index == 0) != is_transposed else (depth, 16)
        tiles.append(tile)
        layout = flipped(layout) if is_transposed else layout
        sch.transform_layout(loads[-1], ("write", 0), in_tiles(layout, *tile))
    store = sch.cache_write(block, 0, "warp")
    results = in_tiles(cuda.shared_16x16_to_ldmatrix_32x8_layout)
    sch.transform_layout(block, ("write", 0), results)
    init = sch.decompose_reduction(block, split[2][0])
    for copy, key, tile in (
        (loads[0], "load_a", tiles[0]), (loads[1], "load_b", tiles[1]), (store, "store", (16, 16)),
    ):  # fmt: skip
        sch.tensorize(tile_of(sch, copy, *tile), names[key])
    sch.tensorize(split[0][1], names["compute"])
    sch.tensorize(sch.get_loops(init)[-2], names["init"])
    arrays = random_arrays(program, -2, 3)
    expected = [array.copy() for array in arrays]
    run(program, *expected)
    run(sch.mod["main"], *arrays)
    np.testing.assert_array_equal(arrays[2], expected[2])


def test_groups_of_names_of_mma():
    assert cuda.get_mma_intrin_group(
        "shared.dyn", "shared", "float16", "float32", trans_a=True, trans_b=True
    ) == {
        "init": cuda.MMA_fill_16x16_f32_INTRIN,
        "load_a": cuda.LDMATRIX_f16_A_TRANS_DYN_INTRIN,
        "load_b": cuda.LDMATRIX_f16_B_TRANS_DYN_INTRIN,
        "compute": cuda.MMA_f16f16f32_TRANS_A_TRANS_B_INTRIN,
        "store": cuda.MMA_store_16x16_f32_shared_INTRIN_SIMPLE,
    }
    narrow = cuda.get_mma_intrin_group(
        "shared", "shared.dyn", "float16", "float32", False, False, False, "float16"
    )
    assert narrow["store"] == cuda.MMA_store_16x16_f16_shared_dyn_INTRIN
    assert narrow["compute"] == cuda.MMA_f16f16f32_INTRIN
    with pytest.raises(ScheduleError, match="there is no mma for int8 and float32"):
        cuda.get_mma_intrin_group("shared", "global", "int8", "float32")


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: cuda.get_ldmatrix_intrin(16, "int8", "A", False), "no mma with 16 steps .* int8"),
        (lambda: cuda.get_ldmatrix_intrin(16, "float16", "C", False), "'A' or 'B', got 'C'"),
        (lambda: cuda.get_mma_intrin(32, "float32"), "there is no mma for int8 and float32"),
        (lambda: cuda.get_mma_fill_intrin("float32", 4), "8 elements .* not 4"),
        (lambda: cuda.get_mma_init_intrin(16, 8, 16, "float32"), "no scope .* m16n8k16"),
        (
            lambda: cuda.get_mma_load_intrin(24, 8, 8, "float16", "shared", False, False),
            "not 24 times 8 float16",
        ),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(ScheduleError, match=message):
        make()


# --- m16n8k8: matrices in scopes of their own -----------------------------------------------------


@pytest.mark.parametrize("matrix, sizes", [("A", (64, 32)), ("B", (16, 64)), ("C", (64, 32))])
def test_register_numbers(matrix, sizes):
    """They number the registers as TransformMmaBufferLayout lays them out."""
    rows, columns = sizes
    scope = f"m16n8k8.matrix{matrix}"

    @T.prim_func
    def main(X: T.Buffer(sizes, "float32")):
        with T.block("root"):
            M = T.alloc_buffer(sizes, "float32", scope=scope)
            for i, j in T.grid(rows, columns):
                M[i, j] = X[i, j]

    lowered = tir.transform.TransformMmaBufferLayout()(IRModule({"main": main}))["main"]
    (buffer,) = lowered.body.block.alloc_buffers
    sizes_of_registers = [int(size) for size in buffer.shape]
    tile = {"A": (16, 8), "B": (8, 8), "C": (8, 8)}[matrix]
    index = {"A": cuda.get_index_A, "B": cuda.get_index_B, "C": cuda.get_index_C}[matrix]
    for i in range(0, rows, tile[0]):
        for j in range(0, columns, tile[1]):
            if matrix == "B":
                place = (i // 8, j // 32, j % 32 // 8, i % 2)
            elif matrix == "A":
                place = (i // 32, j // 8, i % 32 // 8, j % 2)
            else:
                place = tuple(cuda.index_map_m16n8k8_matrixC([i, j]))
            number = int(np.ravel_multi_index(place, sizes_of_registers))
            assert index(i * columns + j, columns) == number


@pytest.mark.parametrize("out_dtype", ["float32", "float16"])
@pytest.mark.parametrize("transposed", [False, True])
def test_product_of_m16n8k8(out_dtype, transposed):
    """One warp, its operands brought to the scopes by caches alone where they lie straight."""
    program = transposed_product(64, 64, 32, "float16", out_dtype, transposed, transposed)
    short = {"float16": "f16", "float32": "f32"}[out_dtype]
    sch = tir.Schedule(program, debug_mask="all")
    block = sch.get_block("C")
    split = [sch.split(loop, [None, size]) for loop, size in zip(sch.get_loops(block), (16, 8, 8))]
    sch.reorder(*[outer for outer, _ in split], *[inner for _, inner in split])
    loads = []
    for index, matrix in enumerate("AB"):
        sch.cache_read(block, index, "shared.dyn")
        loads.append(sch.cache_read(block, index, f"m16n8k8.matrix{matrix}"))
        if transposed:
            sch.transform_layout(loads[-1], ("write", 0), lambda i, j: [j, i])
    sch.cache_write(block, 0, "shared.dyn")
    store = sch.cache_write(block, 0, "m16n8k8.matrixC")
    init = sch.decompose_reduction(block, split[2][0])
    for copy, matrix, tile in zip(loads, "AB", ((32, 8), (8, 32))):
        load = f"mma_load_m16n8k8_f16_{matrix}_shared_dyn"
        if transposed:
            tile = tile[::-1]
            load = cuda.get_mma_load_intrin(
                32, 32, 8, "float16", "shared.dyn", matrix == "B", transposed
            )
        sch.tensorize(tile_of(sch, copy, *tile), load)
    sch.tensorize(tile_of(sch, store, 16, 8), f"mma_store_m16n8k8_{short}_global")
    sch.tensorize(split[0][1], f"mma_sync_m16n8k8_f16f16{short}")
    sch.tensorize(sch.get_loops(init)[-2], f"mma_init_m16n8k8_{short}")
    arrays = random_arrays(program, -2, 3)
    expected = [array.copy() for array in arrays]
    run(program, *expected)
    passes = tir.transform
    module = sch.mod
    for step in (
        passes.LowerInitBlock(),
        passes.PlanAndUpdateBufferAllocationLocation(),
        passes.ConvertBlocksToOpaque(),
        passes.LowerMatchBuffer(),
        passes.TransformMmaBufferLayout(),
        passes.LowerOpaqueBlock(),
        passes.FlattenBuffer(),
        passes.UnifyThreadBinding(),
    ):
        module = step(module)
    assert "m16n8k8.matrix" not in module.script()
    run(module["main"], *arrays)
    np.testing.assert_array_equal(arrays[2], expected[2])

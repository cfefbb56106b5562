"""Products on tensor cores, scheduled in the ways that users do it, for tests of GPU code."""

import importlib.util
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest

from tests.schedule_rules.intrinsics.test_gpu_script import product, tile_of
from tests.schedule_rules.intrinsics.test_warp_script import in_tiles
from tilesmith import IRModule, tir
from tilesmith.codegen.gpu.nvrtc import compile_source
from tilesmith.ir.calling_convention import CallingConv
from tilesmith.ir.transform import PassContext, Sequential
from tilesmith.lowering import lower
from tilesmith.lowering.pipelines import device_passes
from tilesmith.schedule_rules.intrinsics import cuda
from tilesmith.target import Target
from tilesmith.testing.tir import mma_schedule

TILES = {"float32": (16, 16, 8), "float16": (16, 16, 16), "int8": (16, 16, 16), "int4": (8, 8, 32)}
F16 = in_tiles(cuda.shared_16x16_to_ldmatrix_32x8_layout)
TF32_A = in_tiles(cuda.shared_16x8_to_mma_32x4_layout, 16, 8)
TF32_B = in_tiles(cuda.shared_8x16_to_mma_32x4_layout, 8, 16)
I8_A = in_tiles(cuda.shared_16x32_to_ldmatrix_32x16_layout, 16, 32)
I8_B = in_tiles(cuda.shared_32x16_to_ldmatrix_32x16_layout, 32, 16)


def copy_together(sch, block, warps, lanes):
    """Let all threads of a block copy a tile, so many elements each at once."""
    fused = sch.fuse(*sch.get_loops(block)[-2:])
    _, *warp, lane, vector = sch.split(fused, [None, *warps, 32, lanes])
    for loop, axis in zip(warp, ("y", "z")):
        sch.bind(loop, f"threadIdx.{axis}")
    sch.bind(lane, "threadIdx.x")
    sch.vectorize(vector)


def pipeline(sch, loop, stages):
    """Let copies of two tiles run in the background, while earlier ones are multiplied."""
    sch.annotate(loop, "software_pipeline_stage", [0, 0, stages - 1])
    sch.annotate(loop, "software_pipeline_order", [0, 1, 2])
    sch.annotate(loop, "software_pipeline_async_stages", [0])


def wmma_product(
    in_dtype="float16", out_dtype="float32", transposed=False, size=64, stages=0, scope="shared"
):
    """A product by fragments: four warps a block, each with a tile of the results.

    ``stages``: of a pipeline that copies in the background; 0 is none.
    """
    rows, columns, depth = TILES[in_dtype]
    program = product(size, size, 2 * size, in_dtype, out_dtype, transposed)
    names = cuda.get_wmma_intrin_group(scope, "global", in_dtype, out_dtype, transposed)
    sch = tir.Schedule(program)
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i0, i1, i2 = sch.split(i, [None, 2, rows])
    j0, j1, j2 = sch.split(j, [None, 2, columns])
    k0, k1, k2 = sch.split(k, [None, 1 if in_dtype == "int4" else 2, depth])
    sch.reorder(i0, j0, i1, j1, k0, k1, i2, j2, k2)
    for loop, axis in ((i0, "blockIdx.y"), (j0, "blockIdx.x"), (i1, "threadIdx.y"),
                       (j1, "threadIdx.z")):  # fmt: skip
        sch.bind(loop, axis)
    loads = []
    for index, matrix in enumerate(("matrix_a", "matrix_b")):
        shared = sch.cache_read(block, index, scope)
        loads.append(sch.cache_read(block, index, f"wmma.{matrix}"))
        sch.compute_at(loads[-1], k1)
        sch.compute_at(shared, k0)
        copy_together(sch, shared, (2, 2), 8 if in_dtype.startswith("int") else 4)
    store = sch.cache_write(block, 0, "wmma.accumulator")
    sch.reverse_compute_at(store, j1)
    init = sch.decompose_reduction(block, k0)
    if stages:
        pipeline(sch, k0, stages)
    right = (columns, depth) if transposed else (depth, columns)
    tiles = {"load_a": (rows, depth), "load_b": right, "store": (rows, columns)}
    for copy, (key, tile) in zip((*loads, store), tiles.items()):
        sch.tensorize(tile_of(sch, copy, *tile), names[key])
    sch.tensorize(i2, names["compute"])
    sch.tensorize(sch.get_loops(init)[-2], names["init"])
    return program, sch


def mma_product(
    in_dtype="float16", out_dtype="float32", transposed=False, size=64, simple=False, stages=0,
    permuted=False,
):  # fmt: skip
    """A product by ``ldmatrix`` and ``mma``: two warps a block, each with four tiles.

    ``simple``: results are stored by a loop; ``stages``: of a pipeline, as above; ``permuted``:
    rows of shared memory are permuted, not padded.
    """
    depth = {"float32": 8, "float16": 16}.get(in_dtype, 32)
    left, right = {
        8: (TF32_A, TF32_A if transposed else TF32_B), 16: (F16, F16),
        32: (I8_A, I8_A if transposed else I8_B),
    }[depth]  # fmt: skip
    program = product(size, size, 4 * depth, in_dtype, out_dtype, transposed)
    names = cuda.get_mma_intrin_group(
        "shared.dyn", "global", in_dtype, out_dtype, False, transposed, simple
    )
    sch = mma_schedule(
        program, depth, in_dtype, transposed,
        [1, size // 64, 2, 1, 2], [1, size // 32, 1, 2, 1], [2, 1, 2],
        left, right, F16,
        names["load_a"], names["load_b"], names["compute"], names["init"], names["store"],
        shared_scope="shared.dyn",
    )  # fmt: skip
    if stages:
        blocks = sch.get_child_blocks(sch.get_block("root"))
        (product_block,) = [one for one in blocks if "T.ptx_mma(" in str(sch.get(one))]
        loops = {sch.get(loop).loop_var.name: loop for loop in sch.get_loops(product_block)}
        pipeline(sch, loops["r_0_0"], stages)
    if permuted:
        for block in sch.get_child_blocks(sch.get_block("root")):
            if "buffer_dim_align" in sch.get(block).annotations:
                sch.unannotate(block, "buffer_dim_align")
                sch.annotate(block, "permuted_layout", "g2s")
    return program, sch


def product_of_m16n8k8(out_dtype="float32", size=64):
    """A product by ``mma`` of shape m16n8k8 in scopes of its own: one warp a block."""
    program = product(size, size, 32, "float16", out_dtype, False)
    short = {"float16": "f16", "float32": "f32"}[out_dtype]
    sch = tir.Schedule(program)
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i0, i1, i2 = sch.split(i, [None, 2, 16])
    j0, j1, j2 = sch.split(j, [None, 4, 8])
    k0, k2 = sch.split(k, [None, 8])
    sch.reorder(i0, j0, k0, i1, j1, i2, j2, k2)
    sch.bind(i0, "blockIdx.y")
    sch.bind(j0, "blockIdx.x")
    loads = []
    for index, matrix in enumerate("AB"):
        shared = sch.cache_read(block, index, "shared.dyn")
        loads.append(sch.cache_read(block, index, f"m16n8k8.matrix{matrix}"))
        sch.compute_at(loads[-1], k0)
        sch.compute_at(shared, k0)
        fused = sch.fuse(*sch.get_loops(shared)[-2:])
        _, lane, vector = sch.split(fused, [None, 32, 4])
        sch.bind(lane, "threadIdx.x")
        sch.vectorize(vector)
    shared = sch.cache_write(block, 0, "shared.dyn")
    sch.reverse_compute_at(shared, j0)
    store = sch.cache_write(block, 0, "m16n8k8.matrixC")
    fused = sch.fuse(*sch.get_loops(shared)[-2:])
    sch.bind(sch.split(fused, [None, 32])[1], "threadIdx.x")
    init = sch.decompose_reduction(block, k0)
    for copy, matrix, tile in zip(loads, "AB", ((32, 8), (8, 32))):
        load = f"mma_load_m16n8k8_f16_{matrix}_shared_dyn"
        sch.tensorize(tile_of(sch, copy, *tile), load)
    sch.tensorize(tile_of(sch, store, 16, 8), f"mma_store_m16n8k8_{short}_global")
    sch.tensorize(i2, f"mma_sync_m16n8k8_f16f16{short}")
    sch.tensorize(sch.get_loops(init)[-2], f"mma_init_m16n8k8_{short}")
    return program, sch


def lowered(module):
    """Lower a module, unless it has been."""
    is_lowered = any("from_legacy_te_schedule" in f.attrs for f in module.functions.values())
    return module if is_lowered else lower(module)


def kernels_of(module, target, **options):
    """Return the kernels of a scheduled module, as a back end gets them."""
    device = Target(target, host="llvm")
    with PassContext(config={f"tir.{name}": value for name, value in options.items()}):
        split = Sequential(device_passes(device), name="tir.device")(lowered(module))
    kernels = {
        variable: function
        for variable, function in split.functions.items()
        if function.attrs.get("calling_conv") == CallingConv.DEVICE_KERNEL_LAUNCH
    }
    return IRModule(kernels, attrs=split.attrs)


def arrays_of(program, seed=0):
    """Return random arrays for a product: small whole numbers, so that results are exact."""
    random = np.random.default_rng(seed)
    made = []
    for param in program.params:
        buffer = program.buffer_map[param]
        shape = [int(size) for size in buffer.shape]
        made.append(random.integers(-2, 3, shape).astype(buffer.dtype.numpy()))
    return made


def on_threads(module, target, **options):
    """Return a scheduled module as it is before kernels are taken out of it: with barriers,
    copies in the background and registers, for the interpreter.
    """
    device = Target(target, host="llvm")
    with PassContext(config={f"tir.{name}": value for name, value in options.items()}):
        steps = device_passes(device)
        kept = [step for step in steps if step.info.name in _BEFORE_SPLITTING]
        return Sequential(kept, name="tir.device")(lowered(module))


_BEFORE_SPLITTING = (
    "tir.BindTarget", "tir.OrderGlobalMemory", "tir.ThreadSync", "tir.LowerThreadAllreduce",
    "tir.InjectPTXAsyncCopy", "tir.DelayWarpgroupWaits", "tir.InjectPTXLDG32",
    "tir.MergeDynamicSharedMemoryAllocations", "tir.LowerWarpMemory",
)  # fmt: skip


def find_nvdisasm():
    """Return the path of NVIDIA's disassembler; None without one."""
    package = importlib.util.find_spec("nvidia")
    for place in package.submodule_search_locations or () if package else ():
        for found in Path(place).glob("*/bin/nvdisasm"):
            return str(found)
    return shutil.which("nvdisasm")


def mnemonics(source, arch):
    """Compile CUDA C; return the instructions of the machine code, with their modifiers."""
    return set(instructions(source, arch))


def instructions(source, arch):
    """Compile CUDA C; return the instructions of the machine code in their order."""
    cubin = compile_source(source, arch)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run(
            [find_nvdisasm(), "-c", file.name], capture_output=True, text=True, check=True
        )
    pattern = r"^\s+(?:/\*[0-9a-f]+\*/)?\s*(?:@!?U?P\w+\s+)?([A-Z][A-Zx0-9_.]*)"
    return re.findall(pattern, done.stdout, re.MULTILINE)


def has_nvrtc():
    """Return whether CUDA C can be compiled here."""
    try:
        return importlib.util.find_spec("cuda.bindings.nvrtc") is not None
    except ModuleNotFoundError:
        return False


needs_nvrtc = pytest.mark.skipif(
    not has_nvrtc(),
    reason="needs NVRTC: pip install cuda-bindings nvidia-cuda-nvrtc nvidia-cuda-runtime",
)
needs_nvdisasm = pytest.mark.skipif(
    not has_nvrtc() or find_nvdisasm() is None,
    reason="needs NVRTC and nvdisasm: pip install nvidia-cuda-nvdisasm",
)

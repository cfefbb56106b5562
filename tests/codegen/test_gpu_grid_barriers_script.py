"""Barriers of all blocks of a kernel: the interpreter, CUDA C, launchers, refusals."""

import numpy as np
import pytest

import tilesmith as ts
from tests.codegen.gpu_products import instructions, needs_nvdisasm
from tests.gpu.programs import exchange_between_blocks
from tilesmith.codegen.gpu.launchers import kernel_record
from tilesmith.codegen.gpu.nvrtc import compile_source
from tilesmith.ir import IRModule
from tilesmith.ir.transform import PassContext, Sequential
from tilesmith.lowering.pipelines import device_passes
from tilesmith.script import tir as T
from tilesmith.support.errors import CodegenError, ExecutionError
from tilesmith.target import Target
from tilesmith.tir.interpreter import Options, run

CHECKED = Options(check_races=True, check_undefined=True)


@T.prim_func
def turned(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32")):
    for bx in T.thread_binding(4, "blockIdx.x"):
        for tx in T.thread_binding(32, "threadIdx.x"):
            with T.block("all"):
                A[bx * 32 + tx] = A[bx * 32 + tx] + T.float32(1)
                B[bx * 32 + tx] = A[127 - bx * 32 - tx]


def written(target):
    """The module with its barrier, which a pass has put there."""
    with PassContext(config={"tir.detect_global_barrier": True}):
        return ts.build(turned, target=Target(target, host="llvm"))


@pytest.mark.parametrize("form", ["found", "by hand"])
def test_cuda_c_waits_for_the_grid(form):
    if form == "found":
        source = written("cuda -arch=sm_80").imported_modules[0].get_source()
    else:
        built = ts.build(exchange_between_blocks, target=Target("cuda -arch=sm_80", host="llvm"))
        source = built.imported_modules[0].get_source()
    assert source.count("wait_for_all_blocks();") == (1 if form == "found" else 2)
    head = " ".join(source.split())
    assert "float* A, float* __restrict__ B)" in head  # other blocks write what A points to
    for arch in ("sm_75", "sm_90"):
        assert compile_source(source, arch)


@needs_nvdisasm
def test_order_of_the_machine_code():
    """Each of the two barriers: all threads of the block meet, one fences, counts, waits, fences
    (which drops what the L1 cache has), and all meet again.
    """
    built = ts.build(exchange_between_blocks, target=Target("cuda -arch=sm_90", host="llvm"))
    words = instructions(built.imported_modules[0].get_source(), "sm_90")
    order = ["BAR.SYNC", "MEMBAR.SC.GPU", "CCTL.IVALL", "ATOMG.E.ADD.STRONG.GPU", "LDG.E.STRONG",
             "MEMBAR.SC.GPU", "CCTL.IVALL", "BAR.SYNC"]  # fmt: skip
    found = [one for word in words for one in dict.fromkeys(order) if word.startswith(one)]
    assert found == 2 * order


def test_its_kernel_is_launched_with_all_blocks_at_once():
    lowered = ts.lower(IRModule({"main": exchange_between_blocks}))
    target = Target("cuda -arch=sm_80", host="llvm")
    made = Sequential(device_passes(target))(lowered)
    kernel = made["exchange_between_blocks_kernel"]
    assert kernel_record(kernel).attributes == {"cooperative": True}


def test_the_interpreter_advances_all_blocks_together():
    a, b = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    run(exchange_between_blocks, a, b, options=CHECKED)
    np.testing.assert_array_equal(b, np.arange(64)[::-1] + 2)
    np.testing.assert_array_equal(a, np.arange(64) + 2)


@T.prim_func
def not_all_blocks(A: T.Buffer((64,), "float32")):
    bx = T.launch_thread("blockIdx.x", 4)
    tx = T.launch_thread("threadIdx.x", 16)
    if bx < 3:
        T.tvm_storage_sync("global")
    A[bx * 16 + tx] = T.float32(1)


@T.prim_func
def not_all_threads(A: T.Buffer((64,), "float32")):
    bx = T.launch_thread("blockIdx.x", 4)
    tx = T.launch_thread("threadIdx.x", 16)
    if tx < 3:
        T.tvm_storage_sync("global")
    A[bx * 16 + tx] = T.float32(1)


@T.prim_func
def barrier_of_a_block(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    bx = T.launch_thread("blockIdx.x", 4)
    tx = T.launch_thread("threadIdx.x", 16)
    A[bx * 16 + tx] = T.float32(1)
    T.tvm_storage_sync("global")
    B[bx * 16 + tx] = A[63 - bx * 16 - tx]
    T.tvm_storage_sync("shared")
    A[bx * 16 + tx] = T.float32(2)


@pytest.mark.parametrize("func, text", [
    (not_all_blocks, "only 3 of the 4 blocks of a kernel reach the barrier"),
    (not_all_threads, "only 3 of the 16 threads of a block reach the barrier"),
    (barrier_of_a_block, "race"),
])  # fmt: skip
def test_the_interpreter_finds(func, text):
    arrays = [np.zeros(64, "float32") for _ in func.params]
    with pytest.raises(ExecutionError, match=text):
        run(func, *arrays, options=CHECKED)


@pytest.mark.parametrize("target, text", [
    ("opencl", "groups of an OpenCL kernel may run one after the other"),
    ("nvptx", "build for 'cuda'"),
])  # fmt: skip
def test_refusals(target, text):
    with pytest.raises(CodegenError, match=text):
        written(target)

"""The passes for devices in their order: after each one, programs on threads compute the same.

From the last ThreadSync on, races between threads and reads of unwritten memory are errors.
"""

import pytest

from tests.tir.transform.harness import arrays_for, assert_same, module
from tests.tir.transform.thread_programs_script import PROGRAMS
from tilesmith.ir import IntImm
from tilesmith.ir.transform import PassContext
from tilesmith.ir.visitor import Rewriter
from tilesmith.lowering.pipelines import device_passes, lower_passes
from tilesmith.support.errors import ExecutionError
from tilesmith.target import Target
from tilesmith.tir import transform as passes
from tilesmith.tir.analysis import verify_well_formed
from tilesmith.tir.interpreter import Options, run
from tilesmith.tir.stmt import Evaluate
from tilesmith.tir.transform import (
    AnnotateDeviceRegions,
    InjectDoubleBuffer,
    InjectPTXAsyncCopy,
    InjectSoftwarePipeline,
    InjectVirtualThread,
    LowerCrossThreadReduction,
    LowerDeviceKernelLaunch,
    LowerThreadAllreduce,
    LowerWarpMemory,
    MergeSharedMemoryAllocations,
    SplitHostDevice,
    ThreadSync,
    UnifyThreadBinding,
)

CHECKED = Options(check_races=True, check_undefined=True)
TARGETS = {
    "warps": Target("cuda", host="llvm"),
    "no_warps": Target("opencl", host="llvm"),
}


def block_passes():
    """Programs of blocks → flat loops."""
    return [
        LowerCrossThreadReduction(),
        passes.LowerInitBlock(),
        passes.PlanAndUpdateBufferAllocationLocation(),
        passes.ConvertBlocksToOpaque(),
        passes.CompactBufferAllocation(),
        UnifyThreadBinding(),
        passes.LowerMatchBuffer(),
        InjectSoftwarePipeline(),
        passes.LowerOpaqueBlock(),
        passes.FlattenBuffer(),
        passes.NarrowDataType(32),
        passes.Simplify(),
        passes.LoopPartition(),
        passes.VectorizeLoop(),
        InjectVirtualThread(),
        InjectDoubleBuffer(),
        passes.StorageRewrite(),
        passes.UnrollLoop(),
        passes.Simplify(),
        passes.RemoveNoOp(),
    ]


def barrier_passes(target):
    """Flat loops → the same with barriers."""
    return [
        passes.BindTarget(target),
        ThreadSync("shared"),
        ThreadSync("shared.dyn"),
        ThreadSync("warp"),
    ]


def kernel_passes():
    """From one function to a host function and its kernels."""
    return [
        LowerThreadAllreduce(),
        InjectPTXAsyncCopy(),
        AnnotateDeviceRegions(),
        SplitHostDevice(),
        MergeSharedMemoryAllocations(),
        passes.MakePackedAPI(),
        LowerDeviceKernelLaunch(),
        LowerWarpMemory(),
        passes.Simplify(),
    ]


def results(mod, name, arrays, options):
    copies = [array.copy() for array in arrays]
    run(mod, *copies, entry=name, options=options)
    return copies


CASES = [(name, "warps") for name in PROGRAMS]
CASES += [(name, "no_warps") for name in ("row_sums", "row_sums_odd", "softmax", "argmax")]


@pytest.mark.parametrize("name, target", CASES)
def test_each_pass_keeps_the_meaning(name, target):
    func = PROGRAMS[name]()
    symbol = str(func.attrs["global_symbol"])
    arrays = arrays_for(func)
    mod = module(func)
    want = results(mod, symbol, arrays, Options())
    steps = [(step, Options()) for step in [*block_passes(), *barrier_passes(TARGETS[target])]]
    steps[-1] = (steps[-1][0], CHECKED)
    steps += [(step, CHECKED) for step in kernel_passes()]
    for step, options in steps:
        before = mod
        with PassContext(config={"tir.merge_static_smem": True}):
            mod = step(mod)
        if not options.watched and before[symbol] is mod[symbol]:
            continue
        got = results(mod, symbol, arrays, options)
        assert_same(got, want, f"after {step.info.name}")
        verify_well_formed(mod[symbol])
    assert f"{symbol}_kernel" in mod


class WithoutBarrier(Rewriter):
    """Leaves one barrier out."""

    def __init__(self, number):
        self.number = number
        self.count = 0

    def visit_Evaluate(self, node):
        if getattr(getattr(node.value, "op", None), "name", "") != "tir.tvm_storage_sync":
            return node
        self.count += 1
        return Evaluate(IntImm("int32", 0)) if self.count - 1 == self.number else node


@pytest.mark.parametrize(
    "name", ["matmul", "matmul_vthread", "matmul_pipelined", "matmul_async", "softmax", "stencil"]
)
def test_each_barrier_is_needed(name):
    """ThreadSync inserts no barrier too many: without any one of them threads race."""
    func = PROGRAMS[name]()
    arrays = arrays_for(func)
    mod = module(func)
    for step in [*block_passes(), *barrier_passes(TARGETS["warps"])]:
        mod = step(mod)
    (synced,) = mod.functions.values()
    counter = WithoutBarrier(-1)
    counter.visit(synced.body)
    assert counter.count > 0
    for number in range(counter.count):
        broken = synced.with_body(WithoutBarrier(number).visit(synced.body))
        with pytest.raises(ExecutionError, match="race"):
            run(broken, *[array.copy() for array in arrays], options=CHECKED)


def test_the_host_launches_as_many_threads_as_the_kernel_has():
    func = PROGRAMS["stencil"]()
    arrays = arrays_for(func)
    mod = module(func)
    for step in [*block_passes(), *barrier_passes(TARGETS["warps"]), *kernel_passes()]:
        mod = step(mod)
    kernel = mod["stencil_kernel"]
    assert kernel.attrs["tir.kernel_launch_params"] == ("blockIdx.x", "threadIdx.x")
    copies = [array.copy() for array in arrays]
    with pytest.raises(ExecutionError, match=r"launches 7 threads of threadIdx.x, .* has 8"):
        run(mod, *copies, 2, 7, entry="stencil_kernel")


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_pipeline_of_lowering(name):
    func = PROGRAMS[name]()
    symbol = str(func.attrs["global_symbol"])
    arrays = arrays_for(func)
    mod = module(func)
    want = results(mod, symbol, arrays, Options())
    for step in [*lower_passes(on_threads=True), *device_passes(TARGETS["warps"])]:
        mod = step(mod)
    assert f"{symbol}_kernel" in mod
    assert_same(results(mod, symbol, arrays, CHECKED), want)

"""Lists of the passes that lower tensor programs to the input of a back end.

Each list is read from top to bottom. There are two ways through lowering, in four phases each: for
programs of blocks (``lower_passes``) and for classic loop programs (``classic_passes``), which
realize parts of buffers. Both end in flat loops over flat buffers. After them come the passes for
the host (``host_passes``), or, for functions that run on threads of a device, the passes that
outline kernels (``device_passes``).

Back ends add passes of their own for the host (``BackEnd.host_passes``), C CommonSubexprElimTIR.
Left out on purpose: the same pass for LLVM, which does it itself (it would add a tenth to the time
of lowering a convolution), and the passes that legalize bfloat16 and float8, whose values the CPU
back ends compute as wide as they need.

``PassContext`` can disable passes by name; the option ``tir.add_lower_pass`` adds passes after a
phase (0 to 3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilesmith.ir.transform import Pass, PassContext
from tilesmith.target import Target
from tilesmith.target.back_end import find_back_end, part
from tilesmith.tir import transform as passes

__all__ = [
    "CLASSIC_PHASES", "PHASES", "classic_passes", "device_passes", "further_passes", "host_passes",
    "lower_passes",
]  # fmt: skip


def _when(option: str, step: Pass) -> list[Pass]:
    """Return a pass that runs only if an option of the context is set."""
    return [step] if PassContext.current().get_config(option) else []


# Programs of blocks.


def _blocks() -> list[Pass]:
    """Return the passes of phase 0: blocks with iterators and reductions → opaque blocks."""
    return [
        passes.InjectPrefetch(),
        passes.SkipIdentityTerms(),
        passes.LowerInitBlock(),
        # while blocks still mark reductions; no later pass needs the reads of the new blocks
        passes.PlanAndUpdateBufferAllocationLocation(declare_regions=False),
        passes.ConvertBlocksToOpaque(),
        passes.CompactBufferAllocation(),
        passes.LowerMatchBuffer(),
    ]


def _flat_loops() -> list[Pass]:
    """Return the passes of phase 1: opaque blocks → loops over flat buffers, with 32-bit indices
    where they fit.
    """
    return [
        passes.LowerOpaqueBlock(),
        passes.RewriteUnsafeSelect(),  # while each dimension can be compared with its index
        *_when("tir.instrument_bound_checkers", passes.InstrumentBoundCheckers()),
        passes.FlattenBuffer(),
        passes.NarrowDataType(32),  # before vectorization: fewer bits, more lanes
        passes.Simplify(),
        passes.CheckDivisors(),
        passes.HoistChecks(),
        passes.PrefetchNextRun(),
    ]


def _vectors() -> list[Pass]:
    """Return the passes of phase 2: marked loops → vectors, copies, shared memory."""
    return [
        passes.RemoveStoreUndef(),
        passes.RemoveAssume(),
        passes.LoopPartition(),
        passes.PeelVectorTails(),
        passes.VectorizeLoop(freely=True),
        passes.StorageRewrite(vector_elements=False),
        passes.UnrollLoop(),
    ]


def _cleanup() -> list[Pass]:
    """Return the passes of phase 3, which clean up after the earlier phases."""
    return [
        passes.Simplify(),
        passes.RemoveNoOp(),
        passes.HoistIfThenElse(),
        *_when("tir.vtcm_capacity", passes.VerifyVTCMLimit()),
        *_when("tir.instrument_lwp", passes.InstrumentProfileIntrinsics()),
        *_when("tir.enable_debug", passes.InstallDebugSpans()),
    ]


def _cleanup_on_threads() -> list[Pass]:
    """Return the passes of phase 3 for functions on threads or with pipelines."""
    return [*_cleanup(), passes.PrecomputeAddresses()]


PHASES = (_blocks, _flat_loops, _vectors, _cleanup)
"""The phases for programs of blocks in order: functions that make their lists of passes."""


# Programs of blocks on threads of a device, or with pipelined loops: the same passes and the ones
# that threads and pipelines need.


def _blocks_on_threads() -> list[Pass]:
    """Return the passes of phase 0 for functions on threads or with pipelines."""
    return [
        passes.VerifyKernelMemory(),
        passes.InjectPrefetch(),
        passes.LowerCrossThreadReduction(),  # while a reduction is a block with an init
        passes.SkipIdentityTerms(),
        passes.LowerInitBlock(),
        passes.PlanAndUpdateBufferAllocationLocation(into_kernels=False),
        passes.ConvertBlocksToOpaque(),
        passes.SeparateThreadMemory(),
        passes.UnifyThreadBinding(),
        passes.OrderBlocks(),  # while the loops over blocks stand together
        passes.ManifestSharedMemoryLocalStage(),  # before pipelines, which count its statements
        passes.CompactBufferAllocation(),
        passes.LowerAutoCopy(),
        passes.LowerMatchBuffer(),
        passes.InjectPermutedLayout(),
        passes.InjectSoftwarePipeline(),
        passes.TransformMmaBufferLayout(),
    ]


def _vectors_on_threads() -> list[Pass]:
    """Return the passes of phase 2 for functions on threads or with pipelines."""
    return [
        passes.RemoveStoreUndef(),
        passes.RemoveAssume(),
        passes.LoopPartition(),
        passes.PeelVectorTails(),
        passes.VectorizeLoop(freely=True),
        passes.InjectVirtualThread(),
        passes.InjectDoubleBuffer(),
        passes.StorageRewrite(vector_elements=False),
        passes.UnrollLoop(),
    ]


THREAD_PHASES = (_blocks_on_threads, _flat_loops, _vectors_on_threads, _cleanup_on_threads)
"""The phases for programs of blocks on threads or with pipelines."""


# Classic loop programs.


def _classic_buffers() -> list[Pass]:
    """Return the passes of phase 0: realized regions and tensors → allocations and flat buffers."""
    return [
        passes.ApplyLayoutTransforms(),
        passes.InjectRollingBuffer(),
        passes.TextureFlatten(),
        passes.RewriteUnsafeSelect(),  # while each dimension can be compared with its index
        *_when("tir.instrument_bound_checkers", passes.InstrumentBoundCheckers()),
        passes.StorageFlatten(64),
    ]


def _classic_loops() -> list[Pass]:
    """Return the passes of phase 1: 32-bit indices where they fit."""
    return [
        passes.NarrowDataType(32),
        passes.Simplify(),
        passes.CheckDivisors(),
        passes.HoistChecks(),
    ]


CLASSIC_PHASES = (_classic_buffers, _classic_loops, _vectors_on_threads, _cleanup_on_threads)
"""The phases for classic loop programs; the last two are those of programs of blocks."""


# Passes after lowering.


def _device(target: Target) -> list[Pass]:
    """Return the passes that turn functions with threads into host functions that launch
    kernels.
    """
    return [
        passes.SeparateDeviceFunctions(target),
        passes.BindTarget(target if target.host is not None else target.with_host("llvm")),
        passes.AnnotateEntryFunc(),
        passes.BindParallelLoops(),
        passes.VerifyMemory(),
        *_when("tir.detect_global_barrier", passes.ThreadSync("global")),
        passes.OrderGlobalMemory(),
        passes.ThreadSync("shared"),
        passes.ThreadSync("shared.dyn"),
        passes.ThreadSync("warp"),
        passes.LowerThreadAllreduce(),
        *_with_barriers(target),
        *_when("tir.use_async_copy", passes.InjectPTXAsyncCopy()),
        passes.DelayWarpgroupWaits(),
        *_when("tir.ptx_ldg32", passes.InjectPTXLDG32()),
        passes.AnnotateDeviceRegions(),
        passes.SplitHostDevice(),
        *_shared_memory(),
        passes.LowerWarpMemory(),
        passes.CommonSubexprElimTIR(),  # kernels are source text that people read
        passes.LowerIntrin(),
        passes.MakePackedAPI(),
        passes.LowerDeviceKernelLaunch(),
    ]


def _with_barriers(target: Target) -> list[Pass]:
    """Return the passes over functions with their barriers that the target's back end adds."""
    record = find_back_end(target)
    return [] if record is None else [part(make)() for make in record.barrier_passes]


def _shared_memory() -> list[Pass]:
    """Return the passes that merge the shared-memory allocations of a kernel."""
    if PassContext.current().get_config("tir.merge_static_smem"):
        return [passes.MergeSharedMemoryAllocations()]
    return [passes.MergeDynamicSharedMemoryAllocations()]


def _in_phases(
    phases: Sequence[Callable[[], list[Pass]]], added: Sequence[tuple[int, Pass]] | None
) -> list[Pass]:
    found: list[Pass] = []
    for number, phase in enumerate(phases):
        found += phase()
        found += [extra for wanted, extra in added or () if wanted == number]
    return found


def lower_passes(
    added: Sequence[tuple[int, Pass]] | None = None, on_threads: bool = False
) -> list[Pass]:
    """Return all passes for programs of blocks. ``added`` are pairs of a phase and a pass that runs
    at its end; ``on_threads`` says that loops are bound to threads or pipelined.
    """
    return _in_phases(THREAD_PHASES if on_threads else PHASES, added)


def classic_passes(added: Sequence[tuple[int, Pass]] | None = None) -> list[Pass]:
    """Return all passes for classic loop programs; ``added`` as for ``lower_passes``."""
    return _in_phases(CLASSIC_PHASES, added)


def device_passes(target: Target) -> list[Pass]:
    """Return the passes from lowered functions with threads to host functions and device kernels.

    ``target`` is the device's target; its host is an LLVM target unless it names another one.
    """
    return _device(target)


def host_passes(target: Target, disable_assert: bool = False) -> list[Pass]:
    """Return the passes from lowered functions to the input of a back end for CPUs."""
    return [
        passes.BindTarget(target),
        passes.AnnotateEntryFunc(),
        *([passes.SkipAssert()] if disable_assert else []),  # only the user's asserts
        passes.LowerParallelRegions(),
        passes.LowerIntrin(),
        *further_passes(target),
        passes.MakePackedAPI(),
    ]


def further_passes(target: Target) -> list[Pass]:
    """Return the passes over lowered functions that the target's back end adds."""
    record = find_back_end(target)
    return [] if record is None else [part(make)() for make in record.host_passes]

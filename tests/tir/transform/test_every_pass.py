"""Each pass by itself, on each program, at each stage of lowering where it can stand."""

import pytest

from tests.tir.transform.harness import apply, arrays_for, assert_same, outputs
from tests.tir.transform.programs_script import PROGRAMS
from tests.tir.transform.thread_programs_script import PROGRAMS as ON_THREADS
from tilesmith.ir.transform import PassContext
from tilesmith.lowering.pipelines import PHASES, THREAD_PHASES
from tilesmith.target import Target
from tilesmith.tir import transform
from tilesmith.tir.analysis import OOBChecker, verify_ssa, verify_well_formed

STAGES = ("blocks", "opaque", "flat", "vectors", "lowered")


def stages_of(func, phases):
    """The function at each stage of lowering, by name."""
    found = {"blocks": func}
    current = func
    for name, phase in zip(STAGES[1:], phases):
        current = apply(current, *phase())
        found[name] = current
    return found


STAGED = {name: stages_of(func, PHASES) for name, (func, _) in PROGRAMS.items()}
ARRAYS = {name: arrays_for(func, sizes) for name, (func, sizes) in PROGRAMS.items()}
for _name, _make in ON_THREADS.items():
    _name = f"threads_{_name}"  # some bear the names of other programs
    _func = _make()
    STAGED[_name] = stages_of(_func, THREAD_PHASES)
    ARRAYS[_name] = arrays_for(_func)
WANTED = {name: outputs(staged["blocks"], ARRAYS[name]) for name, staged in STAGED.items()}

BEFORE_FLAT = ("blocks", "opaque")
LOOPS = ("flat", "vectors", "lowered")
ANYWHERE = STAGES

PASSES = {
    "AnnotateIrregularLoop": (transform.AnnotateIrregularLoop, ANYWHERE),
    "ApplyLayoutTransforms": (transform.ApplyLayoutTransforms, ANYWHERE),
    "BF16CastElimination": (transform.BF16CastElimination, ANYWHERE),
    "BF16ComputeLegalize": (transform.BF16ComputeLegalize, ANYWHERE),
    "BF16Legalize": (transform.BF16Legalize, LOOPS),
    "BF16Promote": (transform.BF16Promote, ANYWHERE),
    "BF16StorageLegalize": (transform.BF16StorageLegalize, LOOPS),
    "BindTarget": (lambda: transform.BindTarget(Target("llvm")), ANYWHERE),
    "CanonicalizeLoop": (transform.CanonicalizeLoop, ANYWHERE),
    "CoProcSync": (transform.CoProcSync, ANYWHERE),
    "CombineContextCall": (transform.CombineContextCall, ANYWHERE),
    "CommonSubexprElimTIR": (transform.CommonSubexprElimTIR, ANYWHERE),
    "CommonSubexprElim": (lambda: transform.CommonSubexprElim(True, True), LOOPS),
    "ConvertBlocksToOpaque": (transform.ConvertBlocksToOpaque, ("opaque",)),
    "ConvertForLoopsToSerial": (transform.ConvertForLoopsToSerial, LOOPS),
    "ConvertSSA": (transform.ConvertSSA, ANYWHERE),
    "ExtractPrimFuncConstants": (transform.ExtractPrimFuncConstants, ANYWHERE),
    "FP8ComputeLegalize": (transform.FP8ComputeLegalize, ANYWHERE),
    "FP8StorageLegalize": (transform.FP8StorageLegalize, LOOPS),
    "FlattenBuffer": (transform.FlattenBuffer, LOOPS),
    "HoistExpression": (transform.HoistExpression, ANYWHERE),
    "HoistIfThenElse": (transform.HoistIfThenElse, ANYWHERE),
    "HoistIfThenElseBasic": (lambda: transform.HoistIfThenElse("basic"), ANYWHERE),
    "InjectDoubleBuffer": (transform.InjectDoubleBuffer, LOOPS),
    "InjectPTXAsyncCopy": (transform.InjectPTXAsyncCopy, LOOPS),
    "InjectPrefetch": (transform.InjectPrefetch, ANYWHERE),
    "InjectRollingBuffer": (transform.InjectRollingBuffer, ANYWHERE),
    "InjectSoftwarePipeline": (transform.InjectSoftwarePipeline, ("opaque",)),
    "InjectVirtualThread": (transform.InjectVirtualThread, LOOPS),
    "InlinePrivateFunctions": (transform.InlinePrivateFunctions, ANYWHERE),
    "InstallDebugSpans": (transform.InstallDebugSpans, ANYWHERE),
    "InstrumentBoundCheckers": (transform.InstrumentBoundCheckers, ("flat",)),
    "InstrumentProfileIntrinsics": (transform.InstrumentProfileIntrinsics, LOOPS),
    "LegalizePackedCalls": (transform.LegalizePackedCalls, ANYWHERE),
    "LiftAttrScope": (lambda: transform.LiftAttrScope("pragma_anything"), ANYWHERE),
    "LoopPartition": (transform.LoopPartition, LOOPS),
    "LowerCrossThreadReduction": (transform.LowerCrossThreadReduction, ("blocks",)),
    "LowerAsyncDMA": (transform.LowerAsyncDMA, LOOPS),
    "LowerCustomDatatypes": (transform.LowerCustomDatatypes, ANYWHERE),
    "LowerIntrin": (transform.LowerIntrin, LOOPS),
    "LowerMatchBuffer": (transform.LowerMatchBuffer, ("opaque",)),
    "LowerTVMBuiltin": (transform.LowerTVMBuiltin, LOOPS),
    "LowerVtcmAlloc": (transform.LowerVtcmAlloc, LOOPS),
    "MakeUnpackedAPI": (transform.MakeUnpackedAPI, ()),
    "NarrowDataType": (lambda: transform.NarrowDataType(32), LOOPS),
    "OOBChecker": (OOBChecker, ("blocks", "flat")),
    "PeelVectorTails": (transform.PeelVectorTails, ("flat",)),
    "PointerValueTypeRewrite": (transform.PointerValueTypeRewrite, LOOPS),
    "OrderBlocks": (transform.OrderBlocks, BEFORE_FLAT),
    "PrecomputeAddresses": (transform.PrecomputeAddresses, LOOPS),
    "PrefetchNextRun": (transform.PrefetchNextRun, ("flat",)),
    "ReduceBranchingThroughOvercompute": (
        transform.ReduceBranchingThroughOvercompute,
        ANYWHERE,
    ),
    "RemoveAssume": (transform.RemoveAssume, ANYWHERE),
    "RemoveNoOp": (transform.RemoveNoOp, LOOPS),
    "RemoveStoreUndef": (transform.RemoveStoreUndef, ANYWHERE),
    "RemoveWeightLayoutRewriteBlock": (transform.RemoveWeightLayoutRewriteBlock, BEFORE_FLAT),
    "RenormalizeSplitPattern": (transform.RenormalizeSplitPattern, ANYWHERE),
    "RewriteUnsafeSelect": (transform.RewriteUnsafeSelect, BEFORE_FLAT),
    "Simplify": (transform.Simplify, ANYWHERE),
    "SkipAssert": (transform.SkipAssert, ANYWHERE),
    "StorageFlatten": (lambda: transform.StorageFlatten(64), LOOPS),
    "StorageRewrite": (transform.StorageRewrite, LOOPS),
    "TextureFlatten": (transform.TextureFlatten, ANYWHERE),
    "UnifyThreadBinding": (transform.UnifyThreadBinding, ("opaque",)),
    "UnrollLoop": (transform.UnrollLoop, LOOPS),
    "UseAssumeToReduceBranches": (transform.UseAssumeToReduceBranches, ANYWHERE),
    "VectorizeLoop": (transform.VectorizeLoop, ("flat",)),
    "VectorizeLoop(False)": (lambda: transform.VectorizeLoop(False), ("flat",)),
    "VerifyMemory": (transform.VerifyMemory, ANYWHERE),
    "VerifyVTCMLimit": (transform.VerifyVTCMLimit, ANYWHERE),
}

NOT_ON_THREADS = {"LowerAsyncDMA"}  # its transfers belong to other devices

SETTINGS = {
    "HoistExpression": {
        "tir.HoistExpression": {"hoisted_conditionals": 15, "hoisted_let_bindings": 7}
    },
    "InstrumentProfileIntrinsics": {"tir.instrument_lwp": True},
    "LoopPartition": {"tir.LoopPartition": {"partition_const_loop": True}},
    "UnrollLoop": {"tir.UnrollLoop": {"auto_max_step": 64}},
}


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_keeps_what_programs_compute(name):
    factory, stages = PASSES[name]
    for program, staged in STAGED.items():
        if name in NOT_ON_THREADS and program.startswith("threads_"):
            continue
        for stage in stages:
            before = staged[stage]
            with PassContext(config=SETTINGS.get(name)):
                after = apply(before, factory())
            if after is before:
                continue
            label = f"{name} on {program} ({stage})"
            assert verify_well_formed(after), label
            assert_same(outputs(after, ARRAYS[program]), WANTED[program], label)
            if verify_ssa(before):
                assert verify_ssa(after), label


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_pass_that_finds_nothing_returns_the_same_function(name):
    func = STAGED[name]["lowered"]
    once = apply(func, transform.Simplify(), transform.RemoveNoOp(), transform.ConvertSSA())
    again = apply(
        once, transform.RemoveNoOp(), transform.ConvertSSA(), transform.CanonicalizeLoop()
    )
    assert again is once or again.body is once.body

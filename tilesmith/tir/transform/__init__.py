"""Passes over tensor programs, under the names that users know.

They live in rooms by what they do: `blocks` (from blocks to loops), `loops`, `storage`, `threads`,
`dtypes`, `simplification`, `functions`; `intrinsics` holds the rules of operators. The order in
which they run stands in `tilesmith/lowering/pipelines.py`.
"""

from typing import TYPE_CHECKING

from tilesmith.support.lazy import lazy_attributes
from tilesmith.tir.transform import options

if TYPE_CHECKING:
    from tilesmith.tir.transform.every import *  # noqa: F403

_LIVES_IN = {
    "apply": ["Apply"],
    "blocks.annotate_irregular_loop": ["AnnotateIrregularLoop"],
    "blocks.compact_buffer_allocation": ["CompactBufferAllocation"],
    "blocks.convert_blocks_to_opaque": ["ConvertBlocksToOpaque"],
    "blocks.lower_auto_copy": ["LowerAutoCopy"],
    "blocks.lower_init_block": ["LowerInitBlock"],
    "blocks.lower_match_buffer": ["LowerMatchBuffer"],
    "blocks.lower_opaque_block": ["LowerOpaqueBlock"],
    "blocks.plan_update_buffer_allocation_location": ["PlanAndUpdateBufferAllocationLocation"],
    "blocks.remove_weight_layout_rewrite_block": ["RemoveWeightLayoutRewriteBlock"],
    "configs": [
        "HoistExpressionConfig",
        "HoistIfThenElseConfig",
        "InjectDoubleBufferConfig",
        "LoopPartitionConfig",
        "ReduceBranchingThroughOvercomputeConfig",
        "RemoveNoOpConfig",
        "SimplifyConfig",
        "StmtSimplifyConfig",
        "UnrollLoopConfig",
    ],
    "dtypes.bfloat16_steps": [
        "BF16CastElimination",
        "BF16Legalize",
        "BF16Promote",
        "BF16TypeLowering",
    ],
    "dtypes.force_narrow_index_to_int32": ["ForceNarrowIndexToInt32"],
    "dtypes.legalize_compute": ["BF16ComputeLegalize", "FP8ComputeLegalize"],
    "dtypes.legalize_storage": ["BF16StorageLegalize", "FP8StorageLegalize"],
    "dtypes.lower_custom_datatypes": ["LowerCustomDatatypes"],
    "dtypes.narrow_data_type": ["NarrowDataType"],
    "filter": ["Filter"],
    "function_pass": ["CreatePrimFuncPass", "PrimFuncPass", "prim_func_pass"],
    "functions.annotate_entry_func": ["AnnotateEntryFunc"],
    "functions.bind_target": ["BindTarget"],
    "functions.combine_context_call": ["CombineContextCall"],
    "functions.device_regions": [
        "AnnotateDeviceRegions",
        "DecorateDeviceScope",
        "LowerDeviceKernelLaunch",
        "SplitHostDevice",
    ],
    "functions.extract_prim_func_constants": ["ExtractPrimFuncConstants"],
    "functions.inline_private_functions": ["InlinePrivateFunctions"],
    "functions.install_debug_spans": ["InstallDebugSpans"],
    "functions.instrument_bound_checkers": ["InstrumentBoundCheckers"],
    "functions.instrument_profile_intrinsics": ["InstrumentProfileIntrinsics"],
    "functions.legalize_packed_calls": ["LegalizePackedCalls"],
    "functions.lower_intrin": ["LowerIntrin"],
    "functions.lower_tvm_builtin": ["LowerTVMBuiltin"],
    "functions.make_packed_api": ["MakePackedAPI", "MakeUnpackedAPI"],
    "loops.canonicalize_loop": ["CanonicalizeLoop"],
    "loops.convert_for_loops_to_serial": ["ConvertForLoopsToSerial"],
    "loops.hoist_expression": ["HoistExpression", "HoistedConditionals", "HoistedLetBindings"],
    "loops.hoist_if_then_else": ["HoistIfThenElse", "HoistIfThenElseBasic"],
    "loops.inject_double_buffer": ["InjectDoubleBuffer"],
    "loops.inject_prefetch": ["InjectPrefetch"],
    "loops.inject_software_pipeline": ["InjectSoftwarePipeline"],
    "loops.inject_virtual_thread": ["InjectVirtualThread"],
    "loops.loop_partition": ["LoopPartition"],
    "loops.peel_vector_tails": ["PeelVectorTails"],
    "loops.renormalize_split_pattern": ["RenormalizeSplitPattern"],
    "loops.unroll_loop": ["UnrollLoop"],
    "loops.vectorize_loop": ["VectorizeLoop"],
    "refused": [
        "LowerTIRx",
        "LowerTIRxOpaque",
        "TilePrimitiveDispatch",
        "UnifiedStaticMemoryPlanner",
    ],
    "simplification.common_subexpr_elim": ["CommonSubexprElim", "CommonSubexprElimTIR"],
    "simplification.convert_ssa": ["ConvertSSA"],
    "simplification.reduce_branches": [
        "ReduceBranchingThroughOvercompute",
        "UseAssumeToReduceBranches",
    ],
    "simplification.remove_assume": ["RemoveAssume"],
    "simplification.remove_no_op": ["RemoveNoOp"],
    "simplification.remove_store_undef": ["RemoveStoreUndef"],
    "simplification.rewrite_unsafe_select": ["RewriteUnsafeSelect"],
    "simplification.simplify": ["Simplify", "StmtSimplify"],
    "simplification.skip_assert": ["SkipAssert"],
    "storage.apply_layout_transforms": ["ApplyLayoutTransforms"],
    "storage.flatten_buffer": ["FlattenBuffer"],
    "storage.inject_copy_intrin": ["InjectCopyIntrin"],
    "storage.inject_rolling_buffer": ["InjectRollingBuffer"],
    "storage.lower_async_dma": ["LowerAsyncDMA"],
    "storage.lower_device_storage_access_info": ["LowerDeviceStorageAccessInfo"],
    "storage.lower_vtcm_alloc": ["LowerVtcmAlloc"],
    "storage.merge_shared_memory_allocations": [
        "MergeDynamicSharedMemoryAllocations",
        "MergeSharedMemoryAllocations",
    ],
    "storage.pointer_value_type_rewrite": ["PointerValueTypeRewrite"],
    "storage.storage_flatten": ["StorageFlatten"],
    "storage.storage_rewrite": ["StorageRewrite"],
    "storage.texture_flatten": ["TextureFlatten"],
    "threads.co_proc_sync": ["CoProcSync"],
    "threads.default_gpu_schedule": ["DefaultGPUSchedule"],
    "threads.infer_fragment": ["InferFragment"],
    "threads.inject_permuted_layout": ["InjectPermutedLayout"],
    "threads.inject_ptx_copies": ["InjectPTXAsyncCopy", "InjectPTXLDG32"],
    "threads.lift_attr_scope": ["LiftAttrScope"],
    "threads.lift_thread_binding": ["LiftThreadBinding"],
    "threads.lower_cross_thread_reduction": ["LowerCrossThreadReduction"],
    "threads.lower_thread_allreduce": ["LowerThreadAllreduce"],
    "threads.lower_warp_memory": ["LowerWarpMemory"],
    "threads.manifest_shared_memory_local_stage": ["ManifestSharedMemoryLocalStage"],
    "threads.remap_thread_axis": ["RemapThreadAxis"],
    "threads.thread_sync": ["ThreadSync"],
    "threads.transform_mma_buffer_layout": ["TransformMmaBufferLayout"],
    "threads.unify_thread_binding": ["UnifyThreadBinding"],
    "threads.verify_gpu_code": ["VerifyGPUCode"],
    "verification": ["VerifyMemory", "VerifySSA", "VerifyVTCMLimit"],
}
"""The names in each module: who uses a few passes does not wait for all."""

_NAMES = {
    name: f"{__name__}.{module}:{name}" for module, names in _LIVES_IN.items() for name in names
}

__getattr__, __dir__ = lazy_attributes(__name__, _NAMES)

__all__ = [*_NAMES, "options"]  # noqa: PLE0604

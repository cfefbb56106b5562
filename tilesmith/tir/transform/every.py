"""All passes over tensor programs at once: for who asks for one by its registered name."""

from tilesmith.tir.transform.apply import Apply
from tilesmith.tir.transform.blocks.annotate_irregular_loop import AnnotateIrregularLoop
from tilesmith.tir.transform.blocks.compact_buffer_allocation import CompactBufferAllocation
from tilesmith.tir.transform.blocks.convert_blocks_to_opaque import ConvertBlocksToOpaque
from tilesmith.tir.transform.blocks.lower_auto_copy import LowerAutoCopy
from tilesmith.tir.transform.blocks.lower_init_block import LowerInitBlock
from tilesmith.tir.transform.blocks.lower_match_buffer import LowerMatchBuffer
from tilesmith.tir.transform.blocks.lower_opaque_block import LowerOpaqueBlock
from tilesmith.tir.transform.blocks.plan_update_buffer_allocation_location import (
    PlanAndUpdateBufferAllocationLocation,
)
from tilesmith.tir.transform.blocks.remove_weight_layout_rewrite_block import (
    RemoveWeightLayoutRewriteBlock,
)
from tilesmith.tir.transform.configs import (
    HoistExpressionConfig,
    HoistIfThenElseConfig,
    InjectDoubleBufferConfig,
    LoopPartitionConfig,
    ReduceBranchingThroughOvercomputeConfig,
    RemoveNoOpConfig,
    SimplifyConfig,
    StmtSimplifyConfig,
    UnrollLoopConfig,
)
from tilesmith.tir.transform.dtypes.bfloat16_steps import (
    BF16CastElimination,
    BF16Legalize,
    BF16Promote,
    BF16TypeLowering,
)
from tilesmith.tir.transform.dtypes.force_narrow_index_to_int32 import ForceNarrowIndexToInt32
from tilesmith.tir.transform.dtypes.legalize_compute import BF16ComputeLegalize, FP8ComputeLegalize
from tilesmith.tir.transform.dtypes.legalize_storage import BF16StorageLegalize, FP8StorageLegalize
from tilesmith.tir.transform.dtypes.lower_custom_datatypes import LowerCustomDatatypes
from tilesmith.tir.transform.dtypes.narrow_data_type import NarrowDataType
from tilesmith.tir.transform.filter import Filter
from tilesmith.tir.transform.function_pass import CreatePrimFuncPass, PrimFuncPass, prim_func_pass
from tilesmith.tir.transform.functions.annotate_entry_func import AnnotateEntryFunc
from tilesmith.tir.transform.functions.bind_target import BindTarget
from tilesmith.tir.transform.functions.combine_context_call import CombineContextCall
from tilesmith.tir.transform.functions.device_regions import (
    AnnotateDeviceRegions,
    DecorateDeviceScope,
    LowerDeviceKernelLaunch,
    SplitHostDevice,
)
from tilesmith.tir.transform.functions.extract_prim_func_constants import ExtractPrimFuncConstants
from tilesmith.tir.transform.functions.inline_private_functions import InlinePrivateFunctions
from tilesmith.tir.transform.functions.install_debug_spans import InstallDebugSpans
from tilesmith.tir.transform.functions.instrument_bound_checkers import InstrumentBoundCheckers
from tilesmith.tir.transform.functions.instrument_profile_intrinsics import (
    InstrumentProfileIntrinsics,
)
from tilesmith.tir.transform.functions.legalize_packed_calls import LegalizePackedCalls
from tilesmith.tir.transform.functions.lower_intrin import LowerIntrin
from tilesmith.tir.transform.functions.lower_tvm_builtin import LowerTVMBuiltin
from tilesmith.tir.transform.functions.make_packed_api import MakePackedAPI, MakeUnpackedAPI
from tilesmith.tir.transform.loops.canonicalize_loop import CanonicalizeLoop
from tilesmith.tir.transform.loops.convert_for_loops_to_serial import ConvertForLoopsToSerial
from tilesmith.tir.transform.loops.hoist_expression import (
    HoistedConditionals,
    HoistedLetBindings,
    HoistExpression,
)
from tilesmith.tir.transform.loops.hoist_if_then_else import HoistIfThenElse, HoistIfThenElseBasic
from tilesmith.tir.transform.loops.inject_double_buffer import InjectDoubleBuffer
from tilesmith.tir.transform.loops.inject_prefetch import InjectPrefetch
from tilesmith.tir.transform.loops.inject_software_pipeline import InjectSoftwarePipeline
from tilesmith.tir.transform.loops.inject_virtual_thread import InjectVirtualThread
from tilesmith.tir.transform.loops.loop_partition import LoopPartition
from tilesmith.tir.transform.loops.peel_vector_tails import PeelVectorTails
from tilesmith.tir.transform.loops.renormalize_split_pattern import RenormalizeSplitPattern
from tilesmith.tir.transform.loops.unroll_loop import UnrollLoop
from tilesmith.tir.transform.loops.vectorize_loop import VectorizeLoop
from tilesmith.tir.transform.refused import (
    LowerTIRx,
    LowerTIRxOpaque,
    TilePrimitiveDispatch,
    UnifiedStaticMemoryPlanner,
)
from tilesmith.tir.transform.simplification.common_subexpr_elim import (
    CommonSubexprElim,
    CommonSubexprElimTIR,
)
from tilesmith.tir.transform.simplification.convert_ssa import ConvertSSA
from tilesmith.tir.transform.simplification.reduce_branches import (
    ReduceBranchingThroughOvercompute,
    UseAssumeToReduceBranches,
)
from tilesmith.tir.transform.simplification.remove_assume import RemoveAssume
from tilesmith.tir.transform.simplification.remove_no_op import RemoveNoOp
from tilesmith.tir.transform.simplification.remove_store_undef import RemoveStoreUndef
from tilesmith.tir.transform.simplification.rewrite_unsafe_select import RewriteUnsafeSelect
from tilesmith.tir.transform.simplification.simplify import Simplify, StmtSimplify
from tilesmith.tir.transform.simplification.skip_assert import SkipAssert
from tilesmith.tir.transform.storage.apply_layout_transforms import ApplyLayoutTransforms
from tilesmith.tir.transform.storage.flatten_buffer import FlattenBuffer
from tilesmith.tir.transform.storage.inject_copy_intrin import InjectCopyIntrin
from tilesmith.tir.transform.storage.inject_rolling_buffer import InjectRollingBuffer
from tilesmith.tir.transform.storage.lower_async_dma import LowerAsyncDMA
from tilesmith.tir.transform.storage.lower_device_storage_access_info import (
    LowerDeviceStorageAccessInfo,
)
from tilesmith.tir.transform.storage.lower_vtcm_alloc import LowerVtcmAlloc
from tilesmith.tir.transform.storage.merge_shared_memory_allocations import (
    MergeDynamicSharedMemoryAllocations,
    MergeSharedMemoryAllocations,
)
from tilesmith.tir.transform.storage.pointer_value_type_rewrite import PointerValueTypeRewrite
from tilesmith.tir.transform.storage.storage_flatten import StorageFlatten
from tilesmith.tir.transform.storage.storage_rewrite import StorageRewrite
from tilesmith.tir.transform.storage.texture_flatten import TextureFlatten
from tilesmith.tir.transform.threads.co_proc_sync import CoProcSync
from tilesmith.tir.transform.threads.default_gpu_schedule import DefaultGPUSchedule
from tilesmith.tir.transform.threads.infer_fragment import InferFragment
from tilesmith.tir.transform.threads.inject_permuted_layout import InjectPermutedLayout
from tilesmith.tir.transform.threads.inject_ptx_copies import InjectPTXAsyncCopy, InjectPTXLDG32
from tilesmith.tir.transform.threads.lift_attr_scope import LiftAttrScope
from tilesmith.tir.transform.threads.lift_thread_binding import LiftThreadBinding
from tilesmith.tir.transform.threads.lower_cross_thread_reduction import LowerCrossThreadReduction
from tilesmith.tir.transform.threads.lower_thread_allreduce import LowerThreadAllreduce
from tilesmith.tir.transform.threads.lower_warp_memory import LowerWarpMemory
from tilesmith.tir.transform.threads.manifest_shared_memory_local_stage import (
    ManifestSharedMemoryLocalStage,
)
from tilesmith.tir.transform.threads.remap_thread_axis import RemapThreadAxis
from tilesmith.tir.transform.threads.thread_sync import ThreadSync
from tilesmith.tir.transform.threads.transform_mma_buffer_layout import TransformMmaBufferLayout
from tilesmith.tir.transform.threads.unify_thread_binding import UnifyThreadBinding
from tilesmith.tir.transform.threads.verify_gpu_code import VerifyGPUCode
from tilesmith.tir.transform.verification import VerifyMemory, VerifySSA, VerifyVTCMLimit

__all__ = [
    "AnnotateDeviceRegions",
    "AnnotateEntryFunc",
    "AnnotateIrregularLoop",
    "Apply",
    "ApplyLayoutTransforms",
    "BF16CastElimination",
    "BF16ComputeLegalize",
    "BF16Legalize",
    "BF16Promote",
    "BF16StorageLegalize",
    "BF16TypeLowering",
    "BindTarget",
    "CanonicalizeLoop",
    "CoProcSync",
    "CombineContextCall",
    "CommonSubexprElim",
    "CommonSubexprElimTIR",
    "CompactBufferAllocation",
    "ConvertBlocksToOpaque",
    "ConvertForLoopsToSerial",
    "ConvertSSA",
    "CreatePrimFuncPass",
    "DecorateDeviceScope",
    "DefaultGPUSchedule",
    "ExtractPrimFuncConstants",
    "FP8ComputeLegalize",
    "FP8StorageLegalize",
    "Filter",
    "FlattenBuffer",
    "ForceNarrowIndexToInt32",
    "HoistExpression",
    "HoistExpressionConfig",
    "HoistIfThenElse",
    "HoistIfThenElseBasic",
    "HoistIfThenElseConfig",
    "HoistedConditionals",
    "HoistedLetBindings",
    "InferFragment",
    "InjectCopyIntrin",
    "InjectDoubleBuffer",
    "InjectDoubleBufferConfig",
    "InjectPTXAsyncCopy",
    "InjectPTXLDG32",
    "InjectPermutedLayout",
    "InjectPrefetch",
    "InjectRollingBuffer",
    "InjectSoftwarePipeline",
    "InjectVirtualThread",
    "InlinePrivateFunctions",
    "InstallDebugSpans",
    "InstrumentBoundCheckers",
    "InstrumentProfileIntrinsics",
    "LegalizePackedCalls",
    "LiftAttrScope",
    "LiftThreadBinding",
    "LoopPartition",
    "LoopPartitionConfig",
    "LowerAsyncDMA",
    "LowerAutoCopy",
    "LowerCrossThreadReduction",
    "LowerCustomDatatypes",
    "LowerDeviceKernelLaunch",
    "LowerDeviceStorageAccessInfo",
    "LowerInitBlock",
    "LowerIntrin",
    "LowerMatchBuffer",
    "LowerOpaqueBlock",
    "LowerTIRx",
    "LowerTIRxOpaque",
    "LowerTVMBuiltin",
    "LowerThreadAllreduce",
    "LowerVtcmAlloc",
    "LowerWarpMemory",
    "MakePackedAPI",
    "MakeUnpackedAPI",
    "ManifestSharedMemoryLocalStage",
    "MergeDynamicSharedMemoryAllocations",
    "MergeSharedMemoryAllocations",
    "NarrowDataType",
    "PeelVectorTails",
    "PlanAndUpdateBufferAllocationLocation",
    "PointerValueTypeRewrite",
    "PrimFuncPass",
    "ReduceBranchingThroughOvercompute",
    "ReduceBranchingThroughOvercomputeConfig",
    "RemapThreadAxis",
    "RemoveAssume",
    "RemoveNoOp",
    "RemoveNoOpConfig",
    "RemoveStoreUndef",
    "RemoveWeightLayoutRewriteBlock",
    "RenormalizeSplitPattern",
    "RewriteUnsafeSelect",
    "Simplify",
    "SimplifyConfig",
    "SkipAssert",
    "SplitHostDevice",
    "StmtSimplify",
    "StmtSimplifyConfig",
    "StorageFlatten",
    "StorageRewrite",
    "TextureFlatten",
    "ThreadSync",
    "TilePrimitiveDispatch",
    "TransformMmaBufferLayout",
    "UnifiedStaticMemoryPlanner",
    "UnifyThreadBinding",
    "UnrollLoop",
    "UnrollLoopConfig",
    "UseAssumeToReduceBranches",
    "VectorizeLoop",
    "VerifyGPUCode",
    "VerifyMemory",
    "VerifySSA",
    "VerifyVTCMLimit",
    "prim_func_pass",
]

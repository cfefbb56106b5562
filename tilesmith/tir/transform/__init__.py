"""Passes over tensor programs, under the names that users know."""

from tilesmith.tir.transform import options
from tilesmith.tir.transform.annotate_entry_func import AnnotateEntryFunc
from tilesmith.tir.transform.apply import Apply
from tilesmith.tir.transform.bind_target import BindTarget
from tilesmith.tir.transform.compact_buffer_allocation import CompactBufferAllocation
from tilesmith.tir.transform.convert_blocks_to_opaque import ConvertBlocksToOpaque
from tilesmith.tir.transform.convert_for_loops_to_serial import ConvertForLoopsToSerial
from tilesmith.tir.transform.filter import Filter
from tilesmith.tir.transform.flatten_buffer import FlattenBuffer
from tilesmith.tir.transform.function_pass import PrimFuncPass, prim_func_pass
from tilesmith.tir.transform.hoist_if_then_else import HoistIfThenElse
from tilesmith.tir.transform.inject_prefetch import InjectPrefetch
from tilesmith.tir.transform.instrument_bound_checkers import InstrumentBoundCheckers
from tilesmith.tir.transform.loop_partition import LoopPartition
from tilesmith.tir.transform.lower_init_block import LowerInitBlock
from tilesmith.tir.transform.lower_intrin import LowerIntrin
from tilesmith.tir.transform.lower_match_buffer import LowerMatchBuffer
from tilesmith.tir.transform.lower_opaque_block import LowerOpaqueBlock
from tilesmith.tir.transform.make_packed_api import MakePackedAPI, MakeUnpackedAPI
from tilesmith.tir.transform.narrow_data_type import NarrowDataType
from tilesmith.tir.transform.peel_vector_tails import PeelVectorTails
from tilesmith.tir.transform.plan_update_buffer_allocation_location import (
    PlanAndUpdateBufferAllocationLocation,
)
from tilesmith.tir.transform.remove_assume import RemoveAssume
from tilesmith.tir.transform.remove_no_op import RemoveNoOp
from tilesmith.tir.transform.remove_store_undef import RemoveStoreUndef
from tilesmith.tir.transform.rewrite_unsafe_select import RewriteUnsafeSelect
from tilesmith.tir.transform.simplify import Simplify, StmtSimplify
from tilesmith.tir.transform.skip_assert import SkipAssert
from tilesmith.tir.transform.storage_rewrite import StorageRewrite
from tilesmith.tir.transform.unroll_loop import UnrollLoop, UnrollLoopConfig
from tilesmith.tir.transform.vectorize_loop import VectorizeLoop

"""Classic schedules of tensor expressions: ``create_schedule``, its stages and their loops."""

from tilesmith.te.schedule.auto_inline import (
    auto_inline_broadcast,
    auto_inline_element_wise,
    auto_inline_injective,
)
from tilesmith.te.schedule.bounds import infer_bound
from tilesmith.te.schedule.graph import create_read_graph, post_dfs_order
from tilesmith.te.schedule.placement import create_attach_path
from tilesmith.te.schedule.postprocessing import (
    schedule_post_proc_to_prim_func,
    verify_compact_buffer,
)
from tilesmith.te.schedule.relations import (
    Fuse,
    IterVarRelation,
    Rebase,
    Singleton,
    Split,
    Transform,
)
from tilesmith.te.schedule.schedule import Schedule, create_schedule
from tilesmith.te.schedule.schedule_ops import schedule_ops
from tilesmith.te.schedule.specialized_condition import SpecializedCondition
from tilesmith.te.schedule.stage import AttachType, Stage
from tilesmith.te.schedule.tensor_core import schedule_post_proc_rewrite_for_tensor_core
from tilesmith.tir.index_map import IndexMap

AXIS_SEPARATOR = IndexMap.AXIS_SEPARATOR
AutoInlineBroadcast = auto_inline_broadcast
AutoInlineElemWise = auto_inline_element_wise
AutoInlineInjective = auto_inline_injective
CreateAttachPath = create_attach_path
CreateReadGraph = create_read_graph
InferBound = infer_bound
PostDFSOrder = post_dfs_order
ScheduleOps = schedule_ops
SchedulePostProcRewriteForTensorCore = schedule_post_proc_rewrite_for_tensor_core
SchedulePostProcToPrimFunc = schedule_post_proc_to_prim_func
VerifyCompactBuffer = verify_compact_buffer

__all__ = [
    "AXIS_SEPARATOR", "AttachType", "AutoInlineBroadcast", "AutoInlineElemWise",
    "AutoInlineInjective", "CreateAttachPath", "CreateReadGraph", "Fuse", "InferBound",
    "IterVarRelation", "PostDFSOrder", "Rebase", "Schedule", "ScheduleOps",
    "SchedulePostProcRewriteForTensorCore", "SchedulePostProcToPrimFunc", "Singleton",
    "SpecializedCondition", "Split", "Stage", "Transform", "VerifyCompactBuffer",
    "auto_inline_broadcast", "auto_inline_element_wise", "auto_inline_injective",
    "create_attach_path", "create_read_graph", "create_schedule", "infer_bound", "post_dfs_order",
    "schedule_ops", "schedule_post_proc_rewrite_for_tensor_core",
    "schedule_post_proc_to_prim_func", "verify_compact_buffer",
]  # fmt: skip

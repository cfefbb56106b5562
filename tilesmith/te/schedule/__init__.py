"""Classic schedules of tensor expressions: ``create_schedule``, its stages and their loops."""

from tilesmith.te.schedule.bounds import infer_bound
from tilesmith.te.schedule.graph import create_read_graph, post_dfs_order
from tilesmith.te.schedule.placement import create_attach_path
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
from tilesmith.te.schedule.stage import AttachType, Stage
from tilesmith.tir.index_map import IndexMap

AXIS_SEPARATOR = IndexMap.AXIS_SEPARATOR
CreateReadGraph = create_read_graph
PostDFSOrder = post_dfs_order
CreateAttachPath = create_attach_path
InferBound = infer_bound
ScheduleOps = schedule_ops

__all__ = [
    "AXIS_SEPARATOR", "AttachType", "CreateAttachPath", "CreateReadGraph", "Fuse", "InferBound",
    "IterVarRelation", "PostDFSOrder", "Rebase", "Schedule", "ScheduleOps", "Singleton", "Split",
    "Stage", "Transform", "create_attach_path", "create_read_graph", "create_schedule",
    "infer_bound", "post_dfs_order", "schedule_ops",
]  # fmt: skip

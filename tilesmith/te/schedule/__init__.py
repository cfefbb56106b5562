"""Classic schedules of tensor expressions: ``create_schedule``, its stages and their loops."""

from tilesmith.te.schedule.graph import create_read_graph, post_dfs_order
from tilesmith.te.schedule.relations import (
    Fuse,
    IterVarRelation,
    Rebase,
    Singleton,
    Split,
    Transform,
)
from tilesmith.te.schedule.schedule import Schedule, create_schedule
from tilesmith.te.schedule.stage import AttachType, Stage
from tilesmith.tir.index_map import IndexMap

AXIS_SEPARATOR = IndexMap.AXIS_SEPARATOR
CreateReadGraph = create_read_graph
PostDFSOrder = post_dfs_order

__all__ = [
    "AXIS_SEPARATOR", "AttachType", "CreateReadGraph", "Fuse", "IterVarRelation", "PostDFSOrder",
    "Rebase", "Schedule", "Singleton", "Split", "Stage", "Transform", "create_read_graph",
    "create_schedule", "post_dfs_order",
]  # fmt: skip

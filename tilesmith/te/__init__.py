"""Tensor expressions: describe each element of a tensor, then make a PrimFunc."""

from tilesmith.te.create_prim_func import create_prim_func
from tilesmith.te.operation import (
    compute,
    extern,
    extern_primfunc,
    placeholder,
    reduce_axis,
    size_var,
    thread_axis,
    var,
)
from tilesmith.te.schedule import Schedule, Stage, create_schedule
from tilesmith.te.tag import TagScope, tag_scope
from tilesmith.te.tensor import (
    BaseComputeOp,
    ComputeOp,
    ExternOp,
    Operation,
    PlaceholderOp,
    ScanOp,
    Tensor,
    TensorSlice,
)
from tilesmith.tir import *  # noqa: F403
from tilesmith.tir import const
from tilesmith.tir.index_map import IndexMap

AXIS_SEPARATOR = IndexMap.AXIS_SEPARATOR
"""Between the indices that an index map returns: a border between groups of axes."""

__all__ = [
    "AXIS_SEPARATOR", "BaseComputeOp", "ComputeOp", "ExternOp", "Operation", "PlaceholderOp",
    "ScanOp", "Schedule", "Stage", "TagScope", "Tensor", "TensorSlice", "compute", "const",
    "create_prim_func", "create_schedule", "extern", "extern_primfunc", "placeholder",
    "reduce_axis", "size_var", "tag_scope", "thread_axis", "var",
]  # fmt: skip

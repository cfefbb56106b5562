"""Tensor expressions: describe each element of a tensor, then make a PrimFunc."""

from typing import TYPE_CHECKING

from tilesmith.support.lazy import lazy_attributes
from tilesmith.te.create_prim_func import create_prim_func
from tilesmith.te.operation import (
    compute,
    extern,
    extern_primfunc,
    placeholder,
    reduce_axis,
    scan,
    size_var,
    thread_axis,
    var,
)
from tilesmith.te.tag import TagScope, tag_scope
from tilesmith.te.tensor import (
    BaseComputeOp,
    ComputeOp,
    ExternOp,
    HybridOp,
    Operation,
    PlaceholderOp,
    ScanOp,
    Tensor,
    TensorComputeOp,
    TensorSlice,
)
from tilesmith.te.tensor_intrin import TensorIntrin, TensorIntrinCall, decl_tensor_intrin
from tilesmith.tir import *  # noqa: F403
from tilesmith.tir import const
from tilesmith.tir.index_map import IndexMap

if TYPE_CHECKING:
    from tilesmith.te import hybrid, schedule
    from tilesmith.te.autodiff import gradient
    from tilesmith.te.schedule import Schedule, SpecializedCondition, Stage, create_schedule

# Whole models need no classic schedules: what is only for these loads when it is first used.
_LAZY = {
    "Schedule": "tilesmith.te.schedule:Schedule",
    "SpecializedCondition": "tilesmith.te.schedule:SpecializedCondition",
    "Stage": "tilesmith.te.schedule:Stage",
    "create_schedule": "tilesmith.te.schedule:create_schedule",
    "gradient": "tilesmith.te.autodiff:gradient",
    "hybrid": "tilesmith.te.hybrid",
    "schedule": "tilesmith.te.schedule",
}
globals().pop("schedule", None)  # the star brings the schedules of blocks under this name

__getattr__, __dir__ = lazy_attributes(__name__, _LAZY)

AXIS_SEPARATOR = IndexMap.AXIS_SEPARATOR
"""Between the indices that an index map returns: a border between groups of axes."""

__all__ = [
    "AXIS_SEPARATOR", "BaseComputeOp", "ComputeOp", "ExternOp", "HybridOp", "Operation",
    "PlaceholderOp", "ScanOp", "Schedule", "SpecializedCondition", "Stage", "TagScope", "Tensor",
    "TensorComputeOp", "TensorIntrin", "TensorIntrinCall", "TensorSlice", "compute", "const",
    "create_prim_func", "create_schedule", "decl_tensor_intrin", "extern", "extern_primfunc",
    "gradient", "hybrid", "placeholder", "reduce_axis", "scan", "schedule", "size_var", "tag_scope",
    "thread_axis", "var",
]  # fmt: skip

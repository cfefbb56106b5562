"""TensorIR: statements, buffers, functions, their analysis, transformation and interpretation."""

from tilesmith.ir.expr import *  # noqa: F403
from tilesmith.ir.op import CallEffectKind
from tilesmith.ir.operators import literal as const
from tilesmith.support.lazy import lazy_attributes
from tilesmith.tir import reduction_rules
from tilesmith.tir.buffer import *  # noqa: F403
from tilesmith.tir.expr import *  # noqa: F403
from tilesmith.tir.function import *  # noqa: F403
from tilesmith.tir.functor import ir_transform, post_order_visit, pre_order_visit, substitute
from tilesmith.tir.op import *  # noqa: F403
from tilesmith.tir.stmt import *  # noqa: F403
from tilesmith.tir.stmt import sequence as stmt_seq

__getattr__, __dir__ = lazy_attributes(
    __name__,
    {
        "Any": "tilesmith.tir.unknown:Any",
        "BijectiveLayout": "tilesmith.tir.data_layout:BijectiveLayout",
        "BlockDependenceInfo": "tilesmith.tir.schedule.block_dependence_info:BlockDependenceInfo",
        "BlockScope": "tilesmith.tir.analysis:BlockScope",
        "IndexMap": "tilesmith.tir.index_map:IndexMap",
        "Layout": "tilesmith.tir.data_layout:Layout",
        "MemoryInfo": "tilesmith.tir.transform.storage.memory_info:MemoryInfo",
        "Schedule": "tilesmith.tir.schedule:Schedule",
        "ScheduleDebugMask": "tilesmith.tir.schedule:ScheduleDebugMask",
        "ScheduleError": "tilesmith.support.errors:ScheduleError",
        "ScheduleState": "tilesmith.tir.schedule:ScheduleState",
        "StmtSRef": "tilesmith.tir.schedule:StmtSRef",
        "TensorIntrin": "tilesmith.tir.tensor_intrin:TensorIntrin",
        "analysis": "tilesmith.tir.analysis",
        "bijective_layout": "tilesmith.tir.data_layout:bijective_layout",
        "interpreter": "tilesmith.tir.interpreter",
        "ir_builder": "tilesmith.tir.ir_builder",
        "layout": "tilesmith.tir.data_layout:layout",
        "schedule": "tilesmith.tir.schedule",
        "stmt_functor": "tilesmith.tir.stmt_functor",
        "transform": "tilesmith.tir.transform",
        "usmp": "tilesmith.tir.usmp",
    },
)

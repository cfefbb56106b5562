"""Schedules: rewrite TensorIR programs by checked primitives."""

from tilesmith.support.lazy import lazy_attributes
from tilesmith.tir.schedule.schedule import BlockRV, ExprRV, LoopRV, Schedule, ScheduleError
from tilesmith.tir.schedule.sizes import get_size_var
from tilesmith.tir.schedule.state import ScheduleDebugMask, ScheduleState, StmtSRef
from tilesmith.tir.schedule.trace import Instruction, InstructionKind, Trace

__all__ = [
    "BlockRV", "ExprRV", "Instruction", "InstructionKind", "LoopRV", "Schedule",
    "ScheduleDebugMask", "ScheduleError", "ScheduleState", "StmtSRef", "Trace", "analysis",
    "get_size_var", "transform",
]  # fmt: skip

__getattr__, __dir__ = lazy_attributes(
    __name__, {name: f"tilesmith.tir.schedule.{name}" for name in ("analysis", "transform")}
)

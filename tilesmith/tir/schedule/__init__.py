"""Schedules of TensorIR programs."""

from tilesmith.tir.schedule import analysis
from tilesmith.tir.schedule.schedule import BlockRV, ExprRV, LoopRV, Schedule, ScheduleError
from tilesmith.tir.schedule.state import ScheduleDebugMask, ScheduleState, StmtSRef
from tilesmith.tir.schedule.trace import Instruction, InstructionKind, Trace

__all__ = [
    "BlockRV", "ExprRV", "Instruction", "InstructionKind", "LoopRV", "Schedule",
    "ScheduleDebugMask", "ScheduleError", "ScheduleState", "StmtSRef", "Trace", "analysis",
]  # fmt: skip

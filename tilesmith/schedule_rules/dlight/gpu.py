"""Rules for GPUs as objects. ``Fallback`` takes every function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from tilesmith.schedule_rules import gpu
from tilesmith.schedule_rules.default_gpu_schedule import default_gpu_schedule
from tilesmith.schedule_rules.dlight.base import ScheduleRule
from tilesmith.schedule_rules.gpu import facts
from tilesmith.target import Target
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.schedule import Schedule

__all__ = ["GEMV", "Fallback", "GeneralReduction", "Matmul", "RMSNorm", "Reduction", "Transpose"]


class GPUScheduleRule(ScheduleRule):
    """A rule for targets with threads, made of functions ``(sch, target) -> sch or None``."""

    ways: ClassVar[tuple[Callable[[Schedule, Target], Schedule | None], ...]] = ()

    def is_target_available(self, target: Target) -> bool:
        """Return whether the target has threads."""
        return "gpu" in target.keys

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> Any:
        """Return the schedule of ``func``, or None."""
        if not self.is_target_available(target):
            return None
        return gpu.first_rule(func, target, self.ways)


class GEMV(GPUScheduleRule):
    """Products of a matrix and a vector."""

    ways = (gpu.gemv,)


class Matmul(GPUScheduleRule):
    """Products of matrices, and what is computed from each of their elements."""

    ways = (gpu.matmul,)


class Reduction(GPUScheduleRule):
    """Reductions that read their inputs once, and elementwise blocks."""

    ways = (gpu.reduction,)


class GeneralReduction(GPUScheduleRule):
    """Chains of reductions over rows: softmax, layer norm."""

    ways = (gpu.general_reduction,)


class RMSNorm(GPUScheduleRule):
    """Normalisation by the root of the mean square: such a chain."""

    ways = (gpu.general_reduction,)


class Transpose(GPUScheduleRule):
    """Elementwise functions, transposes among them."""

    ways = (gpu.elementwise,)


class Fallback(GPUScheduleRule):
    """Elementwise functions, and any other with the loops over results spread over threads."""

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> Any:
        """Return the schedule of ``func``; None for targets without threads."""
        if not self.is_target_available(target):
            return None
        found = gpu.first_rule(func, target, (gpu.elementwise,))
        return found or Schedule(default_gpu_schedule(func, facts.thread_limit(target)))

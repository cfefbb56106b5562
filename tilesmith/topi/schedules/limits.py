"""What the current target allows: lanes of vectors on CPUs, threads of blocks on GPUs."""

from __future__ import annotations

from dataclasses import dataclass

from tilesmith.target import MachineModel, Target, machine_model
from tilesmith.target.gpu_machine import max_threads_per_block

__all__ = ["ThreadLimits", "cpu_machine", "thread_limits"]


def cpu_machine() -> MachineModel:
    """Return the model of the current target if it is a CPU, else that of this machine."""
    target = Target.current(allow_none=True)
    if target is None or "gpu" in target.keys:
        target = Target("llvm")
    return machine_model(target)


@dataclass(frozen=True)
class ThreadLimits:
    """How many threads a GPU runs together, and how much memory they share."""

    threads: int
    """The most threads of a block."""
    warp: int
    """Threads that run in lockstep."""
    shared: int
    """Bytes of memory that a block shares."""


def thread_limits() -> ThreadLimits:
    """Return the limits of the current target if it is a GPU, else those that all GPUs keep."""
    target = Target.current(allow_none=True)
    if target is None or "gpu" not in target.keys:
        return ThreadLimits(256, 1, 48 * 1024)
    attributes = target.attrs
    return ThreadLimits(
        max_threads_per_block(target),
        max(1, int(attributes.get("thread_warp_size") or 1)),
        int(attributes.get("max_shared_memory_per_block") or 48 * 1024),
    )

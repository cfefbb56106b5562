"""Starts the workers of a compilation: before anything else, since they load while this process
reads the model. So this module imports little.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tilesmith.support.knobs import knobs
from tilesmith.support.workers import WorkerPool

if TYPE_CHECKING:
    from tilesmith.target import Target

__all__ = ["FEWEST_FOR_WORKERS", "start_workers"]

FEWEST_FOR_WORKERS = 3  # with fewer kernels, starting a worker costs more than it saves

_SINGLE = {"OPENBLAS_NUM_THREADS": "1"}
"""A worker multiplies no matrices: the threads that numpy starts for that would only spin."""

_pool: WorkerPool | None = None


def start_workers(target: Target) -> WorkerPool | None:
    """Start the pool of workers at first use; return None on a machine with one core.

    Workers warm up with a small kernel for ``target``; afterwards they compile for any target.
    """
    global _pool
    count = len(os.sched_getaffinity(0)) if knobs.workers is None else knobs.workers
    if count < 2:
        return None
    if _pool is None:
        _pool = WorkerPool("tilesmith.driver.worker", count, [str(target)], _SINGLE)
    return _pool

"""Barriers in shared memory (``mbarrier``) of a block of threads.

A barrier is in a phase until as many threads have arrived as it waits for, and as many bytes as
were announced. Copies that are bound to it have arrived then, and a thread that waits for the phase
finds their data. Who waits names the phase by its parity: that of how often it has waited so far.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir.span import Span
from tilesmith.support.errors import ExecutionError
from tilesmith.tir.interpreter.frame import CONTEXT_SLOT, THREAD_SLOT
from tilesmith.tir.interpreter.values import Environment

__all__ = ["SharedBarrier", "barrier_of", "set_up_barrier"]


class SharedBarrier:
    """One barrier: whom it waits for in its present phase, and how many phases are over."""

    __slots__ = ("announced", "arrived", "brought", "copies", "landed", "phases", "wanted")

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.arrived = self.announced = self.brought = self.phases = 0
        self.copies: list[Callable[[], None]] = []
        self.landed: list[Callable[[], None]] = []  # of phases that are over; nobody has waited

    def arrive(self, nbytes: int = 0) -> None:
        """Count a thread that has arrived, and bytes that it announces."""
        self.arrived += 1
        self.announced += nbytes
        self.advance()

    def bind(self, copies: list[Callable[[], None]], nbytes: int = 0) -> None:
        """Let the end of a phase carry out copies, which bring bytes that are announced."""
        self.copies += copies
        self.brought += nbytes
        self.advance()

    def advance(self) -> None:
        """Begin the next phase if all have arrived."""
        if self.arrived == self.wanted and self.announced == self.brought:
            self.landed += self.copies
            self.copies = []
            self.arrived = self.announced = self.brought = 0
            self.phases += 1

    def is_over(self, waited: int) -> bool:
        """Return whether the phase is over for which a thread waits that has waited so often."""
        return bool((self.phases ^ waited) & 1)

    def missing(self) -> str:
        """Return what the present phase waits for."""
        text = f"{self.arrived} of {self.wanted} arrivals"
        if self.announced != self.brought:
            text += f", {self.brought} of {self.announced} announced bytes"
        return text

    def wait(self, waited: int, number: int, env: Environment, span: Span | None) -> None:
        """Show the data of the phase that a thread waits for, after it has waited so often before.
        Raises ExecutionError if the phase does not end.
        """
        if not self.is_over(waited):
            raise ExecutionError(
                f"thread {env[THREAD_SLOT].describe()} waits forever at barrier {number}: "
                f"{self.missing()}",
                span=span,
            )
        for finish in self.landed:
            finish()
        self.landed = []


def set_up_barrier(env: Environment, number: int, wanted: int) -> None:
    """Make a barrier of a thread's block."""
    env[CONTEXT_SLOT].arrivals[(env[THREAD_SLOT].block, number)] = SharedBarrier(wanted)


def barrier_of(env: Environment, number: int) -> SharedBarrier:
    """Return a barrier of a thread's block. Raises ExecutionError for one that is not set up."""
    found: Any = env[CONTEXT_SLOT].arrivals.get((env[THREAD_SLOT].block, number))
    if found is None:
        raise ExecutionError(
            f"barrier {number} is used before ptx_init_barrier_thread_count has set it up"
        )
    barrier: SharedBarrier = found
    return barrier

"""Barriers in shared memory (``mbarrier``) of a block of threads.

A barrier is in a phase until as many threads have arrived as it waits for, and as many bytes as
were announced. Copies that are bound to it have arrived then, and a thread that waits for the phase
finds their data. Who waits names the phase by its parity: that of how often it has waited so far.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.support.errors import ExecutionError
from tilesmith.tir.interpreter.frame import CONTEXT_SLOT, THREAD_SLOT
from tilesmith.tir.interpreter.happens_before import Phases
from tilesmith.tir.interpreter.values import Environment

__all__ = ["SharedBarrier", "barrier_of", "set_up_barrier"]


class SharedBarrier:
    """One barrier: whom it waits for in its present phase, and how many phases are over."""

    __slots__ = (
        "announced", "arrived", "brought", "copies", "landed", "order", "phases", "wanted",
    )  # fmt: skip

    def __init__(self, wanted: int, order: Phases | None = None) -> None:
        self.wanted = wanted
        self.order = order  # what its phases order, where races are looked for
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
            if self.order is not None:
                self.order.end()

    def is_over(self, waited: int) -> bool:
        """Return whether the phase is over for which a thread waits that has waited so often."""
        return bool((self.phases ^ waited) & 1)

    def waits_forever(self, who: str, number: int, waited: int) -> str:
        """Return the message on threads that wait for a phase which does not end."""
        text = f"{who} waits forever at barrier {number} for phase {waited}: "
        if self.phases != waited:
            text += f"the barrier is in phase {self.phases}, which has "
        text += f"{self.arrived} of {self.wanted} arrivals"
        if self.announced != self.brought:
            text += f", {self.brought} of {self.announced} announced bytes"
        return text

    def land(self) -> None:
        """Show the data of the phases that are over."""
        for finish in self.landed:
            finish()
        self.landed = []


def set_up_barrier(env: Environment, number: int, wanted: int) -> None:
    """Make a barrier of a thread's block."""
    context, thread = env[CONTEXT_SLOT], env[THREAD_SLOT]
    order = None if context.watch is None else context.watch.phases_of(thread, number)
    context.arrivals[(thread.block, number)] = SharedBarrier(wanted, order)


def barrier_of(env: Environment, number: int) -> SharedBarrier:
    """Return a barrier of a thread's block. Raises ExecutionError for one that is not set up."""
    found: Any = env[CONTEXT_SLOT].arrivals.get((env[THREAD_SLOT].block, number))
    if found is None:
        raise ExecutionError(
            f"barrier {number} is used before ptx_init_barrier_thread_count has set it up"
        )
    barrier: SharedBarrier = found
    return barrier

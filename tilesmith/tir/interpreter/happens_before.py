"""Knows which accesses of a block come before which, where barriers in shared memory order some of
its threads and not others.

Vector clocks: each thread counts how often it has let go of what it did before (it arrived at a
barrier, or waited with its warp), and knows up to which count it has seen what every other thread
did. A barrier gathers what those who arrive have seen, and hands it to those who wait for that
phase. An access is noted with the count of its thread; whoever has seen that count comes after it.

What works in the background counts as a thread of its own: the copies that are bound to a barrier,
whose data is seen by those who wait for it; the products of a warpgroup (``ptx_wgmma``), whose
reads are over for those who wait for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.tir.warpgroup_products import WARPGROUP

__all__ = ["Order", "Phases"]

_BARRIERS = 64  # of a kernel, at most


class Phases:
    """What a barrier hands on: gathered so far, and by the phases that are over."""

    def __init__(self, order: Order, unit: int) -> None:
        self.order = order
        self.unit = unit  # of the copies that are bound to it
        self.gathered = numpy.zeros(len(order.times), numpy.int32)
        self.over: list[numpy.ndarray] = []

    def end(self) -> None:
        """End a phase: its copies have arrived."""
        times = self.order.times
        self.gathered[self.unit] = times[self.unit]
        times[self.unit] += 1
        self.over.append(self.gathered.copy())


class Order:
    """The order of the accesses of one block. ``times``: the present count of each thread, of the
    copies of each barrier and of the products of each warpgroup; ``seen``: a row for each thread.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.warpgroups = -(-threads // WARPGROUP)
        self.times = numpy.ones(threads + _BARRIERS + self.warpgroups, numpy.int32)
        self.seen = numpy.zeros((threads, len(self.times)), numpy.int32)
        self.events = 0  # changes whenever the order does
        self.committed: list[list[int]] = [[] for _ in range(self.warpgroups)]
        everyone = numpy.arange(threads)
        self.seen[everyone, everyone] = 1

    def phases_of(self, barrier: int) -> Phases:
        """Return what a barrier that is set up hands on: nothing yet."""
        return Phases(self, self.threads + barrier % _BARRIERS)

    def arrive(self, threads: Any, phases: Phases) -> None:
        """Hand what threads have done and seen to those who wait for the present phase."""
        numpy.maximum(phases.gathered, self.seen[threads].max(0), out=phases.gathered)
        self._let_go(threads)

    def wait(self, threads: Any, phases: Phases, number: int) -> None:
        """Let threads see what those have done who arrived up to a phase. That others have ended
        more phases meanwhile is chance, and orders nothing."""
        if phases.over:
            row = phases.over[min(number, len(phases.over) - 1)]
            self.seen[threads] = numpy.maximum(self.seen[threads], row)
        self.events += 1

    def meet(self, threads: Any) -> None:
        """Let threads (of a warp) see what each of them has done and seen."""
        self.seen[threads] = self.seen[threads].max(0)
        self._let_go(threads)

    def _let_go(self, threads: Any) -> None:
        self.times[threads] += 1
        self.seen[threads, threads] = self.times[threads]
        self.events += 1

    def is_before(self, others: Any, times: Any, threads: Any) -> Any:
        """Return whether accesses of ``others`` at their ``times`` come before what ``threads`` do
        now."""
        return self.seen[threads, others] >= times

    # Products of warpgroups.

    def products_of(self, warpgroup: Any) -> Any:
        """Return the number under which the products of a warpgroup read."""
        return self.threads + _BARRIERS + warpgroup

    def commit_products(self, warpgroup: int) -> None:
        """Close a group of products."""
        unit = self.products_of(warpgroup)
        self.committed[warpgroup].append(int(self.times[unit]))
        self.times[unit] += 1
        self.events += 1

    def wait_for_products(self, threads: Any, warpgroup: int, pending: int) -> None:
        """Let threads of a warpgroup see that all groups but the newest have ended."""
        over = self.committed[warpgroup][: len(self.committed[warpgroup]) - pending]
        if over:
            self.seen[threads, self.products_of(warpgroup)] = over[-1]
        self.events += 1

    def describe(self, unit: int, thread_text: Callable[[int], str]) -> str:
        """Return who made an access, for messages."""
        if unit < self.threads:
            return f"thread {thread_text(unit)}"
        number = unit - self.threads
        if number < _BARRIERS:
            return f"a copy bound to barrier {number}"
        return f"a product of warpgroup {number - _BARRIERS} (ptx_wgmma)"

"""Asynchronous copies of a block: what is in flight, group by group, for each thread.

As in the interpreter's ``async_copies``: the source is read when a copy begins, the destination is
there when the thread that began it waits. Until then its elements are marked as pending: no thread
may read them. They hold what will arrive, so that other writes can be compared with it.
"""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.tir.interpreter.frame import CONTEXT_SLOT, THREAD_SLOT
from tilesmith.tir.interpreter.lockstep.accesses import flags_of, put, put_seen, where_of
from tilesmith.tir.interpreter.lockstep.memory import Memory
from tilesmith.tir.interpreter.lockstep.observers import Site
from tilesmith.tir.interpreter.lockstep.state import Group, State, granules
from tilesmith.tir.interpreter.shared_barriers import SharedBarrier
from tilesmith.tir.interpreter.values import Environment

__all__ = ["PTX_QUEUE", "BlockCopies"]

PTX_QUEUE = "ptx"


class _Copy:
    """One copy statement: what each thread that began it moves, and the group that it belongs to
    (-1: none yet)."""

    def __init__(
        self, site: Site, memory: Memory, ids: Any, position: Any, values: Any, kind: Any,
        defined: Any,
    ) -> None:  # fmt: skip
        self.site = site
        self.memory = memory
        self.ids = ids
        self.position = position
        self.values = values
        self.kind = kind
        self.defined = defined  # which elements of the source held a value; None: all
        self.queue: Any = None
        self.group = numpy.full(len(ids), -1, numpy.int64)


class BlockCopies:
    """The copies that the threads of a block have begun and not waited for."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.flying: list[_Copy] = []
        self.committed: dict[Any, numpy.ndarray] = {}

    def begin(
        self, env: Environment, site: Site, memory: Memory, ids: Any, position: Any, values: Any,
        kind: Any, defined: Any = None, actors: Any = None,
    ) -> None:  # fmt: skip
        """Begin copies: ``position`` are elements of ``kind``, by thread (and lane). ``defined``:
        which of the values were ever written (None: all). ``actors``: see ``State.accessed``."""
        state: State = env[CONTEXT_SLOT]
        size = numpy.dtype(kind).itemsize
        self.flying.append(_Copy(site, memory, ids, position, values, kind, defined))
        group: Group = env[THREAD_SLOT]
        if memory.space in ("shared", "global"):
            same = put_seen(memory, numpy.dtype(kind), position, group, values)
            state.accessed(
                site, memory, group, position, size, True, same, is_async=True, actors=actors
            )  # fmt: skip
        where = where_of(memory, position, size, group)
        memory.in_flight()[where] = True
        memory.written(where, False)

    def commit(self, ids: Any, queue: Any) -> None:
        """Close the group of the copies that these threads have begun."""
        counts = self.committed.setdefault(queue, numpy.zeros(self.threads, numpy.int64))
        active = self._flags(ids)
        for copy in self.flying:
            chosen = active[copy.ids] & (copy.group < 0)
            copy.group[chosen] = counts[copy.ids[chosen]]
            copy.queue = queue if chosen.any() else copy.queue
        counts[ids] += 1

    def attach(self, state: State, ids: Any, number: int, barrier: SharedBarrier) -> None:
        """Let the present phase of a barrier in shared memory stand for the copies that these
        threads have begun."""
        active = self._flags(ids)
        for copy in self.flying:
            chosen = active[copy.ids] & (copy.group < 0)
            if not chosen.any():
                continue
            copy.group[chosen] = barrier.phases
            copy.queue = ("barrier", number)
            if barrier.order is not None and copy.memory.space in ("shared", "global"):
                size = numpy.dtype(copy.kind).itemsize
                at = granules(copy.position[chosen], size, copy.memory.granule).reshape(-1)
                actors = numpy.full(len(at), barrier.order.unit)
                shadow = copy.memory.shadow_of(copy.memory.space == "global")
                shadow.writes.put(at, actors, state.clock, copy.site.number)

    def complete(self, env: Environment, barrier: int, phases: int) -> None:
        """Carry out the copies that any thread has attached to the phases of a barrier that are
        over: so many."""
        kept = []
        for copy in self.flying:
            done = (copy.group >= 0) & (copy.group < phases)
            if copy.queue != ("barrier", barrier) or not done.any():
                kept.append(copy)
            elif self._partly(env, copy, done):
                kept.append(copy)
        self.flying = kept

    def wait(self, env: Environment, queue: Any, pending: Any) -> None:
        """Carry out the groups of the active threads but the newest ``pending`` ones."""
        counts = self.committed.get(queue)
        if counts is None:
            return
        active = self._flags(env[THREAD_SLOT].ids)
        left = numpy.broadcast_to(pending, (env[THREAD_SLOT].count,))
        last = numpy.zeros(self.threads, numpy.int64)
        last[env[THREAD_SLOT].ids] = left
        kept = []
        for copy in self.flying:
            done = active[copy.ids] & (copy.group >= 0)
            done &= copy.group < counts[copy.ids] - last[copy.ids]
            if copy.queue != queue or not done.any():
                kept.append(copy)
                continue
            if self._partly(env, copy, done):
                kept.append(copy)
        self.flying = kept

    def _partly(self, env: Environment, copy: _Copy, done: Any) -> bool:
        """Carry out the copies of some threads; return whether some are left."""
        self._arrive(env[CONTEXT_SLOT], copy, done, env[THREAD_SLOT].warp_size)
        if done.all():
            return False
        rest = ~done
        copy.ids, copy.position = copy.ids[rest], copy.position[rest]
        copy.values, copy.group = copy.values[rest], copy.group[rest]
        copy.defined = None if copy.defined is None else copy.defined[rest]
        return True

    def _flags(self, ids: Any) -> Any:
        active = numpy.zeros(self.threads, numpy.bool_)
        active[ids] = True
        return active

    def _arrive(self, state: State, copy: _Copy, done: Any, warp_size: int) -> None:
        memory, position, ids = copy.memory, copy.position[done], copy.ids[done]
        group = Group(ids, len(ids) == self.threads, warp_size)
        kind, values = numpy.dtype(copy.kind), copy.values[done]
        size = kind.itemsize
        where = where_of(memory, position, size, group)
        memory.in_flight()[where] = False
        flags: Any = True
        if copy.defined is not None:
            flags = flags_of(copy.defined[done], position, size, memory)
        memory.written(where, flags)
        if memory.space not in ("shared", "global"):
            put(memory, kind, position, group, values)
            return
        if isinstance(copy.queue, tuple):  # bound to a barrier, and recorded as its copy
            put(memory, kind, position, group, values)
            return
        same = put_seen(memory, kind, position, group, values)
        observers, state.observers = state.observers, ()  # it has been counted
        state.accessed(copy.site, memory, group, position, size, True, same)
        state.observers = observers

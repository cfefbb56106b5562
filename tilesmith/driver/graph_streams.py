"""Lets the independent branches of a graph function run at once, on several streams of a device.

    a = conv(x, w)      stream 0: conv                        event 1 behind it
    b = exp(x)          stream 1: waits for event 0, exp      event 2 behind it
    c = add(a, b)       stream 0: waits for event 2, add

Stream 0 is that of the caller: event 0 is its state when the function begins, and in the end it
waits for all others, so that callers see no difference. Calls are given to the device in the order
of the program. Two of them are ordered by the streams where they touch the same memory and one of
them writes to it; and memory is lent to another tensor only where the order that the streams and
events make anyway says that all uses of the first one are over (`StreamPlan.precedes`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tilesmith.driver.graph_steps import Step, packed_call
from tilesmith.driver.memory_plan import Storage
from tilesmith.ir import Var, const
from tilesmith.ir.pass_context import PassContext
from tilesmith.relax.transform.options import STREAMS
from tilesmith.support.errors import ConfigError, UnsupportedError
from tilesmith.target import Target
from tilesmith.target.back_end import back_end_of
from tilesmith.tir import Evaluate, Stmt, stmt_seq

__all__ = ["StreamPlan", "identity", "plan_streams", "stream_count"]

_MOST = 32


def stream_count(target: Target) -> int:
    """Return how many streams of the target's devices a model may use, by the pass option
    `relax.device_streams`. Raises UnsupportedError for more than one where there are none.
    """
    count = int(PassContext.current().get_config(STREAMS))
    if not 1 <= count <= _MOST:
        raise ConfigError(f"the pass option '{STREAMS}' is a number from 1 to {_MOST}, "
                          f"got {count}")  # fmt: skip
    if count > 1 and not back_end_of(target).is_device:
        raise UnsupportedError(
            f"the target '{target.kind.name}' has no streams, and the pass option '{STREAMS}' "
            f"asks for {count}",
            notes=("leave the option out: kernels of the host share their work among threads",),
        )
    return count


@dataclass
class _Place:
    """Where the work of a step is done: on a stream, behind events."""

    stream: int
    position: int
    clock: list[int]
    """How much of each stream is over when the step begins; of its own, with itself."""
    waits: list[int] = field(default_factory=list)
    finish: int = 0


@dataclass
class StreamPlan:
    """The streams of the steps of a function."""

    places: list[_Place | None]
    """Of each step; None for those that give no work to the device."""
    events: dict[int, int]
    """The number of a step (-1: the begin) → the number of the event behind it."""
    last_waits: list[int]
    """The events that stream 0 waits for in the end."""

    @property
    def count(self) -> int:
        """The number of streams that are used."""
        return 1 + max([place.stream for place in self.places if place is not None], default=0)

    def precedes(self, before: int, after: int) -> bool:
        """Return whether one step is over when another begins, whatever the device does first."""
        first, second = self.places[before], self.places[after]
        if first is None or second is None:
            return before < after
        return before != after and second.clock[first.stream] >= first.position

    def stream_of(self, step: int) -> int | None:
        """Return the stream of a step; None where it gives no work to the device."""
        place = self.places[step]
        return None if place is None else place.stream

    def apply(self, steps: Sequence[Step], running: Var) -> list[Step]:
        """Return the steps with the calls of the runtime that choose streams and mark events;
        ``running`` is the number of the running call.
        """
        if self.count == 1:
            return list(steps)
        made: list[Step] = []
        current = 0
        for number, (step, place) in enumerate(zip(steps, self.places)):
            before: list[Stmt] = []
            after: list[Stmt] = []
            if number == 0 and -1 in self.events:
                before.append(_record(running, self.events[-1]))
            if place is not None:
                if place.stream != current or place.waits:
                    before.append(_use(running, place.stream, place.waits))
                current = place.stream
                if number in self.events:
                    after.append(_record(running, self.events[number]))
            made.append(_between(before, step, after) if before or after else step)
        made.append(Step(partial(_use, running, 0, self.last_waits)))
        return made

    def described(self, steps: Sequence[Step]) -> dict[str, Any]:
        """Return what the runtime has to know, and the order of the work for those who look."""
        if self.count == 1:
            return {}
        order = ["stream 0: event 0"] if -1 in self.events else []
        for number, (step, place) in enumerate(zip(steps, self.places)):
            if place is not None:
                order += [f"stream {place.stream}: wait for event {one}" for one in place.waits]
                order.append(f"stream {place.stream}: {step.name}")
                if number in self.events:
                    order.append(f"stream {place.stream}: event {self.events[number]}")
        order += [f"stream 0: wait for event {one}" for one in self.last_waits]
        return {"streams": {"count": self.count, "events": len(self.events), "order": order}}


def _use(running: Var, stream: int, events: Sequence[int]) -> Stmt:
    words = [const(number, "int64") for number in (stream, *events)]
    return Evaluate(packed_call("int32", "tilesmith.runtime.use_stream", running, *words))


def _record(running: Var, event: int) -> Stmt:
    word = const(event, "int64")
    return Evaluate(packed_call("int32", "tilesmith.runtime.record_event", running, word))


def _between(before: Sequence[Stmt], step: Step, after: Sequence[Stmt]) -> Step:
    """Return a step with statements before and after it."""
    emit, bind = step.emit, step.bind

    def emit_all() -> Stmt:
        inner = [] if emit is None else [emit()]
        return stmt_seq(*before, *inner, *after)

    def bind_all(rest: Stmt) -> Stmt:
        assert bind is not None
        return stmt_seq(*before, bind(stmt_seq(*after, rest)))

    if bind is None:
        return replace(step, emit=emit_all)
    return replace(step, bind=bind_all)


def identity(
    inputs: Collection[Storage], overwritten: set[Storage]
) -> Callable[[Storage], Hashable]:
    """Return what tells memory apart: callers may give the same tensor for several inputs, which
    matters where one of them is overwritten.
    """
    if overwritten.isdisjoint(inputs):
        return id
    return lambda storage: "inputs" if storage in inputs else id(storage)


def plan_streams(
    steps: Sequence[Step], most: int, identity_of: Callable[[Storage], Hashable]
) -> StreamPlan:
    """Give each step that works on the device one of at most ``most`` streams, and find the events
    that order them. Storages of one identity may be the same memory.
    """
    planner = _Planner(most)
    uses: dict[Hashable, _Uses] = {}
    for number, step in enumerate(steps):
        if not step.storages:
            planner.places.append(None)
            continue
        written = step.storages if step.writes is None else step.writes
        fresh = [one for one in step.storages if one.is_workspace and identity_of(one) not in uses]
        changed = [one for one in (*written, *fresh) if not one.is_constant]
        touched = dict.fromkeys([identity_of(one) for one in step.storages], False)
        touched.update(dict.fromkeys([identity_of(one) for one in changed], True))
        needs: set[int] = set()
        for key, is_written in touched.items():
            found = uses.setdefault(key, _Uses())
            needs.update(found.before(is_written))
        planner.place(number, sorted(needs, reverse=True))
        for key, is_written in touched.items():
            uses[key].add(number, is_written)
    return planner.finished()


class _Uses:
    """The steps that use some memory since it was written last."""

    def __init__(self) -> None:
        self.writer: int | None = None
        self.readers: list[int] = []

    def before(self, is_written: bool) -> list[int]:
        """Return the steps that have to be over before one that reads, or writes."""
        writer = [] if self.writer is None else [self.writer]
        return writer + self.readers if is_written else writer

    def add(self, number: int, is_written: bool) -> None:
        """Note a step."""
        if is_written:
            self.writer, self.readers = number, []
        else:
            self.readers.append(number)


class _Planner:
    """Gives steps, one after the other, to the stream on which they can begin first; each step is
    taken to last equally long.
    """

    def __init__(self, most: int) -> None:
        self.places: list[_Place | None] = []
        self._begin = _Place(0, 1, [1] + [0] * (most - 1))
        self._tails: list[_Place | None] = [self._begin] + [None] * (most - 1)
        self._last: list[int] = [-1] * most  # the steps of the tails
        self._needed: set[int] = set()  # the steps behind which there is an event

    def _of(self, step: int) -> _Place:
        found = self._begin if step < 0 else self.places[step]
        assert found is not None
        return found

    def place(self, number: int, needs: Sequence[int]) -> None:
        """Place a step that begins when others, the last one first, are over."""
        ready = max([self._of(one).finish for one in needs], default=0)

        def begin(stream: int) -> tuple[int, bool, int]:
            """Return when the step can begin; then, whether that needs an event."""
            tail = self._tails[stream]
            time = max(ready, 0 if tail is None else tail.finish)
            return time, self._last[stream] not in needs, stream

        stream = min(range(len(self._tails)), key=begin)
        tail = self._tails[stream]
        clock = [0] * len(self._tails) if tail is None else list(tail.clock)
        position = clock[stream] + 1
        made = _Place(stream, position, clock, finish=begin(stream)[0] + 1)
        waits = [one for one in (*needs, -1) if self._is_new(one, made)]
        clock[stream] = position
        made.waits = waits  # steps so far, numbers of events in the end
        self._needed.update(waits)
        self._tails[stream], self._last[stream] = made, number
        self.places.append(made)

    def _is_new(self, step: int, made: _Place) -> bool:
        """Return whether a stream has to wait for a step; it then knows what that waited for."""
        other = self._of(step)
        if made.clock[other.stream] >= other.position:
            return False
        made.clock[:] = [max(pair) for pair in zip(made.clock, other.clock)]
        return True

    def finished(self) -> StreamPlan:
        """Join the streams, and number the events."""
        end = _Place(0, 0, list(self._tails[0].clock if self._tails[0] else ()))
        others = sorted([step for step in self._last[1:] if step >= 0], reverse=True)
        joined = [step for step in others if self._is_new(step, end)]
        self._needed.update(joined)
        events = {step: number for number, step in enumerate(sorted(self._needed))}
        for place in self.places:
            if place is not None:
                place.waits = [events[step] for step in place.waits]
        return StreamPlan(self.places, events, [events[step] for step in joined])

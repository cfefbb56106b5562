"""Checks each access: races between threads, reads of memory that was never written.

Two accesses of an element by different threads, one of them writing, need a barrier between them
(of the block, of the warp for threads of one, or in shared memory, see ``happens_before``); threads
of different blocks can only meet at a barrier of the grid. The order in which the interpreter runs
threads plays no role.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

from tilesmith.support.errors import ExecutionError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.interpreter.frame import CONTEXT_SLOT, THREAD_SLOT, Frame
from tilesmith.tir.interpreter.happens_before import Order, Phases
from tilesmith.tir.interpreter.options import Options
from tilesmith.tir.interpreter.scope import Scope
from tilesmith.tir.interpreter.threads import Thread, by_block, by_warp, line_of, sharing_level
from tilesmith.tir.interpreter.values import Environment, Place, Pointer
from tilesmith.tir.warpgroup_products import WARPGROUP

__all__ = ["AccessObserver", "Observe", "Watch", "touch_bytes"]

Observe = Callable[..., list[int]]

_WRITTEN = b"\1" * 4096  # flags of bytes that have been written
_ATOMIC = "atomic"


class Access:
    """One access: its thread, and the epochs (regions between barriers) in which it happened.

    Where barriers in shared memory order the block, also the number (``unit``) and time of who
    accesses, and what it has seen. It may be a copy in the background, begun by the thread.
    """

    __slots__ = (
        "block", "epoch", "grid_epoch", "is_threads", "key", "name", "seen", "time", "unit", "warp",
        "warp_epoch",
    )  # fmt: skip

    def __init__(
        self, thread: Thread, grid_epoch: int, epoch: int, warp_epoch: int, order: Order | None,
        unit: int | None = None,
    ) -> None:  # fmt: skip
        self.key = (thread.block, thread.number)
        self.block = thread.block
        self.warp = thread.warp
        self.grid_epoch = grid_epoch
        self.epoch = epoch
        self.warp_epoch = warp_epoch
        self.is_threads = unit is None
        self.unit = thread.number if unit is None else unit
        self.name = f"thread {thread.describe()}"
        if unit is not None and order is not None:
            self.name = f"{order.describe(unit, str)}, begun by {self.name},"
        self.time = 1
        self.seen: Any = None
        if order is not None:
            self.time = int(order.times[self.unit])
            self.seen = order.seen[thread.number].copy()

    def ordered(self, other: Access) -> bool:
        """Return whether a barrier, or being one thread, orders the two accesses."""
        if self is other or self.grid_epoch != other.grid_epoch:
            return True
        if self.key == other.key and self.is_threads:
            return True
        if self.block != other.block:
            return False
        if self.is_threads and self.epoch != other.epoch:
            return True
        if other.seen is not None and other.seen[self.unit] >= self.time:
            return True
        if not (self.is_threads and other.is_threads):
            return False
        return self.warp == other.warp and self.warp_epoch != other.warp_epoch


class Watch:
    """Tracks the memory of a run: the last writers and readers of each element, and what was
    written at all.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.grid_epoch = 0
        self.epochs: dict[Any, int] = {}
        self.warp_epochs: dict[Any, int] = {}
        self.orders: dict[Any, Order] = {}  # by block, once it has barriers in shared memory
        self.writes: dict[Any, tuple[bytes, list[Access]]] = {}
        self.reads: dict[Any, list[Access]] = {}
        self.atomics: dict[Any, list[Access]] = {}
        self.lines: dict[Any, Any] = {}  # by address and kind: where the program accessed it last
        self.written: dict[int, tuple[Any, Any]] = {}  # by id of memory: flags of its bytes
        self.views: dict[int, tuple[Any, int, tuple[int, ...]]] = {}  # by id, with the place
        self.is_copying = False  # the value that is computed is only stored elsewhere
        self.undefined: list[int] = []  # and which of its lanes were never written
        self.kept: list[Any] = []  # memory is kept alive while its history is recorded

    def barrier(self, envs: list[Environment], scope: str) -> None:
        """Record that threads have waited for each other."""
        if scope == "global":
            self.grid_epoch += 1
        elif scope == "warp":
            for warp, members in by_warp(envs).items():
                self.warp_epochs[warp] = self.warp_epochs.get(warp, 0) + 1
                self._meet(members)
        else:
            for block, members in by_block(envs).items():
                self.epochs[block] = self.epochs.get(block, 0) + 1
                self._meet(members)
        for env in envs:
            env[THREAD_SLOT].access = None

    def _meet(self, envs: list[Environment]) -> None:
        order = self._order_of(envs[0][THREAD_SLOT])
        if order is not None:
            order.meet([env[THREAD_SLOT].number for env in envs])

    def launch_ended(self) -> None:
        """Begin a new grid epoch: all threads of a kernel have ended."""
        self.grid_epoch += 1

    def access(self, thread: Thread) -> Access:
        """Return the current access of a thread."""
        found: Access | None = thread.acts_as or thread.access
        if found is None or found.grid_epoch != self.grid_epoch:
            found = thread.access = self._fresh_access(thread)
        return found

    def _fresh_access(self, thread: Thread, unit: int | None = None) -> Access:
        return Access(
            thread, self.grid_epoch, self.epochs.get(thread.block, 0),
            self.warp_epochs.get((thread.block, thread.warp), 0), self._order_of(thread), unit,
        )  # fmt: skip

    # Barriers in shared memory.

    def phases_of(self, thread: Thread, barrier: int) -> Phases | None:
        """Return what a barrier hands on that a thread sets up; None where races do not matter."""
        if not self.options.check_races:
            return None
        order = self._order_of(thread)
        if order is None:
            order = self.orders[thread.block] = Order(thread.block_size())
        return order.phases_of(barrier)

    def _order_of(self, thread: Thread) -> Order | None:
        order = self.orders.get(thread.block)
        is_present = order is not None and order.threads == thread.block_size()
        return order if is_present else None  # that of an earlier kernel

    def arrived(self, thread: Thread, phases: Phases | None) -> None:
        """Record that a thread has arrived at a barrier."""
        if phases is not None:
            phases.order.arrive([thread.number], phases)
            thread.access = None

    def waited(self, thread: Thread, phases: Phases | None, number: int) -> None:
        """Record that a thread has waited for a phase."""
        if phases is not None:
            phases.order.wait([thread.number], phases, number)
            thread.access = None

    def copy_access(self, thread: Thread, phases: Phases | None) -> Access | None:
        """Return the access of a copy that a thread binds to a barrier now."""
        return None if phases is None else self._fresh_access(thread, phases.unit)

    def product_accesses(self, threads: list[Thread]) -> list[Access]:
        """Return the accesses of a product of a warpgroup that each of its threads begins; none
        where no barriers in shared memory order the block."""
        order = self._order_of(threads[0])
        if order is None:
            return []
        unit = order.products_of(threads[0].number // WARPGROUP)
        return [self._fresh_access(thread, unit) for thread in threads]

    def products_committed(self, threads: list[Thread]) -> None:
        """Record that a warpgroup has closed a group of products."""
        order = self._order_of(threads[0])
        if order is not None:
            order.commit_products(threads[0].number // WARPGROUP)

    def products_awaited(self, threads: list[Thread], pending: int) -> None:
        """Record that a warpgroup has waited for all groups of products but the newest."""
        order = self._order_of(threads[0])
        if order is not None:
            numbers = [thread.number for thread in threads]
            order.wait_for_products(numbers, threads[0].number // WARPGROUP, pending)
            for thread in threads:
                thread.access = None

    # Memory.

    def allocated(self, pointer: Pointer) -> None:
        """Record fresh memory: nothing of it has been written."""
        self.kept.append(pointer)
        if self.options.check_undefined:
            flags = bytearray(pointer.memory.nbytes)
            self.written[id(pointer.memory)] = (pointer.memory, flags)

    def copied(self, pointer: Pointer, copy: Pointer) -> None:
        """Record memory that a thread has of its own, as a copy of what was allocated around its
        launch: what was written there is written here."""
        known = self.written.get(id(pointer.memory))
        if known is None:
            return
        own = self.written.get(id(copy.memory))
        flags = known[1] if own is None else [a | b for a, b in zip(own[1], known[1])]
        self.written[id(copy.memory)] = (copy.memory, bytearray(flags))

    def touch_bytes(
        self, env: Environment, pointer: Pointer, count: int, writes: bool, pending: bool = False,
        span: Any = None,
    ) -> None:  # fmt: skip
        """Check an access through a pointer: of a write, once the memory holds what it writes. Two
        of them write the same if all their bytes are the same.
        """
        values = pointer.window(count).tobytes() if writes else b""
        what = "memory behind a pointer"
        for start in range(pointer.offset, pointer.offset + count):
            self.touch(env, pointer, start, 1, writes, values, what, span=span)
        if pending:
            self.forget(pointer, pointer.offset, count)

    def forget(self, pointer: Pointer, start: int, size: int) -> None:
        """Mark memory as unwritten until an asynchronous copy has arrived."""
        known = self.written.get(id(pointer.memory))
        if known is not None:
            known[1][start : start + size] = bytes(size)

    def touch(
        self, env: Environment, pointer: Pointer, start: int, size: int, writes: bool, value: bytes,
        what: str, may_be_undefined: bool = False, span: Any = None,
    ) -> bool:  # fmt: skip
        """Check an access of ``size`` bytes from byte ``start`` of the memory behind a pointer;
        return whether they are defined.
        """
        known, defined = self.written.get(id(pointer.memory)), True
        if known is not None:
            flags = known[1]
            if writes:
                flags[start : start + size] = _WRITTEN[:size]
            else:
                defined = flags[start : start + size] == _WRITTEN[:size]
            if not (defined or may_be_undefined):
                who = env[THREAD_SLOT].describe()
                raise ExecutionError(
                    f"{what} is read by thread {who} and was never written", span=span
                )
        if self.options.check_races:
            self.order(env[THREAD_SLOT], (id(pointer.memory), start), writes, value, what, span)
        return defined

    def order(
        self, thread: Thread, address: Any, writes: bool, value: bytes, what: str, span: Any
    ) -> None:
        """Check an access against those before it. Threads that write one value do not race, nor
        does one of them that reads it, or who has read it while it was there already.
        """
        present = self.access(thread)
        known, writers = self.writes.get(address, (b"", []))
        is_same = bool(writes and value and known == value)
        others = [one for one in writers if not one.ordered(present)]
        if others and not (is_same if writes else present in writers):
            kind = "writes" if writes else "reads"
            line = self.lines.get((address, True))
            raise _race(what, (present, kind, span), (others[-1], "writes", line))
        for one in self.atomics.get(address, ()):
            if not one.ordered(present):
                kind = "writes" if writes else "reads"
                line = self.lines.get((address, _ATOMIC))
                raise _race(what, (present, kind, span), (one, "adds to", line))
        if span is not None:
            self.lines[address, writes] = span
        readers = self.reads.setdefault(address, [])
        if not writes and present.seen is not None:  # a later writer may have seen some, not others
            if present not in readers:
                readers[:] = [one for one in readers if not one.ordered(present)] + [present]
            return
        if not writes:
            if present not in readers and len(readers) < 2:
                readers.append(present)
            elif present not in readers:
                readers[:] = [one for one in readers if not one.ordered(present)][:1] + [present]
            return
        if is_same:
            self.writes[address] = (value, [*others, present])
            return
        for reader in readers:
            if not reader.ordered(present):
                line = self.lines.get((address, False))
                raise _race(what, (present, "writes", span), (reader, "reads", line))
        readers.clear()
        self.writes[address] = (value, [present])

    def atomic(self, env: Environment, pointer: Pointer, size: int, what: str, span: Any) -> None:
        """Check an atomic operation, which needs no order with others, against plain accesses."""
        known = self.written.get(id(pointer.memory))
        if known is not None:
            flags = known[1]
            place = slice(pointer.offset, pointer.offset + size)
            if flags[place] != _WRITTEN[:size]:
                who = env[THREAD_SLOT].describe()
                raise ExecutionError(
                    f"{what} is read by thread {who} and was never written", span=span
                )
        if not self.options.check_races:
            return
        address, present = (id(pointer.memory), pointer.offset), self.access(env[THREAD_SLOT])
        earlier = [(one, True) for one in self.writes.get(address, (b"", []))[1]]
        earlier += [(one, False) for one in self.reads.get(address, [])]
        for one, has_written in earlier:
            if not one.ordered(present):
                did, line = "writes" if has_written else "reads", (address, has_written)
                raise _race(what, (present, "adds to", span), (one, did, self.lines.get(line)))
        if span is not None:
            self.lines[address, _ATOMIC] = span
        known_ones = self.atomics.setdefault(address, [])
        if present not in known_ones:
            known_ones[:] = [one for one in known_ones if not one.ordered(present)] + [present]


def _race(
    what: str, one: tuple[Access, str, Any], other: tuple[Access, str, Any]
) -> ExecutionError:
    """Return the error of an access after another one: who, what they do, and at which lines."""
    (present, does, span), (earlier, did, line) = one, other
    return ExecutionError(
        f"race: {present.name} {does} {what}, {earlier.name} {did} it{line_of(line)}, and no "
        "barrier stands between",
        span=span,
        notes=(
            'put T.tvm_storage_sync("shared") between the two, or run ThreadSync'
            if present.seen is None
            else "let one arrive at a barrier behind its access, and the other wait there before",
        ),
    )


def touch_bytes(
    env: Environment, pointer: Pointer, count: int, writes: bool, pending: bool = False,
    span: Any = None,
) -> None:  # fmt: skip
    """Report an access through a pointer to the watch of the current run, if there is one: a write
    once the memory holds what it writes (with ``pending``, for a moment), which is compared with
    other writes."""
    watch = env[CONTEXT_SLOT].watch
    if watch is not None:
        watch.touch_bytes(env, pointer, count, writes, pending, span)


class AccessObserver:
    """Makes the functions that report each access of a buffer to the watch."""

    def __init__(self, frame: Frame, options: Options, scope: Scope) -> None:
        self.frame = frame
        self.scope = scope
        self.options = options

    def tracked(self, buffer: Buffer) -> Callable[[Environment], bool]:
        """Return the closure that tells whether it is known what of a buffer was written."""
        data_slot = self.frame.slot(buffer.data)
        return lambda env: id(env[data_slot].memory) in env[CONTEXT_SLOT].watch.written

    def access(self, buffer: Buffer, writes: bool, span: Any) -> Observe | None:
        """Return ``observe(env, array, place)`` for accesses of a buffer at a place of the program
        (else that of the statement); None for memory of one thread where only races matter.

        With ``may_be_undefined``, it returns the numbers of the elements that were never written;
        without, they are an error. Of a write, the array holds what it writes; with ``pending``,
        only for a moment: it arrives later. ``undefined`` are the numbers of the elements that are
        copies of what was never written.
        """
        level = sharing_level(buffer.data.storage_scope)
        data_slot, name, scope = self.frame.slot(buffer.data), buffer.name, buffer.scope()
        span = self.scope.span if span is None else span
        size = buffer.dtype.nbytes
        if level == "thread" and not self.options.check_undefined:
            return None

        def observe(
            env: Environment, array: Any, place: Place,
            pending: bool = False, may_be_undefined: bool = False, undefined: Sequence[int] = (),
        ) -> list[int]:  # fmt: skip
            watch: Watch = env[CONTEXT_SLOT].watch
            pointer: Pointer = env[data_slot]
            known = watch.views.get(id(array))
            if known is None or known[0] is not array:
                # Memory is identified by its start address: pointers may be copies.
                start = pointer.address_of(array, ()).offset
                known = watch.views[id(array)] = (array, start, array.strides)
            _, start, strides = known
            found: list[int] = []
            for number, element in enumerate(_elements(place)):
                where = start + sum([i * step for i, step in zip(element, strides)])
                value = numpy.asarray(array[element]).tobytes() if writes else b""
                shown = ", ".join([str(int(index)) for index in element])
                what = f"{name}[{shown}] (scope {scope})"
                if not watch.touch(
                    env, pointer, int(where), size, writes, value, what, may_be_undefined, span
                ):
                    found.append(number)
                if pending or number in undefined:
                    watch.forget(pointer, int(where), size)
            return found

        return observe


def _elements(place: Place) -> list[Place]:
    """Return the elements of an access: one, or one for each lane of the last index."""
    if place and isinstance(place[-1], numpy.ndarray):
        return [(*place[:-1], index) for index in place[-1]]
    return [place]

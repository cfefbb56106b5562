"""Checks each access: races between threads, reads of memory that was never written.

Two accesses of an element by different threads, one of them writing, need a barrier between them
(of the block, or of the warp for threads of one); threads of different blocks can only meet at a
barrier of the grid. The order in which the interpreter runs threads plays no role.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

from tilesmith.support.errors import ExecutionError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.interpreter.frame import CONTEXT_SLOT, THREAD_SLOT, Frame
from tilesmith.tir.interpreter.options import Options
from tilesmith.tir.interpreter.threads import Thread, by_block, by_warp, sharing_level
from tilesmith.tir.interpreter.values import Environment, Place, Pointer

__all__ = ["AccessObserver", "Observe", "Watch", "touch_bytes"]

Observe = Callable[..., list[int]]

_WRITTEN = b"\1" * 4096  # flags of bytes that have been written


class Access:
    """One access: its thread, and the epochs (regions between barriers) in which it happened."""

    __slots__ = ("block", "epoch", "grid_epoch", "key", "name", "warp", "warp_epoch")

    def __init__(self, thread: Thread, grid_epoch: int, epoch: int, warp_epoch: int) -> None:
        self.key = (thread.block, thread.number)
        self.block = thread.block
        self.warp = thread.warp
        self.grid_epoch = grid_epoch
        self.epoch = epoch
        self.warp_epoch = warp_epoch
        self.name = thread.describe()

    def ordered(self, other: Access) -> bool:
        """Return whether a barrier, or being one thread, orders the two accesses."""
        if self.key == other.key or self.grid_epoch != other.grid_epoch:
            return True
        if self.block != other.block:
            return False
        if self.epoch != other.epoch:
            return True
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
        self.writes: dict[Any, tuple[bytes, list[Access]]] = {}
        self.reads: dict[Any, list[Access]] = {}
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
            for warp in by_warp(envs):
                self.warp_epochs[warp] = self.warp_epochs.get(warp, 0) + 1
        else:
            for block in by_block(envs):
                self.epochs[block] = self.epochs.get(block, 0) + 1
        for env in envs:
            env[THREAD_SLOT].access = None

    def launch_ended(self) -> None:
        """Begin a new grid epoch: all threads of a kernel have ended."""
        self.grid_epoch += 1

    def access(self, thread: Thread) -> Access:
        """Return the current access of a thread."""
        found: Access | None = thread.access
        if found is None or found.grid_epoch != self.grid_epoch:
            warp = (thread.block, thread.warp)
            found = thread.access = Access(
                thread,
                self.grid_epoch,
                self.epochs.get(thread.block, 0),
                self.warp_epochs.get(warp, 0),
            )
        return found

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
        self, env: Environment, pointer: Pointer, count: int, writes: bool, pending: bool = False
    ) -> None:
        """Check an access through a pointer: of a write, once the memory holds what it writes. Two
        of them write the same if all their bytes are the same.
        """
        values = pointer.window(count).tobytes() if writes else b""
        for start in range(pointer.offset, pointer.offset + count):
            self.touch(env, pointer, start, 1, writes, values, "memory behind a pointer")
        if pending:
            self.forget(pointer, pointer.offset, count)

    def forget(self, pointer: Pointer, start: int, size: int) -> None:
        """Mark memory as unwritten until an asynchronous copy has arrived."""
        known = self.written.get(id(pointer.memory))
        if known is not None:
            known[1][start : start + size] = bytes(size)

    def touch(
        self, env: Environment, pointer: Pointer, start: int, size: int, writes: bool, value: bytes,
        what: str, may_be_undefined: bool = False,
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
                raise ExecutionError(
                    f"{what} is read by thread {env[THREAD_SLOT].describe()} and was never written"
                )
        if self.options.check_races:
            self.order(env[THREAD_SLOT], (id(pointer.memory), start), writes, value, what)
        return defined

    def order(self, thread: Thread, address: Any, writes: bool, value: bytes, what: str) -> None:
        """Check an access against those before it. Threads that write one value do not race, nor
        does one of them that reads it, or who has read it while it was there already.
        """
        present = self.access(thread)
        known, writers = self.writes.get(address, (b"", []))
        is_same = bool(writes and value and known == value)
        others = [one for one in writers if not one.ordered(present)]
        if others and not (is_same if writes else present in writers):
            raise _race(what, present, "writes" if writes else "reads", others[-1], "writes")
        readers = self.reads.setdefault(address, [])
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
                raise _race(what, present, "writes", reader, "reads")
        readers.clear()
        self.writes[address] = (value, [present])


def _race(what: str, one: Access, does: str, other: Access, did: str) -> ExecutionError:
    return ExecutionError(
        f"race: thread {one.name} {does} {what}, thread {other.name} {did} it, and no barrier "
        "stands between",
        notes=('put T.tvm_storage_sync("shared") between the two, or run ThreadSync',),
    )


def touch_bytes(
    env: Environment, pointer: Pointer, count: int, writes: bool, pending: bool = False
) -> None:
    """Report an access through a pointer to the watch of the current run, if there is one: a write
    once the memory holds what it writes (with ``pending``, for a moment), which is compared with
    other writes."""
    watch = env[CONTEXT_SLOT].watch
    if watch is not None:
        watch.touch_bytes(env, pointer, count, writes, pending)


class AccessObserver:
    """Makes the functions that report each access of a buffer to the watch."""

    def __init__(self, frame: Frame, options: Options) -> None:
        self.frame = frame
        self.options = options

    def tracked(self, buffer: Buffer) -> Callable[[Environment], bool]:
        """Return the closure that tells whether it is known what of a buffer was written."""
        data_slot = self.frame.slot(buffer.data)
        return lambda env: id(env[data_slot].memory) in env[CONTEXT_SLOT].watch.written

    def access(self, buffer: Buffer, writes: bool) -> Observe | None:
        """Return ``observe(env, array, place)`` for accesses of a buffer; None for memory of one
        thread where only races matter.

        With ``may_be_undefined``, it returns the numbers of the elements that were never written;
        without, they are an error. Of a write, the array holds what it writes; with ``pending``,
        only for a moment: it arrives later. ``undefined`` are the numbers of the elements that are
        copies of what was never written.
        """
        level = sharing_level(buffer.data.storage_scope)
        data_slot, name, scope = self.frame.slot(buffer.data), buffer.name, buffer.scope()
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
                    env, pointer, int(where), size, writes, value, what, may_be_undefined
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

"""Memory of a lockstep run, and the shadow that finds races and undefined reads in it.

The shadow has one record per granule (the smallest element that the program accesses there). Epochs
count barriers; they only grow. A record of an epoch before the kernel, or before the last barrier
of the block, is ordered before the present access; one of an earlier block of the same kernel never
is. Threads of one warp are also ordered by barriers of the warp.
"""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.interpreter.happens_before import Order
from tilesmith.tir.interpreter.values import element_type, poison

__all__ = ["Clock", "Memory", "Shadow", "space_of"]

_MOST_THREADS = 1 << 20  # of a block; a device has 1024

# Each thread touches only its own elements in memory of a warpgroup, so each warp may have a copy.
_SPACES = {
    "block": "shared", "warpgroup": "warp", "warp": "warp", "thread": "local", "": "global",
}  # fmt: skip


def space_of(level: str) -> str:
    """Return the space of memory that threads of a sharing level see."""
    return _SPACES[level]


class Clock:
    """The present epochs of a run."""

    def __init__(self, warp_size: int = 32) -> None:
        self.epoch = 1
        self.launch_first = 1
        self.block_first = 1
        self.warp_size = warp_size
        self.warp_epochs: numpy.ndarray | None = None  # by warp; None: no warp has waited yet
        self.order: Order | None = None  # in blocks that wait at barriers in shared memory

    @property
    def now(self) -> tuple[int, Any, int]:
        """Return what changes with each barrier."""
        events = 0 if self.order is None else self.order.events
        return self.epoch, self.warp_epochs is None or self.warp_epochs.tobytes(), events

    def launched(self) -> None:
        """Begin a kernel."""
        self.epoch += 1
        self.launch_first = self.block_first = self.epoch

    def block_started(self) -> None:
        """Begin a block of threads."""
        self.epoch += 1
        self.block_first = self.epoch
        self.warp_epochs = self.order = None

    def barrier(self) -> None:
        """Order all threads of the block."""
        self.epoch += 1
        if self.order is not None:
            self.order.meet(numpy.arange(self.order.threads))

    def warp_barrier(self, threads: numpy.ndarray, count: int) -> None:
        """Order these threads within each of their warps; a block has ``count`` warps."""
        if self.warp_epochs is None:
            self.warp_epochs = numpy.zeros(count, numpy.int32)
        warps = threads // self.warp_size
        different = numpy.unique(warps)
        self.warp_epochs[different] += 1
        if self.order is not None:
            for warp in different:
                self.order.meet(threads[warps == warp])

    def of_warps(self, threads: numpy.ndarray) -> Any:
        """Return the epochs of the warps of threads."""
        if self.warp_epochs is None:
            return 0
        return self.warp_epochs[threads // self.warp_size]


class _Records:
    """The last access of each granule by any thread, and the first epoch of the kernel in which
    there was one. Arrays of zeros take no memory where nothing is recorded."""

    def __init__(self, count: int) -> None:
        self.epoch = numpy.zeros(count, numpy.int32)
        self.thread = numpy.zeros(count, numpy.int32)
        self.warp_epoch = numpy.zeros(count, numpy.int32)
        self.site = numpy.zeros(count, numpy.int32)
        self.time = numpy.zeros(count, numpy.int32)  # where barriers in shared memory count it

    def unordered(self, at: numpy.ndarray, threads: numpy.ndarray, clock: Clock) -> numpy.ndarray:
        """Return which accesses are not ordered with the recorded one of the same block."""
        found: numpy.ndarray = self.epoch[at] == clock.epoch
        others = self.thread[at]
        if clock.order is not None:  # what goes on in the background goes on behind barriers
            found |= (others >= clock.order.threads) & (self.epoch[at] >= clock.block_first)
        if not found.any():
            return found
        found &= others != threads
        if clock.warp_epochs is not None:
            size = clock.warp_size
            ordered = others // size == threads // size
            ordered &= self.warp_epoch[at] != clock.of_warps(threads)
            if clock.order is not None:
                ordered &= others < clock.order.threads
            found &= ~ordered
        if clock.order is not None:
            left = numpy.flatnonzero(found)
            times = self.time[at[left]]
            found[left] = ~clock.order.is_before(others[left], times, threads[left])
        return found

    def put(self, at: numpy.ndarray, threads: numpy.ndarray, clock: Clock, site: int) -> None:
        """Record accesses. Copies and products in the background count as threads (``Order``)."""
        self.epoch[at] = clock.epoch
        self.thread[at] = threads
        self.site[at] = site
        if clock.order is not None:
            self.time[at] = clock.order.times[threads]
        if clock.warp_epochs is not None:
            self.warp_epoch[at] = clock.of_warps(threads)


class Shadow:
    """The accesses of one memory that several threads see."""

    def __init__(self, count: int, across_blocks: bool) -> None:
        self.writes = _Records(count)
        self.reads = _Records(count)
        self.second_reads = _Records(count)  # by another thread than `reads`
        self.reads_by: dict[int, _Records] = {}  # by warp, where some threads are ordered only
        self.atomics: tuple[_Records, _Records] | None = None  # the second by another thread
        self.count = count
        self.across_blocks = across_blocks
        self.overwritten: tuple[int | None, int | None, int] | None = None
        """The other access of the latest race, where recording the write has replaced it."""
        self._equal = numpy.empty(0, numpy.int64)  # granule and thread of each, as one number
        self._equal_since: Any = None
        if across_blocks:
            self.first_write = numpy.zeros(count, numpy.int32)
            self.first_read = numpy.zeros(count, numpy.int32)
            self.first_atomic = numpy.zeros(count, numpy.int32)
            self.atomic_block = numpy.zeros(count, numpy.int32)
            self.write_block = numpy.zeros(count, numpy.int32)
            self.read_block = numpy.zeros(count, numpy.int32)

    def read(
        self, at: numpy.ndarray, threads: numpy.ndarray, clock: Clock, site: int, block: int,
        readers: numpy.ndarray | None = None,
    ) -> tuple[numpy.ndarray, str]:  # fmt: skip
        """Record reads; return which of them race, and with what. ``readers``: what reads in the
        background for the threads."""
        self.overwritten = None
        bad, what = self.writes.unordered(at, threads, clock), "writes"
        if bad.any():
            bad &= ~self._have_written(at, threads, clock)
        if self.across_blocks:
            first = self.first_write[at]
            bad = bad | ((first >= clock.launch_first) & (first < clock.block_first))
            fresh = at[self.first_read[at] < clock.launch_first]
            self.first_read[fresh] = clock.epoch
            self.read_block[fresh] = block
        if self.atomics is not None and not bad.any():
            bad, what = self._beside_atomics(at, threads, clock), "adds to"
        if clock.order is not None:
            self._read_by(at, threads if readers is None else readers, clock, site)
            return bad, what
        _put_both((self.reads, self.second_reads), at, threads, clock, site)
        return bad, what

    def atomic(
        self, at: numpy.ndarray, threads: numpy.ndarray, clock: Clock, site: int, block: int
    ) -> tuple[numpy.ndarray, str]:
        """Record atomic operations, which are ordered among themselves; return which of them race
        with plain accesses, and with what."""
        self.overwritten = None
        bad, what = self.writes.unordered(at, threads, clock), "writes"
        if self.across_blocks:
            first = self.first_write[at]
            bad = bad | ((first >= clock.launch_first) & (first < clock.block_first))
        if not bad.any():
            what = "reads"
            for records in self._all_reads():
                bad = bad | records.unordered(at, threads, clock)
            if self.across_blocks:
                first = self.first_read[at]
                bad |= (first >= clock.launch_first) & (first < clock.block_first)
        if self.across_blocks:
            fresh = at[self.first_atomic[at] < clock.launch_first]
            self.first_atomic[fresh] = clock.epoch
            self.atomic_block[fresh] = block
        if self.atomics is None:
            self.atomics = _Records(self.count), _Records(self.count)
        _put_both(self.atomics, at, threads, clock, site)
        return bad, what

    def _beside_atomics(
        self, at: numpy.ndarray, threads: numpy.ndarray, clock: Clock
    ) -> numpy.ndarray:
        """Return which plain accesses are not ordered with atomic operations of other threads."""
        assert self.atomics is not None
        one, second = self.atomics
        bad: numpy.ndarray = one.unordered(at, threads, clock)
        bad |= second.unordered(at, threads, clock)
        if self.across_blocks:
            first = self.first_atomic[at]
            bad |= (first >= clock.launch_first) & (first < clock.block_first)
        return bad

    def _read_by(
        self, at: numpy.ndarray, readers: numpy.ndarray, clock: Clock, site: int
    ) -> None:  # fmt: skip
        """Record the last read of each warp, and of each copy and product in the background: a
        barrier in shared memory may order some of them with a later write, and not others."""
        assert clock.order is not None
        threads = clock.order.threads
        parties = numpy.where(readers < threads, readers // clock.warp_size, readers)
        for party in numpy.unique(parties).tolist():
            chosen = parties == party
            records = self.reads_by.get(party)
            if records is None:
                records = self.reads_by[party] = _Records(self.count)
            records.put(at[chosen], readers[chosen], clock, site)

    def _all_reads(self) -> list[_Records]:
        return [self.reads, self.second_reads, *self.reads_by.values()]

    def write(
        self, at: numpy.ndarray, threads: numpy.ndarray, clock: Clock, site: int, block: int,
        same: tuple[numpy.ndarray, numpy.ndarray] | None, writers: numpy.ndarray | None = None,
    ) -> tuple[numpy.ndarray, str]:  # fmt: skip
        """Record writes; return which of them race, and with what. ``same``: which of them write
        what was there already, and which find their value there afterwards: two writes of one value
        do no harm. ``writers``: what writes in the background for the threads."""
        bad = self.writes.unordered(at, threads, clock)
        if self._equal_since == clock.now:  # where several wrote, one of them was another thread
            bad = bad | numpy.isin(at, self._equal // _MOST_THREADS)
        if self.across_blocks:
            first = self.first_write[at]
            bad = bad | ((first >= clock.launch_first) & (first < clock.block_first))
            fresh = at[first < clock.launch_first]
            self.first_write[fresh] = clock.epoch
            self.write_block[fresh] = block
        if same is not None:
            equal = bad & same[0]
            if equal.any():  # also the writers before them
                self._note_equal(at[equal], self.writes.thread[at[equal]], clock)
                self._note_equal(at[equal], threads[equal], clock)
            bad &= ~same[0]
        what = "writes"
        if not bad.any():
            for records in self._all_reads():
                bad = bad | records.unordered(at, threads, clock)
            if same is not None:
                bad &= ~same[0]  # who reads gets the same value before and after
            if self.across_blocks:
                first = self.first_read[at]
                bad |= (first >= clock.launch_first) & (first < clock.block_first)
            what = "reads"
        if self.atomics is not None and not bad.any():
            bad, what = self._beside_atomics(at, threads, clock), "adds to"
        self.overwritten = None
        if bad.any():
            first = int(numpy.argmax(bad))
            self.overwritten = self._before(int(at[first]), int(threads[first]), what, clock)
        if writers is not None:
            threads = writers
        self.writes.put(at, threads, clock, site)
        again = self.writes.thread[at] != threads
        if again.any():
            if same is not None:
                equal = numpy.isin(at, at[again & same[1]])
                self._note_equal(at[equal], threads[equal], clock)
                again &= ~same[1]
            if again.any():
                self.overwritten = None
                return again, "writes"
        return bad, what

    def _note_equal(self, at: numpy.ndarray, threads: numpy.ndarray, clock: Clock) -> None:
        """Record threads that write what others write there, too, without a barrier between."""
        if self._equal_since != clock.now:
            self._equal_since = clock.now
            self._equal = self._equal[:0]
        self._equal = numpy.union1d(self._equal, _keys(at, threads))

    def _have_written(
        self, at: numpy.ndarray, threads: numpy.ndarray, clock: Clock
    ) -> numpy.ndarray:
        """Return which threads wrote the value that is there themselves: whether another one has
        done so, too, does not matter to them."""
        if self._equal_since != clock.now:
            return numpy.zeros(at.shape, numpy.bool_)
        return numpy.isin(_keys(at, threads), self._equal)

    def partner(
        self, where: int, thread: int, what: str, clock: Clock
    ) -> tuple[int | None, int | None, int]:
        """Return the other access of the latest race: its thread (None for one of another block),
        its block (None for the present one) and its site."""
        return self.overwritten or self._before(where, thread, what, clock)

    def _before(
        self, where: int, thread: int, what: str, clock: Clock
    ) -> tuple[int | None, int | None, int]:
        records = self.writes
        if what != "writes":
            kept = list(self.atomics or ()) if what == "adds to" else self._all_reads()
            one = numpy.array([where]), numpy.array([thread])
            found = [each for each in kept if each.unordered(*one, clock)[0]]
            records = found[0] if found else kept[1]
        is_here = records.epoch[where] == clock.epoch
        if clock.order is not None:
            is_here = is_here or records.thread[where] >= clock.order.threads
        if is_here and records.thread[where] != thread:
            return int(records.thread[where]), None, int(records.site[where])
        if what == "writes" and self._equal_since == clock.now:
            others = self._equal[self._equal // _MOST_THREADS == where] % _MOST_THREADS
            if (others != thread).any():
                return int(others[others != thread][0]), None, int(records.site[where])
        block = {
            "writes": self.write_block, "reads": self.read_block, "adds to": self.atomic_block
        }[what]  # fmt: skip
        return None, int(block[where]), int(records.site[where])


def _put_both(
    records: tuple[_Records, _Records], at: numpy.ndarray, threads: numpy.ndarray, clock: Clock,
    site: int,
) -> None:  # fmt: skip
    """Record accesses of which several threads may do the same: the last one, and another one."""
    one, second = records
    before = (one.epoch[at] == clock.epoch) & (one.thread[at] != threads)
    if before.any():
        second.put(at[before], one.thread[at[before]], clock, site)
    one.put(at, threads, clock, site)
    again = one.thread[at] != threads
    if again.any():
        second.put(at[again], threads[again], clock, site)


def _keys(at: numpy.ndarray, threads: numpy.ndarray) -> numpy.ndarray:
    keys: numpy.ndarray = at.astype(numpy.int64) * _MOST_THREADS + threads
    return keys


class Memory:
    """One allocation: of all threads ("global"), a block ("shared"), each warp or each thread.

    ``data``: bytes for global and shared memory; elements by warp, or by element and thread.
    """

    def __init__(
        self, name: str, space: str, dtype: DataType, data: numpy.ndarray, granule: int,
        is_defined: bool,
    ) -> None:  # fmt: skip
        self.name = name
        self.space = space
        self.dtype = dtype
        self.data = data
        self.granule = granule
        self.is_defined = is_defined  # everything in it has been written
        self.typed: dict[Any, numpy.ndarray] = {}
        self.shadow: Shadow | None = None
        self.defined: numpy.ndarray | None = None
        self.pending: numpy.ndarray | None = None  # what copies in flight will write, like defined
        self.writes = 0
        self.checked: set[Any] = set()  # reads in the present epoch that have been checked
        self.checked_at: Any = None

    def was_checked(self, clock: Clock, ids: numpy.ndarray, position: numpy.ndarray) -> bool:
        """Return whether the same threads have read the same elements since the last write or
        barrier; remember that they do now."""
        now = clock.now
        if now != self.checked_at:
            self.checked.clear()
            self.checked_at = now
        key = (ids.tobytes(), position.tobytes())
        if key in self.checked:
            return True
        self.checked.add(key)
        return False

    @classmethod
    def fresh(
        cls, name: str, space: str, dtype: DataType, count: int, granule: int, owners: int
    ) -> Memory:
        """Return new memory for ``count`` elements, for so many threads or warps."""
        kind = element_type(dtype)
        count = max(count, 1) * dtype.lanes
        shape: tuple[int, ...] = (count,)
        if space == "local":
            shape = (count, owners)
        elif space == "warp":
            shape = (owners, count)
        array = numpy.empty(shape, kind)
        array.fill(poison(dtype.element))
        data = array.view(numpy.uint8) if space in ("shared", "global") else array
        found = cls(
            name,
            space,
            dtype,
            data,
            granule if space in ("shared", "global") else kind.itemsize,
            False,
        )
        size = (data.nbytes // found.granule,) if data.ndim == 1 else shape
        found.defined = numpy.zeros(size, numpy.bool_)
        return found

    @property
    def nbytes(self) -> int:
        """Return the bytes that one owner sees."""
        if self.space == "local":
            return int(self.data.shape[0]) * self.data.itemsize
        return int(self.data.shape[-1]) * self.data.itemsize

    def elements(self, kind: numpy.dtype) -> numpy.ndarray:
        """Return the memory as elements of a dtype, the axis of owners included."""
        found = self.typed.get(kind)
        if found is None:
            found = self.data
            if found.dtype != kind:
                if self.space == "local":
                    raise UnsupportedError(
                        f"the registers '{self.name}' of {found.dtype} are used as {kind}"
                    )
                length = found.shape[-1] * found.itemsize // kind.itemsize * kind.itemsize
                found = found.view(numpy.uint8)[..., :length].view(kind)
            self.typed[kind] = found
        return found

    def shadow_of(self, across_blocks: bool) -> Shadow:
        """Return the records of accesses, new ones at first."""
        if self.shadow is None:
            self.shadow = Shadow(-(-self.data.nbytes // self.granule), across_blocks)
        return self.shadow

    def in_flight(self) -> numpy.ndarray:
        """Return the flags of what copies in flight will write, new ones at first."""
        if self.pending is None:
            size: tuple[int, ...] = self.data.shape
            if self.space in ("shared", "global"):
                size = (-(-self.data.nbytes // self.granule),)
            self.pending = numpy.zeros(size, numpy.bool_)
        return self.pending

    def written(self, where: Any, flags: Any = True) -> None:
        """Record that granules hold a value (or, by ``flags``, still do not)."""
        if self.defined is None or (self.is_defined and flags is True):
            return
        self.defined[where] = flags
        self.writes += 1
        if flags is not True:
            self.is_defined = False
        elif self.writes % 8 == 0 or self.writes < 3:
            self.is_defined = bool(self.defined.all())

"""The state of a lockstep run: the active threads, what is found wrong, and who watches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy

from tilesmith.support.errors import ExecutionError, OutOfBoundsError, TilesmithError
from tilesmith.tir.interpreter.happens_before import Order
from tilesmith.tir.interpreter.lockstep.memory import Clock, Memory
from tilesmith.tir.interpreter.lockstep.observers import BlockAccess, Launch, Observer, Site
from tilesmith.tir.interpreter.shared_barriers import SharedBarrier

__all__ = ["ADVICE", "ERRORS", "Finding", "Group", "LockstepOptions", "State", "granules"]

ERRORS: dict[str, type[TilesmithError]] = {"out of bounds": OutOfBoundsError}
"""The error of a kind of finding; ExecutionError for all others."""

ADVICE = {
    "race": 'put T.tvm_storage_sync("shared") between the two, or let each element be accessed '
    "by one thread (ThreadSync inserts the barriers of scheduled programs)",
    "race across blocks": "blocks run in any order and cannot wait for each other: let each block "
    "write its own part, use atomic operations, or make two kernels of it",
    "undefined read": "write the element before it is read, in every thread that reads it",
    "out of bounds": "guard the access with a condition on the index, or make the sizes multiples "
    "of the tiles",
    "divergent barrier": "all threads of the block have to get there: move the barrier out of the "
    "branch or loop",
    "endless wait": "let T.ptx_init_barrier_thread_count set the barrier up, for as many threads "
    "as call T.ptx_arrive_barrier before each wait; a thread waits for the phases of a barrier in "
    "their order, beginning with the first",
    "missing wait": "wait for the copy first: T.ptx_wait_group(0) (or async_wait_queue_scope), "
    'then T.tvm_storage_sync("shared") if other threads read it',
    "shuffle mask": "the mask has to name every lane that is read, and these lanes have to run the "
    "same shuffle: use 0xffffffff outside of branches",
}
"""What to do about a kind of finding."""
ORDER_ADVICE = (
    "put T.tvm_storage_sync between the two; where warps have different roles, let one arrive at a "
    "barrier in shared memory behind its access (T.ptx_arrive_barrier), and the other wait for "
    "that phase before its own (T.ptx_wait_barrier)"
)
"""What to do about a race in a kernel with such barriers."""


@dataclass(frozen=True)
class Finding:
    """Something that is wrong in a kernel: its kind, what happens, where, and what to do."""

    kind: str
    message: str
    kernel: str
    site: Site | None
    advice: str
    count: int = 1
    other: Site | None = None

    @property
    def span(self) -> Any:
        """Return the user's line, if it is known."""
        return None if self.site is None else self.site.span

    @property
    def place(self) -> str:
        """Return the user's line, or the loops and the statement where there is none."""
        return "" if self.site is None else self.site.place

    def error(self) -> TilesmithError:
        """Return the finding as an error."""
        notes = [f"in the kernel '{self.kernel}'", self.advice]
        if self.site is not None and self.site.span is None:
            notes.insert(0, f"at {self.site.place}")
        if self.other is not None:
            notes.insert(0, f"the other access: {self.other.place}")
        return ERRORS.get(self.kind, ExecutionError)(
            f"{self.kind}: {self.message}", span=self.span, notes=notes
        )


@dataclass(frozen=True)
class LockstepOptions:
    """How much of a program is run. ``blocks``: of a larger grid, these many are run (corners and
    their neighbours, the middle, the last). ``statements``: loops are cut short where a block would
    execute more for each thread. ``raise_first``: the first finding is raised as an error.
    """

    blocks: int = 6
    statements: int = 10_000
    raise_first: bool = False
    warp_size: int = 32


class Group:
    """The active threads of a block, in ascending order."""

    __slots__ = ("count", "ids", "is_whole", "lanes_of", "warp_size", "warps_of")

    def __init__(self, ids: numpy.ndarray, is_whole: bool, warp_size: int) -> None:
        self.ids = ids
        self.count = len(ids)
        self.is_whole = is_whole
        self.warp_size = warp_size
        self.warps_of = ids // warp_size
        self.lanes_of = ids % warp_size

    def part(self, chosen: numpy.ndarray) -> Group:
        """Return the group of the chosen threads (by place within this group)."""
        return Group(self.ids[chosen], False, self.warp_size)


@dataclass
class State:
    """Everything that the statements of one run share."""

    options: LockstepOptions
    observers: Sequence[Observer] = ()
    clock: Clock = field(default_factory=Clock)
    findings: dict[Any, Finding] = field(default_factory=dict)
    launch: Launch | None = None
    threads: int = 1
    block: tuple[int, int, int] = (0, 0, 0)
    block_number: int = -1
    weight: float = 1.0
    budget: float = 0.0
    is_cut: bool = False  # loops were cut: what they would have written is missing
    sites: list[Site] = field(default_factory=list)
    copies: Any = None
    arrivals: dict[int, SharedBarrier] = field(default_factory=dict)
    waits: dict[int, numpy.ndarray] = field(default_factory=dict)  # at these barriers, by thread
    notes: Counter[str] = field(default_factory=Counter)
    shared: dict[int, Memory] = field(default_factory=dict)
    given: dict[int, tuple[Memory, Any]] = field(default_factory=dict)  # which threads have it
    last_defined: Any = None
    masked: Group | None = None  # the threads that compute what a store under a predicate stores
    fragments: dict[int, tuple[int, ...]] = field(default_factory=dict)
    coordinates: dict[str, numpy.ndarray] = field(default_factory=dict)
    launches: list[Launch] = field(default_factory=list)
    cut_kernels: list[str] = field(default_factory=list)
    is_partial: bool = False  # some kernel has run only a part of its blocks

    # Kernels.

    def begin_kernel(self, launch: Launch, is_cut: bool, loses: bool) -> None:
        """Begin a kernel. ``is_cut``: some loops are cut; ``loses``: what they write is missing."""
        self.launch = launch
        self.launches.append(launch)
        self.threads = launch.block[0] * launch.block[1] * launch.block[2]
        self.coordinates = coordinates(launch.block)
        self.is_cut = loses
        if is_cut:
            self.cut_kernels.append(launch.name)
        self.clock.launched()
        for observer in self.observers:
            observer.launched(launch)

    def begin_block(self, block: tuple[int, int, int], number: int, waits: bool) -> None:
        """Begin a block of threads; ``waits``: at barriers in shared memory."""
        self.block, self.block_number = block, number
        self.shared.clear()
        self.arrivals.clear()
        self.waits.clear()
        self.given.clear()
        self.clock.block_started()
        self.clock.order = Order(self.threads) if waits else None
        for observer in self.observers:
            observer.block_started(block)

    def placed(self, slot: int, made: Memory, ids: numpy.ndarray) -> Memory:
        """Return the memory that an allocation gives some threads of a block, which may come there
        one group after the other: for the later ones, what the first one got."""
        memory, holders = self.given.get(slot, (made, numpy.empty(0, ids.dtype)))
        if numpy.isin(ids, holders).any() or memory.nbytes != made.nbytes:
            memory, holders = made, holders[:0]
        self.given[slot] = memory, numpy.concatenate([holders, ids])
        return memory

    def waits_forever(self) -> None:
        """Leave a block whose threads wait forever: what it has not written is no error later."""
        self.is_partial = True

    def end_kernel(self) -> None:
        """End a kernel: what it has not written because blocks were left out is no error later."""
        assert self.launch is not None
        grid = self.launch.grid
        self.is_partial |= len(self.launch.blocks_run) < grid[0] * grid[1] * grid[2]
        self.launch, self.threads, self.weight = None, 1, 1.0

    def find(
        self, kind: str, message: str, site: Site | None, other: Site | None = None,
        advice: str = "",
    ) -> None:  # fmt: skip
        """Record a finding, once for each kind and place; raise it if the run is to stop there."""
        key = (kind, None if site is None else site.number)
        known = self.findings.get(key)
        if known is not None:
            self.findings[key] = replace(known, count=known.count + 1)
            return
        kernel = "" if self.launch is None else self.launch.name
        found = Finding(kind, message, kernel, site, advice or ADVICE[kind], 1, other)
        self.findings[key] = found
        if self.options.raise_first:
            raise found.error()

    def thread_text(self, thread: int, block: bool = True) -> str:
        """Return a thread's indices, for messages."""
        size = (1, 1, 1) if self.launch is None else self.launch.block
        x, rest = thread % size[0], thread // size[0]
        inside = f"threadIdx=({x}, {rest % size[1]}, {rest // size[1]})"
        return f"({inside}, blockIdx={self.block})" if block else f"({inside})"

    def group_text(self, group: Group) -> str:
        """Return the threads of a group, for messages: the first one, and how many more."""
        more = f" (and {group.count - 1} more)" if group.count > 1 else ""
        return f"thread {self.thread_text(int(group.ids[0]))}{more}"

    # Accesses.

    def accessed(
        self, site: Site, memory: Memory, group: Group, position: Any, size: int, writes: bool,
        same: Any = None, is_async: bool = False, is_atomic: bool = False, actors: Any = None,
    ) -> None:  # fmt: skip
        """Check and report an access of shared or global memory: ``position`` are elements of
        ``size`` bytes, one for each thread or one for each thread and lane. ``actors``: the copies
        or products in the background that do it, by thread (numbers of ``Order``)."""
        if self.launch is None:
            return
        ids = group.ids
        position = numpy.asarray(position)
        if position.ndim < 2:
            position = (
                numpy.broadcast_to(position, (group.count,)) if position.ndim == 0 else position
            )
        else:
            position = numpy.broadcast_to(position, (group.count, position.shape[1]))
        if self.observers:
            self._report(site, memory, ids, position, size, writes, is_async)
        self._order(site, memory, ids, position, size, writes, same, actors, is_atomic)

    def _report(
        self, site: Site, memory: Memory, ids: Any, position: Any, size: int, writes: bool,
        is_async: bool,
    ) -> None:  # fmt: skip
        columns: list[Any] = [position]
        nbytes = size
        if position.ndim == 2:
            lanes = position.shape[1]
            steps = numpy.diff(position, axis=1)
            if lanes == 1 or (steps == 1).all():
                columns, nbytes = _wide(position, size)
            else:
                columns = [position[:, lane] for lane in range(lanes)]
        for column in columns:
            access = BlockAccess(
                site, memory, memory.space, writes, ids, column.astype(numpy.int64) * size, nbytes,
                self.block, self.weight, is_async,
            )  # fmt: skip
            for observer in self.observers:
                observer.accessed(access)

    def _order(
        self, site: Site, memory: Memory, ids: Any, position: Any, size: int, writes: bool,
        same: Any, actors: Any, is_atomic: bool,
    ) -> None:  # fmt: skip
        if writes:
            memory.checked.clear()
        elif memory.was_checked(self.clock, ids, position):
            return  # the same reads as before, and nothing has been written since
        shadow = memory.shadow_of(memory.space == "global")
        at, threads = granules(position, size, memory.granule), ids
        factor = at.size // len(ids)
        if factor > 1:
            threads = numpy.repeat(ids, factor)
            if same is not None:
                same = tuple([numpy.repeat(one.reshape(-1), at.size // one.size) for one in same])
            actors = None if actors is None else numpy.repeat(actors, factor)
        at = at.reshape(-1)
        access = at, threads, self.clock, site.number, self.block_number
        if is_atomic:
            bad, what = shadow.atomic(*access)
        elif writes:
            bad, what = shadow.write(*access, same, actors)
        else:
            bad, what = shadow.read(*access, actors)
            if bad.any() and self.clock.order is not None and memory.pending is not None:
                # A copy in flight that a barrier waits for: check_arrived finds the missing wait.
                in_flight = shadow.writes.thread[at] >= self.clock.order.threads
                bad &= ~(in_flight & memory.pending[at])
        if bad.any():
            first = int(numpy.argmax(bad))
            actor = None if actors is None else int(actors[first])
            verb = "adds to" if is_atomic else "writes" if writes else "reads"
            self._race(site, memory, shadow, int(at[first]), int(threads[first]), verb, what, actor)

    def _race(
        self, site: Site, memory: Memory, shadow: Any, where: int, thread: int, verb: str,
        what: str, actor: int | None,
    ) -> None:  # fmt: skip
        other, block, place = shadow.partner(where, thread, what, self.clock)
        element = f"{memory.name}[{where * memory.granule // memory.dtype.nbytes}]"
        order = self.clock.order
        who = f"thread {self.thread_text(thread)}"
        if actor is not None and order is not None:
            who = f"{order.describe(actor, str)}, begun by {who},"
        text = f"{who} {verb} {element} ({memory.space})"
        where_other = self.sites[place] if place < len(self.sites) else None
        if other is None:
            launch = self.launch
            coordinates = "another block"
            if launch is not None and block is not None and block < len(launch.blocks_run):
                coordinates = f"the block {launch.blocks_run[block]}"
            self.find(
                "race across blocks",
                f"{text}, and {coordinates} {what} it in the same kernel",
                site,
                where_other,
            )
            return
        one = f"thread {self.thread_text(other, False)}"
        if order is not None:
            one = order.describe(other, lambda unit: self.thread_text(unit, False))
        message = f"{text}, {one} {what} it, and no barrier stands between"
        self.find("race", message, site, where_other, "" if order is None else ORDER_ADVICE)

    # Barriers in shared memory.

    def set_up_barrier(self, number: int, wanted: int) -> None:
        """Make a barrier of the block."""
        order = self.clock.order
        phases = None if order is None else order.phases_of(number)
        self.arrivals[number] = SharedBarrier(wanted, phases)


def coordinates(block: tuple[int, int, int]) -> dict[str, numpy.ndarray]:
    """Return the index of each thread along each axis, x running fastest."""
    number = numpy.arange(block[0] * block[1] * block[2], dtype=numpy.int32)
    return {
        "threadIdx.x": number % block[0],
        "threadIdx.y": number // block[0] % block[1],
        "threadIdx.z": number // (block[0] * block[1]),
    }


def _wide(position: Any, size: int) -> tuple[list[Any], int]:
    """Split contiguous lanes into accesses of at most 16 bytes, as machines do."""
    lanes = position.shape[1]
    per = max(1, min(lanes, 16 // size))
    while lanes % per:
        per -= 1
    return [position[:, start] for start in range(0, lanes, per)], per * size


def granules(position: Any, size: int, granule: int) -> numpy.ndarray:
    """Return the granules of elements of ``size`` bytes, those of one element side by side."""
    if size == granule:
        return numpy.asarray(position)
    per = max(size // granule, 1)
    start = numpy.asarray(position) * size // granule
    found: numpy.ndarray = start[..., None] + numpy.arange(per)
    return found.reshape(len(start), -1) if start.ndim else found.reshape(-1)

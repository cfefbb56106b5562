"""Counts what the accesses of kernels cost: sectors of global memory, banks of shared memory.

Global memory moves in sectors of 32 bytes: an access of a warp costs as many as its threads touch.
Shared memory has 32 banks of 4 bytes, word ``w`` in bank ``w % 32``. An access is served in phases:
the whole warp where each thread moves up to 4 bytes, half a warp at 8 bytes, a quarter at 16. A
phase takes as many wavefronts as the bank with the most different words has; threads that read one
word are served together. The degree of a conflict is that number.

Compilers keep in registers what a thread has loaded, until a barrier or a write may have changed
it. So a load that repeats one of the last 64 different loads of its warps counts as repeated, and
the totals of a kernel are those of the others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy

from tilesmith.tir.interpreter.lockstep.observers import BlockAccess, Launch, Observer, Site

__all__ = [
    "BANKS", "BANK_BYTES", "SECTOR_BYTES", "AccessCounts", "BranchCounts", "KernelCounters",
    "KernelCounts", "bank_cost", "sector_cost",
]  # fmt: skip

SECTOR_BYTES = 32
BANKS = 32
BANK_BYTES = 4
_HELD = 64
"""Loads whose values a thread may keep in registers."""


def sector_cost(
    threads: numpy.ndarray, addresses: numpy.ndarray, nbytes: int, warp_size: int = 32
) -> tuple[int, int, int, int]:
    """Return of one access of global memory: warps, sectors, the fewest sectors that could hold
    what each warp wants, and bytes without those that several threads of a warp share."""
    warps = threads // warp_size
    first, last = addresses // SECTOR_BYTES, (addresses + nbytes - 1) // SECTOR_BYTES
    span = int((last - first).max()) + 1
    sectors = first[:, None] + numpy.arange(span)
    inside = sectors <= last[:, None]
    keys = (warps.astype(numpy.int64)[:, None] << 44) + sectors
    count = len(numpy.unique(keys[inside]))
    different = numpy.unique((warps.astype(numpy.int64) << 44) + addresses)
    useful = numpy.bincount((different >> 44).astype(numpy.int64)) * nbytes
    useful = useful[useful > 0]
    ideal = int((-(-useful // SECTOR_BYTES)).sum())
    return len(useful), count, min(ideal, count), min(int(useful.sum()), count * SECTOR_BYTES)


def bank_cost(
    threads: numpy.ndarray, addresses: numpy.ndarray, nbytes: int, warp_size: int = 32
) -> tuple[int, int, int, int]:
    """Return of one access of shared memory: warps, wavefronts, the fewest that the access could
    take, and the degree of the worst conflict (1: none)."""
    words = 1 << max(0, -(-nbytes // BANK_BYTES) - 1).bit_length()
    per_phase = max(warp_size // words, 1)
    warps = threads // warp_size
    phases = warps * (warp_size // per_phase) + threads % warp_size // per_phase
    word = addresses[:, None] // BANK_BYTES + numpy.arange(words)
    keys = numpy.unique((phases.astype(numpy.int64)[:, None] << 40) + word)
    phase, bank = keys >> 40, keys % BANKS
    in_bank = numpy.bincount(phase * BANKS + bank, minlength=BANKS)
    worst = numpy.pad(in_bank, (0, -len(in_bank) % BANKS)).reshape(-1, BANKS).max(axis=1)
    worst = worst[worst > 0]
    return len(numpy.unique(warps)), int(worst.sum()), len(worst), int(worst.max())


@dataclass
class AccessCounts:
    """The accesses of one place in the program, by all warps of the blocks that were run."""

    site: Site
    space: str
    buffer: str
    nbytes: int = 0  # of one thread's access, the widest
    instructions: float = 0.0  # by warp
    requested: float = 0.0  # bytes, of all threads
    useful: float = 0.0  # bytes, those shared within a warp once
    transactions: float = 0.0  # sectors, or wavefronts
    ideal: float = 0.0
    degree: int = 1
    is_async: bool = False
    repeated: float = 0.0  # transactions that compilers leave out

    @property
    def needed(self) -> float:
        """Return the transactions that are left when values stay in registers."""
        return self.transactions - self.repeated

    @property
    def repeated_share(self) -> float:
        """Return the share of the transactions that repeat a load."""
        return self.repeated / self.transactions if self.transactions else 0.0

    @property
    def per_instruction(self) -> float:
        """Return the sectors or wavefronts of one access of a warp."""
        return self.transactions / max(self.instructions, 1e-9)

    @property
    def ideal_per_instruction(self) -> float:
        """Return the fewest that one access of a warp could take."""
        return self.ideal / max(self.instructions, 1e-9)

    @property
    def wasted(self) -> float:
        """Return the share of the moved bytes that nobody asked for (global memory)."""
        moved = self.transactions * SECTOR_BYTES
        return 0.0 if self.space != "global" or not moved else max(0.0, 1 - self.useful / moved)


@dataclass
class BranchCounts:
    """A branch on values that differ between threads: how many warps came, how many split."""

    site: Site
    warps: float = 0.0
    divergent: float = 0.0


@dataclass
class KernelCounts:
    """What one kernel did, in the blocks that were run."""

    launch: Launch
    accesses: dict[Any, AccessCounts] = field(default_factory=dict)
    branches: dict[int, BranchCounts] = field(default_factory=dict)
    operations: dict[str, float] = field(default_factory=dict)
    barriers: float = 0.0
    allocations: dict[int, tuple[str, str, int]] = field(default_factory=dict)
    global_bytes: dict[str, int] = field(default_factory=dict)  # sizes of the arrays accessed


class KernelCounters(Observer):
    """Counts accesses, branches, barriers and arithmetic, kernel by kernel."""

    def __init__(self) -> None:
        self.kernels: list[KernelCounts] = []
        self.costs: dict[Any, tuple[int, int, int, int]] = {}
        self.held: dict[Any, None] = {}  # what registers may hold: the last loads, oldest first

    def launched(self, launch: Launch) -> None:
        """Begin the counts of a kernel."""
        self.kernels.append(KernelCounts(launch))

    def allocated(self, name: str, scope: str, nbytes: int, place: int) -> None:
        """Note an allocation within a kernel."""
        if self.kernels:
            self.kernels[-1].allocations[place] = (name, scope, nbytes)

    def accessed(self, access: BlockAccess) -> None:
        """Count an access of shared or global memory."""
        kernel = self.kernels[-1]
        key = (access.site.number, access.space)
        counts = kernel.accesses.get(key)
        if counts is None:
            counts = kernel.accesses[key] = AccessCounts(
                access.site, access.space, access.memory.name, is_async=access.is_async
            )
            if access.space == "global":
                kernel.global_bytes[access.memory.name] = int(access.memory.nbytes)
        warps, cost, ideal, other = self._cost(access, kernel.launch.warp_size)
        weight = access.weight
        counts.nbytes = max(counts.nbytes, access.nbytes)
        counts.instructions += weight * warps
        counts.requested += weight * len(access.threads) * access.nbytes
        counts.transactions += weight * cost
        counts.ideal += weight * ideal
        if self._repeats(access):
            counts.repeated += weight * cost
        if access.space == "global":
            counts.useful += weight * other
        else:
            counts.degree = max(counts.degree, other)

    def _repeats(self, access: BlockAccess) -> bool:
        """Return whether the same threads have loaded the same elements a short while ago."""
        memory = access.memory
        if access.writes:
            if any(key[0] is memory for key in self.held):
                self.held = {key: None for key in self.held if key[0] is not memory}
            return False
        if access.is_async:
            return False
        key = (memory, access.nbytes, access.threads.tobytes(), access.addresses.tobytes())
        known = key in self.held
        if known:
            del self.held[key]
        self.held[key] = None
        if len(self.held) > _HELD:
            del self.held[next(iter(self.held))]
        return known

    def block_started(self, block: tuple[int, int, int]) -> None:
        """Forget what the registers of another block held."""
        self.held.clear()

    def _cost(self, access: BlockAccess, warp_size: int) -> tuple[int, int, int, int]:
        """Return the cost of an access; patterns that were seen before are looked up."""
        is_shared = access.space != "global"
        period = BANKS * BANK_BYTES if is_shared else SECTOR_BYTES
        addresses = access.addresses
        base = int(addresses[0]) // period * period
        relative = addresses - base
        key = (is_shared, access.nbytes, access.threads.tobytes(), relative.tobytes())
        found = self.costs.get(key)
        if found is None:
            low = int(relative.min())
            relative = relative + (-(low // period) * period if low < 0 else 0)
            measure = bank_cost if is_shared else sector_cost
            found = self.costs[key] = measure(access.threads, relative, access.nbytes, warp_size)
        return found

    def branched(
        self, site: Site, taken: numpy.ndarray, warps: numpy.ndarray, weight: float
    ) -> None:
        """Count the warps whose threads take both sides of a branch."""
        known = self.kernels[-1].branches
        counts = known.get(site.number)
        if counts is None:
            counts = known[site.number] = BranchCounts(site)
        total = numpy.bincount(warps)
        taken_by = numpy.bincount(warps, weights=taken.astype(numpy.float64))
        counts.warps += weight * int((total > 0).sum())
        counts.divergent += weight * int(((taken_by > 0) & (taken_by < total)).sum())

    def waited(self, site: Site, weight: float) -> None:
        """Count a barrier; registers have to be loaded again behind it."""
        self.held.clear()
        self.kernels[-1].barriers += weight

    def computed(self, operations: float, kind: str) -> None:
        """Count arithmetic."""
        known = self.kernels[-1].operations
        known[kind] = known.get(kind, 0.0) + operations

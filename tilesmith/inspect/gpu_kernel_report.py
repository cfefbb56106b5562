"""The report on one kernel: what it takes of a multiprocessor, what it moves, how long it needs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tilesmith.codegen.gpu.cubin import KernelResources
from tilesmith.target.gpu_machine import GPUMachine, Occupancy, occupancy
from tilesmith.tir.interpreter.lockstep.counters import (
    SECTOR_BYTES,
    AccessCounts,
    BranchCounts,
    KernelCounts,
)

__all__ = ["AccessReport", "BranchReport", "KernelReport", "kernel_report"]

_BASE_REGISTERS = 24
"""Registers for addresses, counters and what an instruction has in flight, by the estimate."""


@dataclass(frozen=True)
class AccessReport:
    """One place that accesses memory. ``transactions``: sectors of 32 bytes of global memory, or
    wavefronts of shared memory, for one access of a warp; ``ideal``: the fewest it could take;
    ``degree``: of the worst bank conflict; ``wasted``: the share of moved bytes nobody wanted;
    ``repeated``: the share of the accesses that compilers leave out (see ``counters``)."""

    place: str
    statement: str
    buffer: str
    space: str
    kind: str
    bytes_per_thread: int
    accesses: float
    transactions: float
    ideal: float
    degree: int
    wasted: float
    repeated: float
    is_async: bool

    @property
    def advice(self) -> str:
        """Return what would make the access cheaper; "" where nothing is to be gained."""
        if self.space == "shared" and self.degree > 1:
            return (
                "pad the rows of the tile by one access (storage_align), or swizzle its columns, "
                "so that threads of a phase meet different banks"
            )
        if self.space == "global" and self.transactions > 1.01 * self.ideal:
            return (
                "let neighbouring threads (threadIdx.x) access neighbouring elements, or read "
                "tiles through shared memory"
            )
        return ""


@dataclass(frozen=True)
class BranchReport:
    """A branch on what differs between threads: warps that came there, and those that split."""

    place: str
    statement: str
    warps: float
    divergent: float


@dataclass(frozen=True)
class KernelReport:
    """One kernel: its launch, what it takes of a multiprocessor, and its totals over all blocks
    (those that were run stand for the others)."""

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    blocks_run: int
    blocks_total: int
    threads: int
    static_shared: int
    dynamic_shared: int
    local_bytes: int
    registers: int
    registers_from: str
    """"NVRTC", or "estimate"."""
    spilled_bytes: int
    """Bytes of memory in place of registers, of one thread, as the compiler says."""
    occupancy: Occupancy
    operations: dict[str, float]
    requested_bytes: float
    sector_bytes: float
    useful_bytes: float
    footprint_bytes: int
    wavefronts: float
    ideal_wavefronts: float
    barriers: float
    accesses: tuple[AccessReport, ...]
    branches: tuple[BranchReport, ...]
    times: dict[str, float]
    peak_operations: float

    @property
    def flops(self) -> float:
        """Return all operations on floats, those of matrix units included."""
        return sum(self.operations.values())

    @property
    def wasted(self) -> float:
        """Return the share of the global traffic that no thread asked for."""
        return max(0.0, 1 - self.useful_bytes / self.sector_bytes) if self.sector_bytes else 0.0

    @property
    def dram_bytes(self) -> float:
        """Return the bytes that have to come from memory at least: the arrays once, or the sectors
        where these are fewer."""
        return min(self.sector_bytes, float(self.footprint_bytes))

    @property
    def intensity(self) -> float:
        """Return operations per byte of memory."""
        return self.flops / self.dram_bytes if self.dram_bytes else 0.0

    @property
    def seconds(self) -> float:
        """Return the predicted time: that of the part that is busy longest."""
        return max(self.times.values(), default=0.0)

    @property
    def limited_by(self) -> str:
        """Return the part of the machine that is busy longest."""
        return max(self.times, key=lambda part: self.times[part]) if self.times else ""

    @property
    def share_of_peak(self) -> float:
        """Return the predicted share of the arithmetic peak."""
        if not self.flops or not self.seconds:
            return 0.0
        return min(1.0, self.times.get("arithmetic", 0.0) / self.seconds)

    @property
    def bank_conflicts(self) -> tuple[AccessReport, ...]:
        """Return the accesses of shared memory with conflicts."""
        return tuple([one for one in self.accesses if one.space == "shared" and one.degree > 1])

    def as_json(self) -> dict[str, Any]:
        """Return the report as numbers, texts, lists and dicts."""
        found = asdict(self)
        derived = ("flops", "wasted", "dram_bytes", "intensity", "seconds", "limited_by",
                   "share_of_peak")  # fmt: skip
        return found | {name: getattr(self, name) for name in derived}


def kernel_report(
    counts: KernelCounts, machine: GPUMachine, resources: KernelResources | None = None
) -> KernelReport:
    """Return the report on a kernel from the counts of the blocks that were run, and from what its
    machine code needs, where that is known."""
    launch = counts.launch
    total = launch.grid[0] * launch.grid[1] * launch.grid[2]
    scale = total / max(len(launch.blocks_run), 1)
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    static, dynamic, local = _memory(counts)
    registers, source = estimated_registers(local), "estimate"
    if resources is not None:
        registers, source = resources.registers, "NVRTC"
    found = [one for one in counts.accesses.values() if one.space in ("global", "shared")]
    in_global = [one for one in found if one.space == "global"]
    in_shared = [one for one in found if one.space == "shared"]
    sectors = scale * sum([one.needed for one in in_global]) * SECTOR_BYTES
    wavefronts = scale * sum([one.needed for one in in_shared])
    operations = {kind: scale * number for kind, number in counts.operations.items()}
    footprint = sum(counts.global_bytes.values())
    held = occupancy(machine.limits, threads, registers, static + dynamic)
    times = {
        "arithmetic": sum([number / machine.peak(kind) for kind, number in operations.items()]),
        "memory": min(sectors, footprint) / machine.memory_bandwidth,
        "L2": sectors / machine.l2_bandwidth,
        "shared memory": wavefronts * 128 / machine.shared_bandwidth,
    }
    waves = _waves(total, held.blocks, machine)
    return KernelReport(
        launch.name, launch.grid, launch.block, len(launch.blocks_run), total, threads, static,
        dynamic, local, registers, source, resources.local_bytes if resources else 0, held,
        operations,
        scale * sum([one.requested * (1 - one.repeated_share) for one in in_global]), sectors,
        scale * sum([one.useful * (1 - one.repeated_share) for one in in_global]), footprint,
        wavefronts, scale * sum([one.ideal * (1 - one.repeated_share) for one in in_shared]),
        scale * counts.barriers,
        tuple([_access(one, scale) for one in found]),
        tuple([_branch(one, scale) for one in counts.branches.values()]),
        {part: seconds * waves for part, seconds in times.items()},
        machine.peak("float32"),
    )  # fmt: skip


def _waves(blocks: int, resident: int, machine: GPUMachine) -> float:
    """Return how much longer the kernel takes because the last wave of blocks does not fill the
    multiprocessors, or because there are fewer blocks than these."""
    at_once = max(resident, 1) * machine.multiprocessors
    if blocks >= at_once:
        return -(-blocks // at_once) * at_once / blocks
    return max(1.0, machine.multiprocessors / blocks)


def _memory(counts: KernelCounts) -> tuple[int, int, int]:
    """Return bytes of static and dynamic shared memory of a block, and of local memory of a
    thread."""
    static = dynamic = local = 0
    for _, scope, nbytes in counts.allocations.values():
        if scope.startswith("shared.dyn"):
            dynamic += nbytes
        elif scope.startswith("shared"):
            static += nbytes
        elif scope.startswith("local"):
            local += nbytes
        elif scope.startswith(("wmma", "warp", "m16n8k")):
            local += nbytes // counts.launch.warp_size
    return static, dynamic, local


def estimated_registers(local_bytes: int) -> int:
    """Return a guess of the registers of a thread: those of its local arrays, which are kept in
    registers where all their indices are constant, and some for everything else."""
    return min(255, _BASE_REGISTERS + -(-local_bytes // 4))


def _access(counts: AccessCounts, scale: float) -> AccessReport:
    site = counts.site
    return AccessReport(
        site.place, site.statement, counts.buffer, counts.space, site.kind, counts.nbytes,
        scale * counts.instructions, counts.per_instruction, counts.ideal_per_instruction,
        counts.degree, counts.wasted, counts.repeated_share, counts.is_async,
    )  # fmt: skip


def _branch(counts: BranchCounts, scale: float) -> BranchReport:
    site = counts.site
    return BranchReport(site.place, site.statement, scale * counts.warps, scale * counts.divergent)

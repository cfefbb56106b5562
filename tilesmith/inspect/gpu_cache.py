"""Reports what kernels take from the caches and from the memory of a GPU, without a GPU.

    report = tilesmith.inspect.cache_report(schedule, target="H100")
    print(report)                     # per buffer: bytes asked for, sectors, hits, bytes of memory
    report.kernels[0].dram_bytes

A model: the blocks run in waves, as many at once as fit, in the order of the launch, block ``b`` of
a wave on multiprocessor ``b`` modulo their number; the blocks of a wave go through their program
side by side. The L2 is one cache of the machine's size; the L1s are left out unless their size is
given. Addresses are computed, nothing is run (`address_streams`); ``CacheObserver`` makes the same
report from the accesses of a run in lockstep.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy

from tilesmith.codegen.gpu.limits import minimum_blocks
from tilesmith.inspect.address_streams import (
    SECTOR_BYTES,
    KernelAccesses,
    accesses_of,
    requests_of,
    sector_requests,
)
from tilesmith.inspect.cache_simulation import LINE_BYTES, SectorCache, sectors_of
from tilesmith.inspect.gpu_kernel_report import estimated_registers
from tilesmith.ir import IntImm, IRModule
from tilesmith.ir.queries import walk
from tilesmith.lowering import lower
from tilesmith.lowering.gpu_checks import kernels_of
from tilesmith.support.errors import TypeMismatchError, UnsupportedError
from tilesmith.target import Target
from tilesmith.target.gpu_machine import GPU_MACHINES, GPUMachine, gpu_machine, occupancy
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.interpreter.cooperation import launched_thread
from tilesmith.tir.interpreter.lockstep import BlockAccess, Launch, Observer
from tilesmith.tir.stmt import Allocate, Stmt

__all__ = ["BufferTraffic", "CacheObserver", "CacheReport", "KernelTraffic", "cache_report"]

_L2_WAYS = 16
_L1_WAYS = 4


@dataclass
class BufferTraffic:
    """The traffic of one array: bytes that threads asked for, sectors that warps asked for, those
    that came from L1, that went to L2, that were found there, and bytes of memory."""

    name: str
    requested_bytes: int = 0
    sectors: int = 0
    l1_hits: int = 0
    l2_reads: int = 0
    l2_hits: int = 0
    read_bytes: int = 0
    written_bytes: int = 0


@dataclass
class KernelTraffic:
    """The traffic of one kernel, array by array. ``resident``: blocks on a multiprocessor."""

    name: str
    grid: tuple[int, int, int]
    waves: int
    resident: int
    buffers: dict[str, BufferTraffic] = field(default_factory=dict)

    def of(self, name: str) -> BufferTraffic:
        """Return the traffic of an array."""
        return self.buffers.setdefault(name, BufferTraffic(name))

    def total(self, what: str) -> int:
        """Return the sum of one number over all arrays."""
        return sum([getattr(one, what) for one in self.buffers.values()])

    @property
    def dram_bytes(self) -> int:
        """Bytes that were read from memory and written to it."""
        return self.total("read_bytes") + self.total("written_bytes")

    @property
    def l2_hit_rate(self) -> float:
        """The share of the sectors read from L2 that were found there."""
        reads = self.total("l2_reads")
        return self.total("l2_hits") / reads if reads else 0.0


@dataclass
class CacheReport:
    """The traffic of a program's kernels on a machine."""

    machine: str
    l2_bytes: int
    l1_bytes: int
    kernels: list[KernelTraffic] = field(default_factory=list)

    @property
    def dram_bytes(self) -> int:
        """Bytes that all kernels move from and to memory."""
        return sum([kernel.dram_bytes for kernel in self.kernels])

    def to_json(self) -> str:
        """Return the report as JSON."""
        return json.dumps(asdict(self), indent=2)

    def __str__(self) -> str:
        first = f", L1 {_size(self.l1_bytes)} each" if self.l1_bytes else ", no L1"
        lines = [f"Caches of {self.machine}, a model: L2 {_size(self.l2_bytes)}{first}"]
        for kernel in self.kernels:
            lines += _table(kernel)
        return "\n".join(lines)


def _size(nbytes: float) -> str:
    for limit, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if nbytes >= limit:
            return f"{nbytes / limit:.2f} {unit}"
    return f"{nbytes:.0f} B"


_HEAD = ("array", "requested", "in sectors", "L1 hits", "from L2", "L2 hits", "read", "written")


def _table(kernel: KernelTraffic) -> list[str]:
    shape = "×".join([str(size) for size in kernel.grid])
    lines = [
        "",
        f"{kernel.name}: grid {shape} in {kernel.waves} waves, {kernel.resident} blocks at a time "
        "on each multiprocessor",
        _row(_HEAD),
    ]
    total = BufferTraffic("all")
    for name in vars(total):
        if name != "name":
            setattr(total, name, kernel.total(name))
    for one in [*kernel.buffers.values(), total]:
        l1 = f"{one.l1_hits / one.sectors:.1%}" if one.sectors else "-"
        l2 = f"{one.l2_hits / one.l2_reads:.1%}" if one.l2_reads else "-"
        sectors, reads = one.sectors * SECTOR_BYTES, one.l2_reads * SECTOR_BYTES
        cells = [one.name, _size(one.requested_bytes), _size(sectors), l1, _size(reads), l2]
        lines.append(_row([*cells, _size(one.read_bytes), _size(one.written_bytes)]))
    return lines


def _row(cells: Sequence[str]) -> str:
    return f"  {cells[0]:24}" + "".join([f"{cell:>12}" for cell in cells[1:]])


# The model.


def base_address(name: str) -> int:
    """Return where an array lies: far from others, and in all kernels at the same place."""
    return zlib.crc32(name.encode()) << 30


@dataclass
class _Requests:
    """Requests of a wave: parallel arrays, and which array each of them means."""

    parts: list[tuple[numpy.ndarray, ...]] = field(default_factory=list)

    def add(
        self, name: int, writes: bool, lines: Any, masks: Any, times: Any, blocks: Any, warps: Any
    ) -> None:
        size = len(lines)
        self.parts.append((
            lines, masks, times, blocks, warps,
            numpy.full(size, name, numpy.int32), numpy.full(size, writes),
        ))  # fmt: skip

    def in_order(self) -> tuple[numpy.ndarray, ...]:
        """Return lines, masks, blocks, names and writes in the order in which they happen."""
        columns = [numpy.concatenate(column) for column in zip(*self.parts)]
        lines, masks, times, blocks, warps, names, writes = columns
        order = numpy.lexsort((warps, blocks, times))
        return lines[order], masks[order], blocks[order], names[order], writes[order]


class _Caches:
    """The caches of a machine, and the traffic of the kernel that runs."""

    def __init__(self, machine: GPUMachine, l2_bytes: int, l1_bytes: int) -> None:
        self.machine = machine
        self.l2 = SectorCache(l2_bytes, _L2_WAYS)
        self.l1_bytes = l1_bytes
        self.names: list[str] = []

    def number(self, name: str) -> int:
        """Return the number of an array."""
        if name not in self.names:
            self.names.append(name)
        return self.names.index(name)

    def run_wave(self, kernel: KernelTraffic, requests: _Requests, l1: SectorCache | None) -> None:
        """Send the requests of a wave through the caches."""
        if not requests.parts:
            return
        lines, masks, blocks, names, writes = requests.in_order()
        self.count(kernel, "sectors", names, sectors_of(masks))
        if l1 is not None:
            reads = ~writes
            missing, _, _ = l1.access(
                lines[reads],
                masks[reads],
                writes[reads],
                blocks[reads] % self.machine.multiprocessors,
            )
            self.count(kernel, "l1_hits", names[reads], sectors_of(masks[reads] & ~missing))
            masks = masks.copy()
            masks[reads] = missing
            kept = masks != 0
            lines, masks, names, writes = lines[kept], masks[kept], names[kept], writes[kept]
        missing, lost, counts = self.l2.access(lines, masks, writes)
        reads = ~writes
        self.count(kernel, "l2_reads", names[reads], sectors_of(masks[reads]))
        self.count(kernel, "l2_hits", names[reads], sectors_of(masks[reads] & ~missing[reads]))
        self.count(kernel, "read_bytes", names[reads], SECTOR_BYTES * sectors_of(missing[reads]))
        self.write_back(kernel, lost, counts)

    def count(self, kernel: KernelTraffic, what: str, names: Any, amounts: Any) -> None:
        """Add amounts to the traffic of the arrays."""
        totals = numpy.bincount(names, weights=amounts, minlength=len(self.names))
        for number in numpy.flatnonzero(totals):
            traffic = kernel.of(self.names[number])
            setattr(traffic, what, getattr(traffic, what) + int(totals[number]))

    def write_back(
        self, kernel: KernelTraffic, lines: numpy.ndarray, counts: numpy.ndarray
    ) -> None:
        """Count what is written to memory, for the arrays that own the lines."""
        bases = numpy.array([base_address(name) // LINE_BYTES for name in self.names], numpy.int64)
        order = numpy.argsort(bases)
        owners = order[numpy.searchsorted(bases[order], lines, side="right") - 1]
        self.count(kernel, "written_bytes", owners, SECTOR_BYTES * counts)

    def finish(self, kernel: KernelTraffic) -> None:
        """Write to memory what the last kernel left."""
        self.write_back(kernel, *self.l2.flush())


def cache_report(
    program: Any,
    target: Any = "H100",
    *,
    l2_bytes: int | None = None,
    l1_bytes: int = 0,
    resident: int | None = None,
    multiprocessors: int | None = None,
) -> CacheReport:
    """Return what the kernels of a schedule, function or module move through the caches of a GPU.

    ``target``: a GPU target, its text, or a board's name. ``l2_bytes``, ``multiprocessors``: other
    than the board's. ``l1_bytes``: of each multiprocessor (0: loads go to L2). ``resident``: blocks
    that a multiprocessor holds; without it, what shared memory, threads and the registers that its
    arrays take leave room for.

    Raises UnsupportedError where addresses depend on data: observe a run with ``CacheObserver``.
    """
    is_board = isinstance(target, str) and target.upper() in GPU_MACHINES
    chosen = (
        Target(f"cuda -arch=sm_{GPU_MACHINES[target.upper()].arch}") if is_board else Target(target)
    )
    machine = gpu_machine(target if is_board else chosen)
    if multiprocessors:
        from dataclasses import replace

        machine = replace(machine, multiprocessors=multiprocessors)
    size = l2_bytes or machine.l2_bytes
    report = CacheReport(machine.name, size, l1_bytes)
    caches = _Caches(machine, size, l1_bytes)
    for name, func in _functions(program).items():
        for kernel in _kernels(kernels_of(lower(IRModule({name: func})), chosen)):
            report.kernels.append(_run(caches, name, kernel, resident))
    if not report.kernels:
        raise UnsupportedError("the program launches no threads", notes=("bind loops to threads",))
    caches.finish(report.kernels[-1])
    return report


def _functions(program: Any) -> dict[str, PrimFunc]:
    module = getattr(program, "mod", program)
    if isinstance(module, PrimFunc):
        return {str(module.attrs.get("global_symbol", "main")): module}
    if isinstance(module, IRModule):
        return {
            variable.name_hint: func
            for variable, func in module.functions.items()
            if isinstance(func, PrimFunc)
        }
    raise TypeMismatchError(
        "cache_report takes a tir.Schedule, a PrimFunc or an IRModule, not "
        f"{type(program).__name__}"
    )


def _kernels(module: IRModule) -> list[Stmt]:
    """Return the statements that launch kernels, in their order."""
    found: list[Stmt] = []

    def visit(node: Any) -> None:
        if isinstance(node, Stmt) and launched_thread(node) is not None:
            found.append(node)
        elif isinstance(node, Stmt):
            node.for_each_child(visit)

    for func in module.functions.values():
        if isinstance(func, PrimFunc):
            visit(func.body)
    return found


def _resident(machine: GPUMachine, accesses: KernelAccesses, kernel: Stmt) -> int:
    """Return how many blocks a multiprocessor holds."""
    shared = local = 0
    for node in walk(kernel):
        if isinstance(node, Allocate):
            size = node.dtype.nbytes
            for extent in node.extents:
                size *= int(extent.value) if isinstance(extent, IntImm) else 1
            scope = node.buffer_var.storage_scope
            shared += size if scope.startswith("shared") else 0
            local += size if scope == "local" else 0
    registers = estimated_registers(local)
    wanted = minimum_blocks(kernel) or 0
    found = occupancy(machine.limits, accesses.threads, registers, shared).blocks
    return max(1, found, wanted)


def _run(caches: _Caches, name: str, kernel: Stmt, resident: int | None) -> KernelTraffic:
    accesses = accesses_of(kernel)
    machine = caches.machine
    held = resident or _resident(machine, accesses, kernel)
    at_once = held * machine.multiprocessors
    traffic = KernelTraffic(name, accesses.shape("blockIdx"), -(-accesses.blocks // at_once), held)
    l1 = (
        SectorCache(caches.l1_bytes, _L1_WAYS, machine.multiprocessors) if caches.l1_bytes else None
    )
    for first in range(0, accesses.blocks, at_once):
        wave = _Requests()
        blocks = numpy.arange(first, min(first + at_once, accesses.blocks))
        for access in accesses.accesses:
            number = caches.number(access.buffer.name)
            base = base_address(access.buffer.name)
            for part in requests_of(accesses, access, base, blocks):
                traffic.of(access.buffer.name).requested_bytes += part.requested
                wave.add(number, access.writes, *part[:-1])
        caches.run_wave(traffic, wave, l1)
    return traffic


class CacheObserver(Observer):
    """Makes a cache report from the accesses of a run in lockstep, for all blocks that are run.

    Give it to ``inspect.gpu_report(…, blocks=…, observers=[observer])``.
    """

    def __init__(
        self, target: str = "H100", *, l2_bytes: int | None = None, l1_bytes: int = 0,
        resident: int = 1, multiprocessors: int | None = None,
    ) -> None:  # fmt: skip
        machine = gpu_machine(target)
        if multiprocessors:
            from dataclasses import replace

            machine = replace(machine, multiprocessors=multiprocessors)
        self.resident = resident
        self.caches = _Caches(machine, l2_bytes or machine.l2_bytes, l1_bytes)
        self.result = CacheReport(machine.name, l2_bytes or machine.l2_bytes, l1_bytes)
        self.launch: Launch | None = None
        self.requests: dict[int, _Requests] = {}
        self.block = self.time = 0

    def launched(self, launch: Launch) -> None:
        """Begin a kernel."""
        self.end_kernel()
        self.launch = launch
        total = launch.grid[0] * launch.grid[1] * launch.grid[2]
        at_once = self.resident * self.caches.machine.multiprocessors
        self.result.kernels.append(
            KernelTraffic(launch.name, launch.grid, -(-total // at_once), self.resident)
        )

    def block_started(self, block: tuple[int, int, int]) -> None:
        """Begin a block."""
        assert self.launch is not None
        self.block = block[0] + self.launch.grid[0] * (block[1] + self.launch.grid[1] * block[2])
        self.time = 0

    def accessed(self, access: BlockAccess) -> None:
        """Note an access of global memory."""
        if access.space != "global" or not self.result.kernels:
            return
        name = access.memory.name
        count = int(access.threads.max()) + 1
        addresses, active = numpy.zeros((1, count), numpy.int64), numpy.zeros((1, count), bool)
        addresses[0, access.threads] = access.addresses + base_address(name)
        active[0, access.threads] = True
        warps, lines, masks = sector_requests(addresses, active, access.nbytes)
        same = numpy.ones(len(lines), numpy.int64)
        wave = self.block // (self.resident * self.caches.machine.multiprocessors)
        self.requests.setdefault(wave, _Requests()).add(
            self.caches.number(name), access.writes, lines, masks, same * self.time,
            same * self.block, warps,
        )  # fmt: skip
        self.result.kernels[-1].of(name).requested_bytes += len(access.threads) * access.nbytes
        self.time += 1

    def end_kernel(self) -> None:
        """Send what a kernel asked for through the caches."""
        if not self.result.kernels:
            return
        machine = self.caches.machine
        size = self.caches.l1_bytes
        l1 = SectorCache(size, _L1_WAYS, machine.multiprocessors) if size else None
        for wave in sorted(self.requests):
            self.caches.run_wave(self.result.kernels[-1], self.requests[wave], l1)
        self.requests = {}

    def report(self) -> CacheReport:
        """Return the report, when all kernels have been run."""
        self.end_kernel()
        if self.result.kernels:
            self.caches.finish(self.result.kernels[-1])
        return self.result

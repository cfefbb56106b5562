"""Models GPUs: limits of a multiprocessor by architecture, rates of boards, and occupancy.

Data only, from the makers' tables of compute capabilities and data sheets; `machine` has the CPUs.
Bandwidths of L2 are figures that microbenchmarks report, good enough for a roofline.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from tilesmith.support.errors import UnknownNameError
from tilesmith.target.tag_table import TAGS
from tilesmith.target.target import Target

__all__ = [
    "GPU_MACHINES", "SM_LIMITS", "GPUMachine", "Occupancy", "SMLimits", "gpu_limits",
    "gpu_machine", "max_threads_per_block", "occupancy", "refused_above_threads", "sm_limits",
]  # fmt: skip

KIB = 1024


@dataclass(frozen=True)
class SMLimits:
    """What one multiprocessor of an architecture holds, and what one block may take of it."""

    arch: int
    threads: int
    blocks: int
    shared_bytes: int
    shared_per_block: int
    """The most dynamic shared memory of a block, where the kernel asks for more than 48 KiB."""
    registers: int = 65536
    registers_per_thread: int = 255
    register_unit: int = 256
    """Registers are given to a warp in multiples of this."""
    warp_unit: int = 4
    """Warps of a block are counted in multiples of this when registers are given out."""
    shared_unit: int = 256
    shared_reserved: int = 0
    """Bytes of each block that the system takes."""
    threads_per_block: int = 1024
    static_shared_per_block: int = 48 * KIB
    local_per_thread: int = 512 * KIB
    warp_size: int = 32


SM_LIMITS = {
    70: SMLimits(70, 2048, 32, 96 * KIB, 96 * KIB),
    72: SMLimits(72, 2048, 32, 96 * KIB, 96 * KIB),
    75: SMLimits(75, 1024, 16, 64 * KIB, 64 * KIB),
    80: SMLimits(80, 2048, 32, 164 * KIB, 163 * KIB, shared_unit=128, shared_reserved=KIB),
    86: SMLimits(86, 1536, 16, 100 * KIB, 99 * KIB, shared_unit=128, shared_reserved=KIB),
    87: SMLimits(87, 1536, 16, 164 * KIB, 163 * KIB, shared_unit=128, shared_reserved=KIB),
    89: SMLimits(89, 1536, 24, 100 * KIB, 99 * KIB, shared_unit=128, shared_reserved=KIB),
    90: SMLimits(90, 2048, 32, 228 * KIB, 227 * KIB, shared_unit=128, shared_reserved=KIB),
    100: SMLimits(100, 2048, 32, 228 * KIB, 227 * KIB, shared_unit=128, shared_reserved=KIB),
    120: SMLimits(120, 1536, 24, 100 * KIB, 99 * KIB, shared_unit=128, shared_reserved=KIB),
}
"""Limits by compute capability times ten."""


@dataclass(frozen=True)
class GPUMachine:
    """A board: multiprocessors, clock, peaks in operations per second, bandwidths in bytes per
    second. A multiply-add counts as two operations."""

    name: str
    arch: int
    multiprocessors: int
    clock_hz: float
    memory_bandwidth: float
    l2_bandwidth: float
    l2_bytes: int
    peaks: tuple[tuple[str, float], ...]
    """By dtype; "tensor": matrix units on float16."""

    @property
    def limits(self) -> SMLimits:
        """The limits of a multiprocessor."""
        return SM_LIMITS[self.arch]

    @property
    def shared_bandwidth(self) -> float:
        """Bytes per second of the shared memories of all multiprocessors: 32 banks of 4 bytes."""
        return 128.0 * self.multiprocessors * self.clock_hz

    def peak(self, kind: str) -> float:
        """Return the most operations per second on a dtype (that of float32 for others)."""
        peaks = dict(self.peaks)
        return peaks.get(kind, peaks["float32"])


def _peaks(
    single: float, half: float, double: float, tensor: float
) -> tuple[tuple[str, float], ...]:
    return (("float32", single), ("float16", half), ("bfloat16", half), ("float64", double),
            ("tensor", tensor))  # fmt: skip


GPU_MACHINES = {
    "V100": GPUMachine("V100", 70, 80, 1.53e9, 900e9, 2.15e12, 6144 * KIB,
                       _peaks(15.7e12, 31.4e12, 7.8e12, 125e12)),
    "T4": GPUMachine("T4", 75, 40, 1.59e9, 320e9, 1.27e12, 4096 * KIB,
                     _peaks(8.1e12, 16.2e12, 0.25e12, 65e12)),
    "A100": GPUMachine("A100", 80, 108, 1.41e9, 1555e9, 4.5e12, 40960 * KIB,
                       _peaks(19.5e12, 78e12, 9.7e12, 312e12)),
    "A10": GPUMachine("A10", 86, 72, 1.695e9, 600e9, 2.0e12, 6144 * KIB,
                      _peaks(31.2e12, 31.2e12, 0.49e12, 125e12)),
    "L4": GPUMachine("L4", 89, 58, 2.04e9, 300e9, 1.9e12, 49152 * KIB,
                     _peaks(30.3e12, 30.3e12, 0.47e12, 121e12)),
    "H100": GPUMachine("H100", 90, 132, 1.98e9, 3350e9, 5.5e12, 51200 * KIB,
                       _peaks(66.9e12, 133.8e12, 33.5e12, 989e12)),
}  # fmt: skip
"""Boards by name; the peaks of dense matrix units."""

_BOARD_OF_ARCH = {70: "V100", 72: "V100", 75: "T4", 80: "A100", 86: "A10", 87: "A10", 89: "L4",
                  90: "H100", 100: "H100", 120: "L4"}  # fmt: skip
_DEFAULT = "A100"


def _arch_number(target: Target) -> int | None:
    text = str(target.attrs.get("arch") or target.attrs.get("mcpu") or "")
    found = re.fullmatch(r"sm_(\d+)[a-z]?", text)
    return int(found.group(1)) if found else None


def sm_limits(arch: int) -> SMLimits:
    """Return the limits of an architecture, those of the next lower one that is known; raise
    UnknownNameError below sm_70."""
    known = [number for number in SM_LIMITS if number <= arch]
    if not known:
        raise UnknownNameError(
            f"no limits of sm_{arch} are known",
            notes=("known: " + ", ".join([f"sm_{one}" for one in SM_LIMITS]),),
        )
    return SM_LIMITS[max(known)]


def gpu_machine(target: Target | str | None = None) -> GPUMachine:
    """Return the board that a target means: by the name of a board, the target's `-model`, or its
    architecture; an A100 where nothing is said. Raises UnknownNameError for an unknown board.
    """
    if isinstance(target, str) and target.upper() in GPU_MACHINES:
        return GPU_MACHINES[target.upper()]
    if target is None:
        return GPU_MACHINES[_DEFAULT]
    chosen = Target(target) if isinstance(target, str) else target
    model = str(chosen.attrs.get("model") or "").upper()
    for name, machine in GPU_MACHINES.items():
        if name in re.split(r"[^A-Z0-9]+", model):
            return machine
    arch = _arch_number(chosen)
    if arch is None:
        return GPU_MACHINES[_DEFAULT]
    limits = sm_limits(arch)
    board = GPU_MACHINES[_BOARD_OF_ARCH[limits.arch]]
    return board if board.arch == limits.arch else replace(board, arch=limits.arch)


_THREAD_OPTIONS = ("max_threads_per_block", "max_num_threads")
_EVERY_GPU = 256
"""Threads of a block that every GPU allows."""


def max_threads_per_block(target: Target) -> int:
    """Return how many threads a block of a target may have; 0 for a target without threads.

    Two options say it: `-max_threads_per_block` and `-max_num_threads`. What the user wrote counts
    before what the tag or the kind of the target has by itself (a value that is the same counts as
    not written), and of two values the smaller one.
    """
    if "gpu" not in target.keys:
        return 0
    given = _written_thread_options(target)
    known = [int(target.attrs[name]) for name in _THREAD_OPTIONS if target.attrs.get(name)]
    return min(given or known, default=_EVERY_GPU)


def refused_above_threads(target: Target) -> int | None:
    """Return the number of threads above which no block can run on a target; None where only the
    device knows it: the number of the kind `opencl` is what schedules take, not what devices have.
    """
    if "cuda" in target.keys:
        return max_threads_per_block(target)
    of_tag = TAGS.get(target.tag, {})
    known = [int(of_tag[name]) for name in _THREAD_OPTIONS if name in of_tag]
    return min(_written_thread_options(target) or known, default=None)


def _written_thread_options(target: Target) -> list[int]:
    """Return the values of the options for threads that differ from those of the target's tag and
    kind."""
    defaults = {**target.kind.defaults(), **TAGS.get(target.tag, {})}
    values = [(name, target.attrs.get(name)) for name in _THREAD_OPTIONS]
    return [int(value) for name, value in values if value and int(value) != defaults.get(name)]


def gpu_limits(target: Target) -> dict[str, int]:
    """Return the limits of kernels on a target, by the names that `VerifyGPUCode` takes: the
    target's own options, else those of its architecture."""
    attrs = target.attrs
    limits: dict[str, int] = {}
    if "cuda" in target.keys:
        machine = gpu_machine(target).limits
        limits = {
            "max_threads_per_block": machine.threads_per_block,
            "max_thread_x": 1024,
            "max_thread_y": 1024,
            "max_thread_z": 64,
            "max_shared_memory_per_block": machine.shared_per_block,
            "max_static_shared_memory_per_block": machine.static_shared_per_block,
            "max_local_memory_per_block": machine.local_per_thread,
        }
        if _arch_number(target) is None:
            limits["max_shared_memory_per_block"] = 227 * KIB  # of the largest that is known
    if any(attrs.get(name) for name in _THREAD_OPTIONS):
        limits["max_threads_per_block"] = max_threads_per_block(target)
    if attrs.get("max_shared_memory_per_block"):
        known = limits.get("max_shared_memory_per_block", 0)
        limits["max_shared_memory_per_block"] = max(
            int(attrs["max_shared_memory_per_block"]), known
        )
    return limits


@dataclass(frozen=True)
class Occupancy:
    """How many blocks one multiprocessor holds at a time, and what keeps it from holding more:
    "threads", "blocks", "registers" or "shared memory" (several where they agree)."""

    blocks: int
    warps: int
    most_warps: int
    limited_by: tuple[str, ...]
    by_resource: tuple[tuple[str, int], ...]

    @property
    def share(self) -> float:
        """The warps that are resident, of the most that could be."""
        return self.warps / self.most_warps


def occupancy(limits: SMLimits, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """Return the occupancy of a kernel: threads and bytes of shared memory of a block, registers of
    a thread.

    Registers are given by warp, in multiples of `register_unit`, shared memory in multiples of
    `shared_unit` plus what the system reserves for each block.
    """
    warps = -(-threads // limits.warp_size)
    most = {"threads": limits.threads // (warps * limits.warp_size), "blocks": limits.blocks}
    per_warp = _round_up(max(registers, 1) * limits.warp_size, limits.register_unit)
    warps_by_registers = limits.registers // per_warp // limits.warp_unit * limits.warp_unit
    most["registers"] = warps_by_registers // warps
    if registers > limits.registers_per_thread:
        most["registers"] = 0
    taken = _round_up(shared_bytes + limits.shared_reserved, limits.shared_unit)
    most["shared memory"] = limits.shared_bytes // taken if taken else limits.blocks
    if shared_bytes > limits.shared_per_block:
        most["shared memory"] = 0
    blocks = min(most.values())
    limited = tuple([name for name, count in most.items() if count == blocks])
    total = limits.threads // limits.warp_size
    return Occupancy(blocks, blocks * warps, total, limited, tuple(most.items()))


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit

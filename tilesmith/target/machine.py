"""Models machines: the properties of a CPU by which schedules are ranked.

Data only. A comment says which figures were measured; the others are the makers' figures, good
enough to rank candidates. Cache sizes and cores of this machine come from the system.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from tilesmith.target.calibration import adjusted, figures_of
from tilesmith.target.features import architecture, is_host, llvm_machine, target_features
from tilesmith.target.host import host_caches, host_cores
from tilesmith.target.kind import CPU
from tilesmith.target.target import Target

KIB = 1024


@dataclass(frozen=True)
class MachineModel:
    """One core with its vector unit, and the memory under it. Rates are per cycle and core."""

    name: str
    vector_bytes: int
    """Bytes of one vector register."""
    vector_registers: int
    has_fma: bool
    fma_per_cycle: int
    """Vector multiply-adds that start in one cycle."""
    fma_latency: int
    loads_per_cycle: int
    """Vector loads that start in one cycle."""
    front_end_width: int
    """Instructions that the front end delivers in one cycle."""
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    l2_bandwidth: float
    """Bytes per cycle from L2 to L1."""
    l3_bandwidth: float
    memory_bandwidth: float
    line_bytes: int = 64
    cores: int = 1
    has_gather: bool = False
    looks_up_singly: bool = False
    """Whether scattered elements are copied one by one sooner than in vectors."""
    can_mask: bool = False
    """Whether a vector load or store can leave lanes out at no cost."""
    broadcasts_from_memory: bool = False
    """Whether an FMA can take a scalar from memory as all lanes of an operand."""
    permutes_lanes: bool = False
    """Whether one instruction picks any lanes of a vector of 32-bit elements by an index vector."""
    row_prefetch: int = 0
    """Bytes by which reductions along rows fetch ahead; 0: better left to the machine."""
    l3_prefetch: int = 0
    """The same for what lies in L3."""
    panels_at_once: int = 1
    """Panels of weights beyond L2 that a product of one row reads side by side."""
    reduction_steps: int = 1
    """Steps of a reduction that the innermost loop of a register tile takes in one iteration."""
    row_waiting: float = 0.7
    """The share of the time for bytes from behind L2 that register tiles wait for the operand of
    their rows: its rows are far apart in time, so that the machine fetches them ahead."""
    panel_waiting: float = 0.7
    """The same for the panels, which a tile reads at the rate of its multiply-adds."""
    unaligned_lines: float = 0.0
    """Lines that a row of a panel takes up besides its bytes if nothing says where lines begin."""
    l1_ways: int = 8
    l2_ways: int = 16
    remote_bandwidth: float = 6.0
    """Bytes per cycle that a core reads of what another core has just written."""
    fork_cycles: float = 2000.0
    """Cycles to start a parallel loop and to wait for its end."""
    fewest_parallel_cycles: float = 8000.0
    """Cycles of work below which a loop stays on one thread. It is little more than threads cost:
    a loop on one thread also reads from far what other threads have written, and they its results.
    """

    def lanes(self, element_bits: int) -> int:
        """Elements of `element_bits` bits in one vector register."""
        return max(1, self.vector_bytes * 8 // element_bits)

    @property
    def least_accumulators(self) -> int:
        """The number of independent multiply-adds in flight that keeps the ports busy."""
        return self.fma_per_cycle * self.fma_latency

    def peak_flops_per_cycle(self, element_bits: int = 32) -> int:
        """Return the most multiplications and additions per cycle of one core."""
        per_lane = 2 if self.has_fma else 1
        return self.lanes(element_bits) * self.fma_per_cycle * per_lane


# Bandwidths of AVX512 were measured (Cascade Lake class: 42 B/cycle from L2, 10.5 from L3, 4.8 from
# DRAM, two 512-bit FMA ports with a latency of 4); its model of time reaches a rank correlation of
# 0.8 to 0.98 with measured kernels. Those of AVX2 were measured by `inspect/machine_speed.py` on a
# machine of the Zen 3 class (two 256-bit FMA ports, two loads per cycle; 31, 24 and 7 B/cycle).
# There, a vector times 64 MB of weights takes 24 % less time with four panels at once.
# There 4 steps of a reduction in an iteration of the innermost loop make products 2 to 25 % faster
# than one (2 steps: 0 to 19 %); with the larger tiles of AVX512 it was no gain. Arrays of numpy lie
# 16 bytes behind the beginning of a line: 1x1 convolutions that read them in place took 1.5 times
# as long as with aligned data there, 1.0 on AVX512. Rows from L3 cost little: a product of 784 rows
# that come from there for each of 32 panels reached 94 % of the peak. Panels from there do: 2064^3
# took 1.3 times as long in blocks of 24 rows (each reads all panels again) as with panels outside.
AVX512 = MachineModel(
    name="avx512", vector_bytes=64, vector_registers=32, has_fma=True, fma_per_cycle=2,
    fma_latency=4, loads_per_cycle=2, front_end_width=4, l1_bytes=32 * KIB, l2_bytes=1024 * KIB,
    l3_bytes=32768 * KIB, l2_bandwidth=42.0, l3_bandwidth=10.5, memory_bandwidth=4.8,
    has_gather=True, can_mask=True, broadcasts_from_memory=True, permutes_lanes=True,
)  # fmt: skip
# Measured on Zen 5 (`znver5`), 3.8 GHz: 48 to 62 B/cycle from L2, 28 from L3, 10 to 11 from DRAM,
# two 512-bit FMA ports with a latency of 4. Fork and join of a warm pool take 0.1 us between cores
# that share L3, 1 us where they do not; what the other core wrote is read at 25 or 9 B/cycle.
# Prefetches 1.5 KB ahead make sums of rows that do not begin at a line 20 % faster (DRAM), 4 KB
# ahead 15 to 30 % (L3); those of AVX512 were measured to lose. A gather takes 24 cycles for 16
# elements, scalar copies 14.
ZEN_AVX512 = replace(
    AVX512, name="zen-avx512", front_end_width=8, l1_bytes=48 * KIB, l1_ways=12,
    l2_bandwidth=55.0, l3_bandwidth=28.0, memory_bandwidth=10.0, remote_bandwidth=9.0,
    row_prefetch=1536, l3_prefetch=4096, looks_up_singly=True,
)  # fmt: skip
AVX2 = MachineModel(
    name="avx2", vector_bytes=32, vector_registers=16, has_fma=True, fma_per_cycle=2,
    fma_latency=4, loads_per_cycle=2, front_end_width=5, l1_bytes=32 * KIB, l2_bytes=512 * KIB,
    l3_bytes=32768 * KIB, l2_bandwidth=31.0, l3_bandwidth=24.0, memory_bandwidth=7.0,
    has_gather=True, permutes_lanes=True, panels_at_once=4, reduction_steps=4,
    unaligned_lines=1.0, row_waiting=0.3,
)  # fmt: skip
AVX = replace(
    AVX2, name="avx", has_fma=False, fma_per_cycle=1, has_gather=False, permutes_lanes=False,
    panels_at_once=1, reduction_steps=1, unaligned_lines=0.0, row_waiting=0.7,
)  # fmt: skip
SSE = replace(
    AVX, name="sse", vector_bytes=16,
    l2_bytes=256 * KIB, l3_bytes=8192 * KIB, l2_bandwidth=16.0,
)  # fmt: skip
NEON = MachineModel(
    name="neon", vector_bytes=16, vector_registers=32, has_fma=True, fma_per_cycle=2,
    fma_latency=4, loads_per_cycle=2, front_end_width=4, l1_bytes=64 * KIB, l2_bytes=1024 * KIB,
    l3_bytes=16384 * KIB, l2_bandwidth=32.0, l3_bandwidth=12.0, memory_bandwidth=6.0,
)  # fmt: skip
NEON_SMALL = replace(
    NEON, name="neon-small", vector_registers=32, fma_per_cycle=1, loads_per_cycle=1,
    front_end_width=2, l1_bytes=32 * KIB, l2_bytes=512 * KIB, l3_bytes=0, l2_bandwidth=8.0,
    memory_bandwidth=2.0,
)  # fmt: skip
NEON_ARM32 = replace(NEON_SMALL, name="neon-arm32", vector_registers=16)
SCALAR = MachineModel(
    name="scalar", vector_bytes=8, vector_registers=16, has_fma=False, fma_per_cycle=1,
    fma_latency=4, loads_per_cycle=1, front_end_width=2, l1_bytes=16 * KIB, l2_bytes=0,
    l3_bytes=0, l2_bandwidth=4.0, l3_bandwidth=4.0, memory_bandwidth=2.0,
)  # fmt: skip

# CPUs whose vector unit is half as wide as usual for their features.
_SMALL_ARM = ("cortex-a53", "cortex-a55", "cortex-a35", "cortex-a34", "cortex-a510")


def machine_model(target: Target) -> MachineModel:
    """Return the model of a CPU target; cache sizes and cores are this machine's if it is the host.

    `-num-cores` overrides the number of cores, `-vector-width` (in bits) that of the vectors,
    `-machine=l2_bandwidth:60,…` any other figure. `calibration` has figures of CPUs by name and
    those that were measured here.
    """
    model = _class_of(target)
    if is_host(target):
        caches = host_caches()
        if caches is not None:
            model = replace(
                model,
                l1_bytes=caches.l1,
                l1_ways=max(1, caches.l1 // 4096),  # a way is one page
                l2_bytes=caches.l2 or model.l2_bytes,
                l3_bytes=caches.l3,
                line_bytes=caches.line,
            )
    model = adjusted(model, target)
    cores = target.num_cores or (1 if target.mtriple else host_cores())
    width = target.attrs.get("vector-width")
    return replace(model, cores=cores, vector_bytes=width // 8 if width else model.vector_bytes)


def sources(target: Target) -> dict[str, str]:
    """Return where each figure of `machine_model(target)` comes from, by its name."""
    model = machine_model(target)
    found = {one.name: f"class {model.name}" for one in fields(model)}
    found["cores"] = "target" if target.num_cores else "system"
    if is_host(target) and host_caches() is not None:
        asked = ("l1_bytes", "l1_ways", "l2_bytes", "l3_bytes", "line_bytes")
        found.update(dict.fromkeys(asked, "system"))
    found.update({name: one.source for name, one in figures_of(model, target).items()})
    if target.attrs.get("vector-width"):
        found["vector_bytes"] = "target"
    return found


def target_identity(target: Target) -> str:
    """Return a text for cache keys: equal when code made here for `target` may be used again.

    The target's own text is not enough: plain `llvm` means another CPU on another machine.
    """
    if target.kind.device_type != CPU:
        return target.to_json()
    machine = f" {llvm_machine(target)}" if target.kind.means_host else ""
    return f"{target.to_json()}{machine} {machine_model(target)}"


def _class_of(target: Target) -> MachineModel:
    features = target_features(target)
    family = architecture(target)
    if family == "x86":
        if "avx512f" in features:
            return ZEN_AVX512 if llvm_machine(target).cpu.startswith("znver") else AVX512
        if "avx2" in features and "fma" in features:
            return AVX2
        return AVX if "avx" in features else SSE
    if family == "aarch64":
        return NEON_SMALL if target.mcpu in _SMALL_ARM else NEON
    if family == "arm":
        return NEON_ARM32 if "neon" in features else SCALAR
    return SCALAR

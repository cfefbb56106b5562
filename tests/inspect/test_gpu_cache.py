"""cache_report: computed traffic is what a run in lockstep shows, and what one counts by hand."""

from dataclasses import replace

import numpy as np
import pytest

from examples.gemm_ladder.ladder import STEPS, Tiling
from examples.gpu_convolution.convolution import Shape, schedule
from tilesmith.inspect import CacheObserver, cache_report, gpu_report
from tilesmith.inspect.cache_simulation import LINE_BYTES, SectorCache
from tilesmith.ir.transform import PassContext
from tilesmith.schedule_rules.gpu.swizzle import order_grid
from tilesmith.script import tir as T
from tilesmith.support.errors import TypeMismatchError, UnsupportedError, VerifyError

SMALL = Tiling(tile=(32, 64), warps=(1, 2), lanes=(4, 4), depth=8)
CONV = Tiling(tile=(32, 32), warps=(1, 1), lanes=(4, 8), depth=8)


def ladder(name, sizes, order=None):
    step = STEPS[name]
    if name in ("double_buffering", "asynchronous_copies"):
        step = replace(step, tiling=SMALL)
    sch = step.schedule(*sizes)
    if order is not None:
        order_grid(sch, sch.get_block("C_update"), *order)
    return sch


ALONE = {"multiprocessors": 1, "l2_bytes": 8192}
BESIDE = {"multiprocessors": 2, "l2_bytes": 16384, "l1_bytes": 1024}
PROGRAMS = {
    "naive": (lambda: ladder("naive", (32, 48, 8)), ALONE),
    "wide loads": (lambda: ladder("wide_loads", (32, 128, 4)), BESIDE),
    "in another order": (lambda: ladder("double_buffering", (96, 128, 8), ("morton", 1)), BESIDE),
    "asynchronous copies": (lambda: ladder("asynchronous_copies", (32, 64, 32)), ALONE),
    "convolution": (lambda: schedule(Shape(1, 4, 5, 8, 20), CONV, "precomputed"), ALONE),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_addresses_are_those_of_a_run(name):
    """Blocks run one by one, or two side by side: all numbers are equal."""
    make, options = PROGRAMS[name]
    sch = make()
    observer = CacheObserver("H100", **options)
    with PassContext(config={"tir.use_async_copy": True}):
        found = gpu_report(sch, target="H100", blocks=99, statements=10**9, observers=[observer])
        computed = cache_report(sch, "H100", resident=1, **options)
    assert not found.findings
    assert computed.kernels[0].buffers == observer.report().kernels[0].buffers


def test_a_copy_moves_everything_once():
    """1024 floats: 128 sectors, each from memory, and as many back."""

    @T.prim_func
    def main(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32")):
        for i in T.thread_binding(8, "blockIdx.x"):
            for t in T.thread_binding(128, "threadIdx.x"):
                with T.block("B"):
                    v = T.axis.spatial(1024, i * 128 + t)
                    B[v] = A[v]

    kernel = cache_report(main).kernels[0]
    read, written = kernel.buffers["A"], kernel.buffers["B"]
    assert (read.requested_bytes, read.sectors, read.l2_hits, read.read_bytes) == (
        4096,
        128,
        0,
        4096,
    )
    assert (written.sectors, written.read_bytes, written.written_bytes) == (128, 0, 4096)
    assert kernel.dram_bytes == 8192 and kernel.l2_hit_rate == 0.0


def test_tiles_are_read_once_for_each_column_of_blocks():
    report = cache_report(STEPS["block_swizzle"].schedule(512, 512, 256), "H100")
    a = report.kernels[0].buffers["A"]
    assert a.sectors * 32 == 512 * 256 * 4 * 4
    assert a.read_bytes == 512 * 256 * 4
    assert "L2 hits" in str(report) and '"read_bytes"' in report.to_json()


def test_orders_that_share_more_read_less():
    """A grid of 4 x 8 tiles, 8 at a time, and an L2 that holds little else."""

    def read(order):
        sch = STEPS["wide_loads"].schedule(64, 512, 32)
        order_grid(sch, sch.get_block("C_update"), *order)
        options = {"multiprocessors": 8, "resident": 1, "l2_bytes": 24576}
        return cache_report(sch, "H100", **options).kernels[0].total("read_bytes")

    assert read(("rows", 2)) < 0.8 * read(("rows", 0))


def oldest_out(accesses, sets_of, ways):
    """A cache of whole lines, the plain way: how many accesses miss."""
    sets, misses = {}, 0
    for line in accesses:
        held = sets.setdefault(int(sets_of(np.array([line]))[0]), [])
        if line in held:
            held.remove(line)
        else:
            misses += 1
            del held[: max(0, len(held) - ways + 1)]
        held.append(line)
    return misses


@pytest.mark.parametrize("seed", range(3))
def test_caches_replace_what_was_not_used_longest(seed):
    rng = np.random.default_rng(seed)
    lines = rng.integers(0, 60, 500)
    cache = SectorCache(16 * LINE_BYTES, 4)
    all_sectors, reads = np.full(500, 15, np.uint8), np.zeros(500, bool)
    missing, lost, _ = cache.access(lines, all_sectors, reads)
    assert (missing != 0).sum() == oldest_out(lines, cache.set_of, 4)
    assert not len(lost)


def test_written_sectors_reach_memory_once():
    cache = SectorCache(LINE_BYTES * 2, 2)
    lines, writes = np.array([1, 1, 2, 3, 4]), np.array([True, True, False, False, False])
    masks = np.array([1, 2, 15, 15, 15], np.uint8)
    missing, lost, counts = cache.access(lines, masks, writes)
    assert missing.tolist() == [0, 0, 15, 15, 15]
    assert (lost.tolist(), counts.tolist()) == ([1], [2])
    assert not len(cache.flush()[0])


def test_addresses_from_data_are_refused():
    @T.prim_func
    def main(
        A: T.Buffer((8,), "float32"), N: T.Buffer((8,), "int32"), B: T.Buffer((8,), "float32")
    ):
        for t in T.thread_binding(8, "threadIdx.x"):
            with T.block("B"):
                v = T.axis.spatial(8, t)
                B[v] = A[N[v]]

    with pytest.raises(UnsupportedError, match="contents of 'N'"):
        cache_report(main)


def test_other_programs_are_refused():
    with pytest.raises(TypeMismatchError, match="cache_report takes"):
        cache_report(3)

    @T.prim_func
    def main(B: T.Buffer((8,), "float32")):
        for i in range(8):
            B[i] = T.float32(1)

    with pytest.raises(VerifyError, match="outside of all threads"):
        cache_report(main)


def test_a_schedule_says_how_many_blocks_are_on_a_multiprocessor():
    step = STEPS["double_buffering"]
    reports = [
        cache_report(replace(step, tiling=replace(SMALL, blocks=blocks)).schedule(32, 64, 8))
        for blocks in (0, 29)
    ]
    assert [report.kernels[0].resident for report in reports] == [16, 29]

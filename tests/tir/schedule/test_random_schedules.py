"""Primitives in any order: the program computes the same, or a refusal changed nothing."""

import os
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tir.schedule import programs_script as programs
from tests.tir.schedule.harness import main_of, schedule_of
from tests.tir.schedule.test_tuple_reductions_script import argmin
from tests.tir.transform.harness import assert_same_results
from tilesmith.tir.schedule import ScheduleError

EXAMPLES = int(os.environ.get("SCHEDULE_EXAMPLES", 12))  # more are drawn anew each time


class Choices:
    """Draws blocks, loops and numbers of the program as it is now."""

    def __init__(self, data, sch):
        self.data = data
        self.sch = sch

    def number(self, low, high):
        return self.data.draw(st.integers(low, high))

    def among(self, values):
        return values[self.number(0, len(values) - 1)]

    def block(self):
        block = self.among(self.sch.get_child_blocks(self.sch.get_block("root")))
        inner = self.sch.get_child_blocks(block)  # of a block that blockize has made
        return self.among(inner) if inner and self.number(0, 2) else block

    def pair(self):
        """A block, and one that reads what it writes; often there is one."""
        pairs = []
        for producer in self.sch.get_child_blocks(self.sch.get_block("root")):
            pairs += [(producer, consumer) for consumer in self.sch.get_consumers(producer)]
        return self.among(pairs) if pairs else (self.block(), self.block())

    def loop_of(self, block):
        return self.among(self.loops_of(block))

    def loops_of(self, block):
        loops = self.sch.get_loops(block)
        if not loops:
            raise ScheduleError("this block has no loops")
        return loops

    def read(self, block):
        """The number of a buffer that a block reads."""
        return self.number(0, max(len(self.sch.get(block).reads) - 1, 0))

    def loops(self):
        return self.loops_of(self.block())

    def loop(self):
        return self.among(self.loops())


def split(sch, draw):
    sch.split(draw.loop(), [None, draw.number(1, 5)], preserve_unit_iters=draw.number(0, 1) == 1)


def fuse(sch, draw):
    loops = draw.loops()
    start = draw.number(0, len(loops) - 1)
    sch.fuse(*loops[start : start + 2])


def reorder(sch, draw):
    loops = draw.loops()
    order = draw.data.draw(st.permutations(list(range(len(loops)))))
    sch.reorder(*[loops[k] for k in order[: draw.number(1, len(loops))]])


def partition(sch, draw):
    sch.loop_partition(draw.loop(), [draw.number(1, 4), None])


def compute_at(sch, draw):
    producer, consumer = draw.pair()
    loop = draw.loop_of(consumer)
    sch.compute_at(producer, loop, draw.number(0, 1) == 1, index=draw.among([-1, -1, -2, 0, 1]))


def reverse_compute_at(sch, draw):
    producer, consumer = draw.pair()
    loop = draw.loop_of(producer)
    sch.reverse_compute_at(
        consumer, loop, draw.number(0, 1) == 1, index=draw.among([-1, -1, -2, 0, 1])
    )


def compute_inline(sch, draw):
    sch.compute_inline(draw.pair()[0])


def reverse_compute_inline(sch, draw):
    sch.reverse_compute_inline(draw.pair()[1])


def cache_read(sch, draw):
    block = draw.block()
    sch.cache_read(block, draw.read(block), "global")


def cache_write(sch, draw):
    sch.cache_write(draw.block(), 0, "global")


def reduction(sch, draw):
    """A block with an init; any if there is none."""
    blocks = sch.get_child_blocks(sch.get_block("root"))
    return draw.among([b for b in blocks if sch.get(b).init is not None] or blocks)


def decompose_reduction(sch, draw):
    block = reduction(sch, draw)
    sch.decompose_reduction(block, draw.loop_of(block))


def rfactor(sch, draw):
    """The innermost loops carry the reduction most often."""
    loops = draw.loops_of(reduction(sch, draw))
    sch.rfactor(loops[max(-len(loops), draw.number(-2, -1))], draw.number(0, 1))


def parallel(sch, draw):
    sch.parallel(draw.loop())


def vectorize(sch, draw):
    sch.vectorize(draw.loop())


def unroll(sch, draw):
    sch.unroll(draw.loop())


def add_unit_loop(sch, draw):
    sch.add_unit_loop(draw.loop())


def transform_layout(sch, draw):
    block = draw.block()
    buffer = sch.get(block).writes[0].buffer
    factor = draw.number(2, 4)
    if any(buffer is parameter for parameter in main_of(sch).buffer_map.values()):
        return  # the callers would have to know

    def tiled(*indices):
        return [*indices[:-1], indices[-1] // factor, indices[-1] % factor]

    def turned(*indices):
        return list(indices[::-1])

    sch.transform_layout(block, ("write", 0), tiled if draw.number(0, 1) else turned)


def merge(sch, draw):
    """Loops of two nests that stand one after the other."""
    blocks = sch.get_child_blocks(sch.get_block("root"))
    number = draw.number(0, len(blocks) - 1)
    first, second = blocks[number], blocks[(number + 1) % len(blocks)]
    alike, depth = draw.number(0, 1), draw.number(0, 1)
    with suppress(ScheduleError, IndexError):
        for block in (first, second) if alike else ():
            sch.fuse(*sch.get_loops(block))
        sch.merge(sch.get_loops(first)[depth], sch.get_loops(second)[depth])


def reindex(sch, draw):
    block = draw.block()
    sch.reindex(block, draw.among([("read", draw.read(block)), ("write", 0)]))


def index_maps(draw):
    """Some maps of the iterators of a block; not all serve."""
    order = draw.data.draw(st.permutations(list(range(4))))
    factor = draw.number(2, 4)

    def permuted(*iterators):
        return [iterators[k] for k in order if k < len(iterators)]

    def tiled(*iterators):
        if not iterators:
            return [0]
        return [*iterators[:-1], iterators[-1] // factor, iterators[-1] % factor]

    def fused(*iterators):
        return [*iterators[:-2], iterators[-1] * 20 + iterators[-2]] if iterators[1:] else iterators

    return draw.among([permuted, tiled, fused])


def reindex_cache_read(sch, draw):
    block = draw.block()
    sch.reindex_cache_read(block, draw.read(block), "local", index_maps(draw))


def reindex_cache_write(sch, draw):
    sch.reindex_cache_write(draw.block(), 0, "local", index_maps(draw))


def cache_inplace(sch, draw):
    """Of a block that reads what it writes, if there is one."""
    blocks = sch.get_child_blocks(sch.get_block("root"))
    changed = [
        (block, number)
        for block in blocks
        for number, region in enumerate(sch.get(block).reads)
        if any(region.buffer is other.buffer for other in sch.get(block).writes)
    ]
    block, number = draw.among(changed or [(blocks[0], 0)])
    sch.cache_inplace(block, number, "local")


def cache_index(sch, draw):
    sch.cache_index(draw.block(), "global", draw.number(0, 2))


def read_at(sch, draw):
    block = draw.block()
    sch.read_at(draw.loop_of(block), block, draw.read(block), "shared")


def write_at(sch, draw):
    block = draw.block()
    sch.write_at(draw.loop_of(block), block, 0, "shared")


def rolling_buffer(sch, draw):
    sch.rolling_buffer(draw.pair()[0], 0)


def compute_at_and_roll(sch, draw):
    block, consumer = draw.pair()
    sch.compute_at(block, draw.loop_of(consumer))
    with suppress(ScheduleError):  # the move stands
        sch.rolling_buffer(block, 0)


def sampled_location(sch, draw):
    block = draw.block()
    sch.seed(draw.number(0, 99))
    sch.compute_at(block, sch.sample_compute_location(block))


def sampled_tile(sch, draw):
    loop = draw.loop()
    sch.seed(draw.number(0, 99))
    sch.split(loop, sch.sample_partitioned_tile(loop, 2, 1, draw.number(1, 3)))


def bind(sch, draw):
    """Only outermost loops: all loops of a kernel on one axis need the same extent."""
    sch.bind(draw.loops()[0], "blockIdx.x")


def reorder_block_iter_var(sch, draw):
    block = draw.block()
    order = list(range(len(sch.get(block).iter_vars)))
    sch.reorder_block_iter_var(block, draw.data.draw(st.permutations(order)))


def transform_block_layout(sch, draw):
    sch.transform_block_layout(draw.block(), index_maps(draw))


def cache_consumers(sch, draw):
    block = draw.block()
    if draw.number(0, 1):
        sch.cache_read(block, draw.read(block), "local", [draw.block()])
    else:
        sch.cache_write(block, 0, "local", [draw.block()])


def set_scope(sch, draw):
    sch.set_scope(draw.block(), 0, draw.among(["shared", "local", "global"]))


def blockize(sch, draw):
    sch.blockize(draw.loop())


PRIMITIVES = [
    split, fuse, reorder, partition, compute_at, reverse_compute_at, compute_inline,
    reverse_compute_inline, cache_read, cache_write, decompose_reduction, rfactor, parallel,
    vectorize, unroll, add_unit_loop, transform_layout, merge, reindex, reindex_cache_read,
    reindex_cache_write, cache_inplace, cache_index, read_at, write_at, rolling_buffer,
    compute_at_and_roll, sampled_location, sampled_tile, bind, reorder_block_iter_var,
    transform_block_layout, cache_consumers, set_scope, blockize,
]  # fmt: skip
PROGRAMS = [
    programs.elementwise, programs.elementwise64, programs.matmul_relu, programs.stencil,
    programs.padded, programs.row_softmax_sums, programs.three_stages, programs.convolution,
    programs.flattened, programs.strided, programs.changed_in_place, argmin,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=[str(k) for k in range(len(PROGRAMS))])
@settings(
    max_examples=EXAMPLES,
    derandomize=EXAMPLES <= 12,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_random_schedules(program, data):
    sch = schedule_of(program, error_render_level="fast")
    draw = Choices(data, sch)
    done = []
    for _ in range(data.draw(st.integers(1, 6))):
        step = draw.among(PRIMITIVES)
        before = main_of(sch)
        try:
            step(sch, draw)
        except ScheduleError as error:
            if main_of(sch) is not before:
                raise AssertionError(f"{step.__name__} refused and changed the program") from error
        else:
            done.append(step.__name__)
    if done:
        try:
            assert_same_results(program, main_of(sch))
        except Exception as error:
            raise AssertionError(f"{done}\n{sch.trace}\n{main_of(sch).script()}") from error

"""Primitives on whole blocks among others: the results stay, or a refusal changed nothing."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tir.schedule import programs_script as programs
from tests.tir.schedule import test_random_schedules as others
from tests.tir.schedule.harness import main_of, schedule_of
from tests.tir.schedule.test_padding_script import batched_with_producer, padded, product
from tests.tir.schedule.test_tensorize_script import convolution
from tests.tir.transform.harness import assert_same_results
from tilesmith.tir.schedule import ScheduleError


class Choices(others.Choices):
    """Draws among all blocks, those inside of others too."""

    def blocks(self):
        found, todo = [], [self.sch.get_block("root")]
        while todo:
            inner = self.sch.get_child_blocks(todo.pop())
            found += inner
            todo += inner
        return found

    def block(self):
        return self.among(self.blocks())


def blockize(sch, draw):
    loop = draw.loop()
    target = draw.block() if loop is None or draw.number(0, 3) == 0 else loop
    sch.blockize(target, preserve_unit_iters=draw.number(0, 1) == 1)


def blockize_several(sch, draw):
    one = draw.block()
    scope = sch.state.scope(sch.get_sref(one))
    beside = [b for b in draw.blocks() if sch.state.scope(sch.get_sref(b)) is scope]
    sch.blockize([one, draw.among(beside)] if draw.number(0, 1) else beside)


def pad_einsum(sch, draw):
    block = draw.block()
    sch.pad_einsum(block, [draw.number(1, 4) for _ in sch.get(block).iter_vars])


def decompose_padding(sch, draw):
    block = draw.block()
    loops = sch.get_loops(block)
    if loops:
        sch.decompose_padding(block, draw.among(loops))


def fuse_reduction_epilogue(sch, draw):
    sch.fuse_reduction_epilogue(draw.block(), draw.block())


def set_axis_separator(sch, draw):
    sch.set_axis_separator(draw.block(), ("write", 0), [1])


BLOCKS = [
    blockize, blockize, blockize_several, pad_einsum, decompose_padding, fuse_reduction_epilogue,
    set_axis_separator,
]  # fmt: skip
LOOPS = [
    others.split, others.compute_at, others.reverse_compute_at, others.compute_inline,
    others.reverse_compute_inline, others.cache_read, others.cache_write,
    others.decompose_reduction, others.unroll, others.add_unit_loop, others.partition,
]  # fmt: skip
PROGRAMS = [
    programs.elementwise64, programs.matmul_relu, programs.stencil, programs.three_stages,
    batched_with_producer, padded, product, convolution,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=[str(k) for k in range(len(PROGRAMS))])
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_random_blocks(program, data):
    sch = schedule_of(program, error_render_level="fast")
    draw = Choices(data, sch)
    done = []
    for _ in range(data.draw(st.integers(1, 5))):
        step = draw.among(BLOCKS if draw.number(0, 1) else LOOPS)
        if step in LOOPS and not all(sch.get_loops(block) for block in draw.blocks()):
            continue  # those draw a loop of any block
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

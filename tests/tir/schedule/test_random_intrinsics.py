"""tensorize with intrinsics derived from the block itself: whatever it looks like, it matches."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tir.schedule import programs_script as programs
from tests.tir.schedule.harness import main_of, schedule_of
from tests.tir.schedule.test_padding_script import batched_with_producer, product
from tests.tir.schedule.test_tensorize_script import batched, convolution
from tests.tir.transform.harness import assert_same_results
from tilesmith import tir
from tilesmith.arith import Analyzer
from tilesmith.ir import Range, Rewriter, Var, const, is_const
from tilesmith.tir import BufferRegion, IterVar
from tilesmith.tir.functor import renew_defs, substitute
from tilesmith.tir.schedule import ScheduleError


class Rebased(Rewriter):
    """Accesses to regions of buffers become accesses to buffers of their own."""

    def __init__(self, regions, kept, strides):
        self.buffers = {}
        self.starts = {}
        self.analyzer = Analyzer()
        for region in regions:
            if region.buffer in self.buffers:
                continue
            rank = kept(region)
            first = len(region.region) - rank
            shape = [part.extent for part in region.region[first:]]
            dtype = shape[0].dtype
            self.starts[region.buffer] = (first, [part.min for part in region.region])
            self.buffers[region.buffer] = tir.decl_buffer(
                shape,
                region.buffer.dtype,
                region.buffer.name + "_part",
                elem_offset=Var("offset", dtype),
                offset_factor=1,
                strides=[Var("stride", dtype) for _ in shape] if strides else None,
            )

    def indices(self, node):
        first, starts = self.starts[node.buffer]
        moved = [self.analyzer.simplify(i - s) for i, s in zip(node.indices, starts)]
        return tuple([self.visit(index) for index in moved[first:]])

    def visit_BufferLoad(self, load):
        return tir.BufferLoad(self.buffers[load.buffer], self.indices(load))

    def visit_BufferStore(self, store):
        buffer, value = self.buffers[store.buffer], self.visit(store.value)
        return tir.BufferStore(buffer, value, self.indices(store))

    def visit_BufferRegion(self, region):
        first, starts = self.starts[region.buffer]
        parts = [
            Range.from_min_extent(self.visit(self.analyzer.simplify(p.min - s)), p.extent)
            for p, s in zip(region.region, starts)
        ]
        return BufferRegion(self.buffers[region.buffer], tuple(parts[first:]))

    def function(self, body):
        """A function over the new buffers."""
        params = [Var(buffer.name + "_handle", "handle") for buffer in self.buffers.values()]
        whole = [BufferRegion.full_region(buffer) for buffer in self.buffers.values()]
        root = tir.Block((), whole, whole[-1:], "root", body)
        realize = tir.BlockRealize((), const(True, "bool"), root)
        mapping = dict(zip(params, self.buffers.values()))
        return renew_defs(tir.PrimFunc(params, realize, buffer_map=mapping))


def plain_loops(stmt):
    """A nest without its block."""
    if isinstance(stmt, tir.For):
        return stmt.with_fields(body=plain_loops(stmt.body))
    values = dict(zip([i.var for i in stmt.block.iter_vars], stmt.iter_values))
    return substitute(stmt.block.body, values)


def derived_intrinsic(block, draw):
    """Description and implementation of what a block does, dimensions in front left out or not."""
    regions = [*block.reads, *block.writes]
    written = block.writes[0].buffer
    ordered = [r for r in regions if r.buffer is not written] + [block.writes[0]]
    ranks = {}

    def kept(region):
        rank = len(region.region)
        if region.buffer not in ranks:
            while rank > 1 and is_const(region.region[-rank].extent, 1) and draw(st.booleans()):
                rank -= 1
            ranks[region.buffer] = rank
        return ranks[region.buffer]

    functions = []
    for strides in (False, True):
        rebased = Rebased(ordered, kept, strides)
        body = block.body if not strides else plain_loops(block.body)
        functions.append(rebased.function(rebased.visit(body)))
    return tir.TensorIntrin(*functions)


CASES = [
    (programs.elementwise, "B"), (programs.elementwise64, "C"), (programs.stencil, "B"),
    (programs.matmul, "C"), (programs.matmul64, "C"), (product, "C"), (batched, "C"),
    (convolution, "Y"), (batched_with_producer, "C"), (batched_with_producer, "Y"),
]  # fmt: skip


@pytest.mark.parametrize("program, name", CASES, ids=[str(k) for k in range(len(CASES))])
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_derived_intrinsics(program, name, data):
    sch = schedule_of(program, error_render_level="fast")
    block = sch.get_block(name)
    for loop in sch.get_loops(block):
        extent = int(sch.get(loop).extent)
        divisors = [k for k in range(1, extent + 1) if extent % k == 0]
        sch.split(
            loop, [None, data.draw(st.sampled_from(divisors))],
            preserve_unit_iters=data.draw(st.booleans()),
        )  # fmt: skip
    loops = sch.get_loops(block)
    outer, inner = loops[::2], loops[1::2]
    sch.reorder(*data.draw(st.permutations(outer)), *data.draw(st.permutations(inner)))
    place = sch.get_loops(block)[data.draw(st.integers(0, len(loops) - 1))]
    try:
        made = sch.blockize(place)
    except ScheduleError:
        return  # the outer loops among the inner ones do not divide
    if sch.get(made).init is not None and sch.get_loops(made):
        sch.decompose_reduction(made, sch.get_loops(made)[0])
    elif sch.get(made).init is not None:
        return
    (child,) = sch.get_child_blocks(made)
    if sch.get(child).init is not None:
        return
    intrin = derived_intrinsic(sch.get(made), data.draw)
    sch.tensorize(made, intrin)
    assert sch.get(made).match_buffers
    assert_same_results(program, main_of(sch))
    assert all(isinstance(i, IterVar) for i in sch.get(made).iter_vars)

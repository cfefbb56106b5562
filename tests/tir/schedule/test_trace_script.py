"""Traces, sampling, copies and seeds."""

import ast
import json

import pytest

from tests.tir.schedule import programs_script as programs
from tests.tir.schedule.harness import check, main_of, refused, schedule_of
from tests.tir.transform.harness import assert_same_results
from tilesmith.ir import IRModule, assert_structural_equal
from tilesmith.script import tir as T
from tilesmith.tir.schedule import BlockRV, ScheduleError, StmtSRef, Trace
from tilesmith.tir.schedule.primitives.sampling import perfect_tiles


def tile(sch):
    """A sampled tiling of the matrix product."""
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i_factors = sch.sample_perfect_tile(i, n=2, max_innermost_factor=8)
    k_factors = sch.sample_perfect_tile(k, n=2)
    width = sch.sample_categorical([2, 3, 4], [0.25, 0.25, 0.5])
    i0, i1 = sch.split(i, i_factors)
    j0, j1 = sch.split(j, [None, width])
    k0, k1 = sch.split(k, k_factors)
    sch.reorder(i0, j0, k0, i1, j1, k1)
    sch.get_producers(block)
    sch.enter_postproc()
    sch.unroll(k1)
    sch.annotate(block, "width", width)


def test_sampled_tiles():
    sch = check(programs.matmul_relu, tile)
    kinds = [inst.kind.name for inst in sch.trace.insts]
    assert kinds.count("Split") == 3 and "GetProducers" in kinds
    simple = sch.trace.simplified(remove_postproc=True)
    kinds = [inst.kind.name for inst in simple.insts]
    assert "GetProducers" not in kinds and "Unroll" not in kinds and "EnterPostproc" not in kinds
    assert kinds[-1] == "Reorder"


def test_trace_as_python_runs():
    sch = schedule_of(programs.matmul_relu, seed=3)
    tile(sch)
    text = str(sch.trace)
    ast.parse(text)
    names = {}
    source = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    exec(source.replace("sch: tir.Schedule", "sch"), names)
    other = schedule_of(programs.matmul_relu)
    names["apply_trace"](other)
    assert_structural_equal(main_of(other), main_of(sch))


def test_single_results_of_lists_are_unpacked():
    sch = schedule_of(programs.stencil)
    (loop,) = sch.get_loops(sch.get_block("B"))
    assert "l1, = sch.get_loops(" in str(sch.trace)
    sch.add_unit_loop(loop)
    assert "l2 = sch.add_unit_loop(" in str(sch.trace)


def test_decisions():
    sch = schedule_of(programs.matmul_relu, seed=1)
    tile(sch)
    samples = [inst for inst in sch.trace.insts if inst.kind.name == "SamplePerfectTile"]
    first = samples[0]
    product = 1
    for factor in sch.trace.get_decision(first):
        product *= factor
    assert product == 9
    changed = sch.trace.with_decision(first, [1, 9], remove_postproc=True)
    other = schedule_of(programs.matmul_relu)
    changed.apply_to_schedule(other, remove_postproc=True)
    extents = [int(other.get(loop).extent) for loop in other.get_loops(other.get_block("C"))]
    assert extents[0] == 1 and extents[3] == 9
    assert_same_results(programs.matmul_relu, main_of(other))

    def provider(inst, inputs, attrs, decision):
        return [3, 3] if inst is first else decision

    third = schedule_of(programs.matmul_relu)
    sch.trace.apply_to_schedule(third, False, provider)
    extents = [int(third.get(loop).extent) for loop in third.get_loops(third.get_block("C"))]
    assert (extents[0], extents[3]) == (3, 3)


def test_append_pop_and_copy_of_a_trace():
    sch = schedule_of(programs.matmul, seed=0)
    loop = sch.get_loops(sch.get_block("C"))[0]
    sch.sample_perfect_tile(loop, 2)
    trace = sch.trace.copy()
    inst = trace.pop()
    assert inst.kind.name == "SamplePerfectTile" and trace.get_decision(inst) is None
    assert len(sch.trace.insts) == len(trace.insts) + 1 and sch.trace.get_decision(inst)
    sch.enter_postproc()
    assert sch.trace.pop() is None


def test_seeds():
    def decisions(sch):
        tile(sch)
        return list(sch.trace.decisions.values())

    def with_seed(seed):
        return decisions(schedule_of(programs.matmul_relu, seed=seed))

    assert with_seed(5) == with_seed(5)
    assert len({str(with_seed(seed)) for seed in range(8)}) > 1
    sch = schedule_of(programs.matmul_relu)
    sch.seed(5)
    assert decisions(sch) == with_seed(5)
    assert isinstance(sch.fork_seed(), int)


def test_copies_are_independent():
    sch = schedule_of(programs.elementwise, seed=0)
    block = sch.get_block("B")
    i, j = sch.get_loops(block)
    sch.split(i, [None, 2])
    copy = sch.copy()
    before, steps = main_of(sch), len(sch.trace.insts)
    copy.parallel(copy.get_loops(block)[0])  # random variables are valid in both
    copy.compute_inline(block)
    assert main_of(sch) is before and len(sch.trace.insts) == steps
    sch.unroll(j)
    sch.split(sch.get_loops(sch.get_block("C"))[1], [None, 5])
    with pytest.raises(ScheduleError, match="no longer part of the program"):
        copy.get(block)
    for one in (sch, copy):
        assert_same_results(programs.elementwise, main_of(one))
    again = copy.copy()
    again.fuse(*again.get_loops(again.get_block("C")))
    assert len(copy.get_loops(copy.get_block("C"))) == 2


def test_replay_on_another_program():
    sch = schedule_of(programs.elementwise)
    sch.get_loops(sch.get_block("B"))
    with pytest.raises(
        ScheduleError, match="replaying GetLoops gave 1 results where the trace has 2"
    ):
        sch.trace.apply_to_schedule(schedule_of(programs.stencil), False)
    with pytest.raises(ScheduleError, match="not a trace in JSON form"):
        Trace.apply_json_to_schedule(json.dumps({"a": 1}), schedule_of(programs.stencil))
    rows = [[["GetLoops", ["b7"], [], ["l0"]]], []]
    with pytest.raises(ScheduleError, match="uses b7 before its definition"):
        Trace.apply_json_to_schedule(rows, schedule_of(programs.stencil))


def test_several_functions():
    module = IRModule(
        {
            "first": programs.elementwise.with_attr({"global_symbol": "first"}),
            "second": programs.matmul.with_attr({"global_symbol": "second"}),
        }
    )
    sch = schedule_of(module)
    with pytest.raises(ScheduleError, match="several functions"):
        sch.get_block("B")
    sch.work_on("first")
    sch.compute_inline(sch.get_block("B"))
    block = sch.get_block("C", func_name="second")
    sch.decompose_reduction(block, sch.get_loops(block)[2])
    assert_same_results(programs.elementwise, sch.mod["first"])
    assert_same_results(programs.matmul, sch.mod["second"])
    replay = schedule_of(module)
    sch.trace.apply_to_schedule(replay, remove_postproc=False)
    assert_structural_equal(replay.mod, sch.mod)


def test_error_render_levels():
    for level, lines in (("detail", 5), ("fast", 1), ("none", 1)):
        sch = schedule_of(programs.matmul, error_render_level=level)
        with pytest.raises(ScheduleError) as error:
            sch.parallel(sch.get_loops(sch.get_block("C"))[2])
        assert len(str(error.value).splitlines()) >= lines
        assert ("T.prim_func" in str(error.value)) == (level == "detail")
    with pytest.raises(ScheduleError, match="error_render_level is"):
        schedule_of(programs.matmul, error_render_level="loud")


def test_sample_categorical():
    sch = schedule_of(programs.matmul, seed=0)
    drawn = {sch.get(sch.sample_categorical([4, 8], [0.5, 0.5])) for _ in range(30)}
    assert drawn == {4, 8}
    assert sch.get(sch.sample_categorical([4, 8], [0.5, 0.5], decision=1)) == 8
    with pytest.raises(ScheduleError, match="2 candidates, but 1 probabilities"):
        sch.sample_categorical([4, 8], [1.0])
    with pytest.raises(ScheduleError, match="decision 2 is not among 2 candidates"):
        sch.sample_categorical([4, 8], [0.5, 0.5], decision=2)


def test_sample_perfect_tile():
    sch = schedule_of(programs.row_softmax_sums, seed=0)
    loop = sch.get_loops(sch.get_block("C"))[1]
    seen = set()
    for _ in range(60):
        factors = [sch.get(v) for v in sch.sample_perfect_tile(loop, 3, max_innermost_factor=4)]
        assert factors[0] * factors[1] * factors[2] == 12 and factors[2] <= 4
        seen.add(tuple(factors))
    assert seen <= set(perfect_tiles(12, 3, 4)) and len(seen) > 5
    # A decision made for another extent is fitted.
    fitted = [sch.get(v) for v in sch.sample_perfect_tile(loop, 3, decision=[1, 5, 4])]
    assert fitted == [1, 3, 4]
    refused(
        programs.row_softmax_sums,
        lambda sch: sch.sample_perfect_tile(sch.get_loops(sch.get_block("C"))[1], 3, decision=[12]),
        "the decision has 1 factors, 3 are asked for",
    )


@pytest.mark.parametrize("extent, parts, limit", [(1, 3, 16), (12, 2, 3), (13, 3, 64), (36, 4, 4)])
def test_perfect_tiles(extent, parts, limit):
    found = perfect_tiles(extent, parts, limit)
    assert len(found) == len(set(found))
    for factors in found:
        product = 1
        for factor in factors:
            product *= factor
        assert product == extent and factors[-1] <= limit


def test_sample_partitioned_tile():
    sch = schedule_of(programs.row_softmax_sums, seed=0)
    loop = sch.get_loops(sch.get_block("C"))[1]
    seen = set()
    for _ in range(60):
        factors = sch.sample_partitioned_tile(loop, 3, partition_pos=1, innerpart_factor=6)
        values = tuple(sch.get(v) for v in factors)
        assert values[0] * values[1] * values[2] == 12 and values[1] * values[2] % 6 == 0
        seen.add(values)
    assert len(seen) > 4
    fixed = sch.sample_partitioned_tile(loop, 2, 1, 4, decision=[3, 4])
    assert [sch.get(v) for v in fixed] == [3, 4]

    def sample(*arguments, **options):
        def step(sch):
            sch.sample_partitioned_tile(sch.get_loops(sch.get_block("C"))[1], *arguments, **options)

        return step

    program = programs.row_softmax_sums
    refused(program, sample(2, 2, 4), "partition_pos is 0 to 1, got 2")
    refused(program, sample(2, 1, 0), "innerpart_factor is at least 1, got 0")
    refused(program, sample(2, 1, 5), "the extent 12 is not a multiple of innerpart_factor 5")
    refused(program, sample(0), "0 factors cannot be drawn")
    refused(program, sample(2, 1, 4, decision=[4, 3]), "have an inner part of 3, no multiple of 4")

    def symbolic(sch):
        sch.sample_partitioned_tile(sch.get_loops(sch.get_block("B"))[0], 2)

    refused(programs.copy_symbolic, symbolic, "the extent is not constant")


def test_partitioned_tiles_replay():
    def steps(sch):
        block = sch.get_block("C")
        sch.split(
            sch.get_loops(block)[1],
            sch.sample_partitioned_tile(sch.get_loops(block)[1], 3, 1, 4),
        )

    check(programs.row_softmax_sums, steps)


def location(sch, name, decision=None):
    return sch.get(sch.sample_compute_location(sch.get_block(name), decision=decision))


def test_sample_compute_location():
    sch = schedule_of(programs.elementwise, seed=0)
    found = {location(sch, "B") for _ in range(30)}
    loops = {sch.get(loop) for loop in sch.get_loops(sch.get_block("C"))}
    assert found == {StmtSRef.root_mark(), StmtSRef.inline_mark(), *loops}
    # A reduction cannot be inlined, an output stays where it is.
    sch = schedule_of(programs.matmul_relu, seed=0)
    found = {location(sch, "C") for _ in range(30)}
    assert StmtSRef.inline_mark() not in found and len(found) == 3
    assert {location(sch, "D") for _ in range(5)} == {StmtSRef.root_mark()}
    # Two consumers that share no loop: inlining is what is left.
    sch = schedule_of(programs.three_stages, seed=0)
    marks = {StmtSRef.root_mark(), StmtSRef.inline_mark()}
    assert {location(sch, "B") for _ in range(9)} == marks


@pytest.mark.parametrize("decision", [-2, -1, 0, 1])
@pytest.mark.parametrize("name", ["B", "C"])
def test_compute_at_a_sampled_location(decision, name):
    def steps(sch):
        block = sch.get_block("B")
        sch.compute_at(block, sch.sample_compute_location(block, decision=decision))

    sch = check(programs.elementwise, steps)
    names = [inst.kind.name for inst in sch.trace.insts]
    assert names == ["GetBlock", "SampleComputeLocation", "ComputeAt"]
    blocks = len(sch.get_child_blocks(sch.get_block("root")))
    assert blocks == (1 if decision == -2 else 2)
    if decision == -1:
        assert main_of(sch) is programs.elementwise

    def reverse(sch):
        mark = sch.sample_compute_location(sch.get_block("B"), decision=-2)
        sch.reverse_compute_at(sch.get_block("C"), mark)

    check(programs.elementwise, reverse)


def test_marks_are_no_loops():
    def mark(sch):
        return sch.sample_compute_location(sch.get_block("B"), decision=-1)

    refused(programs.elementwise, lambda sch: sch.parallel(mark(sch)), "expected a loop, got the")
    refused(
        programs.elementwise,
        lambda sch: sch.sample_compute_location(sch.get_block("B"), decision=2),
        "decision 2 is not among 2 loops",
    )
    sch = schedule_of(programs.elementwise)
    sch.compute_at(sch.get_block("B"), StmtSRef.inline_mark())
    assert len(sch.get_child_blocks(sch.get_block("root"))) == 1


def test_arithmetic_on_sampled_values():
    def steps(sch):
        i, j = sch.get_loops(sch.get_block("B"))
        width = sch.sample_categorical([2], [1.0])
        sch.split(j, [None, width * 2])

    sch = schedule_of(programs.elementwise)
    steps(sch)
    assert int(sch.get(sch.get_loops(sch.get_block("B"))[2]).extent) == 4
    replay = schedule_of(programs.elementwise)
    sch.trace.apply_to_schedule(replay, False)
    assert_structural_equal(main_of(replay), main_of(sch))


def test_random_variables():
    sch = schedule_of(programs.elementwise)
    block = sch.get_block("B")
    assert sch.get_sref(sch.get(block)) is sch.get_sref(block)
    sch.remove_rv(block)
    assert len(sch.get_loops("B")) == 2  # names stand for blocks
    for foreign in (block, BlockRV(), 7, None):
        with pytest.raises(
            ScheduleError, match="a block or loop of this schedule|belongs to another schedule"
        ):
            sch.get_loops(foreign)


def test_other_functions_are_left_alone():
    """The cost of a primitive does not grow with the module: other functions are not looked at."""
    module = IRModule(dict.fromkeys(("main", "a", "b", "c"), programs.elementwise))
    sch = schedule_of(module)
    sch.compute_inline(sch.get_block("B"))
    assert [variable.name_hint for variable in sch.state._functions] == ["main"]
    assert all(sch.mod[name] is programs.elementwise for name in "abc")


@pytest.mark.parametrize(
    ("extent", "decision", "expected"),
    [
        (16, [3, 5], [1, 16]),
        (16, [5, 4], [4, 4]),
        (24, [7, 5, 4], [1, 6, 4]),
        (24, [2, 2, 5, 3], [1, 1, 8, 3]),
        (24, [48, 1], [24, 1]),
    ],
)
def test_decisions_for_another_extent_are_fitted_from_the_innermost_outward(
    extent, decision, expected
):
    @T.prim_func
    def fill(A: T.Buffer((extent,), "float32")):
        for i in range(extent):
            with T.block("A"):
                vi = T.axis.spatial(extent, i)
                A[vi] = T.float32(1)

    sch = schedule_of(fill)
    drawn = sch.sample_perfect_tile(sch.get_loops("A")[0], len(decision), 64, decision=decision)
    assert [int(sch.get(factor)) for factor in drawn] == expected


def test_a_block_given_by_its_name_is_recorded_as_what_was_found():
    sch = schedule_of(programs.elementwise)
    i, _ = sch.get_loops("C")
    sch.compute_at("B", i)
    sch.cache_read("C", 0, "local", consumer_blocks=["C"])
    text = str(sch.trace)
    assert 'block="' not in text and '["C"]' not in text, text
    replay = schedule_of(programs.elementwise)
    sch.trace.apply_to_schedule(replay, remove_postproc=False)
    assert str(replay.trace) == text
    assert_structural_equal(replay.mod, sch.mod)

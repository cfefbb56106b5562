"""Contractions: candidates compute what they should, and the model ranks them sensibly."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilesmith as ts
from tilesmith import te, topi
from tilesmith.schedule_rules import default_schedule
from tilesmith.schedule_rules.choices import capture_choices
from tilesmith.schedule_rules.contractions.contraction import find_contraction, product_of
from tilesmith.schedule_rules.contractions.loop_nest import loop_nest
from tilesmith.schedule_rules.contractions.register_tiles import schedule_contraction
from tilesmith.schedule_rules.contractions.search import Decision, candidates, choose
from tilesmith.schedule_rules.contractions.time_model import (
    Candidate,
    Product,
    levels_of,
    parallel_levels,
    predict,
)
from tilesmith.schedule_rules.elementwise.inline import inline_elementwise
from tilesmith.target import Target
from tilesmith.target.machine import ZEN_AVX512, machine_model
from tilesmith.tir.schedule import Schedule

ZEN = "llvm -mcpu=znver5 -num-cores=2"


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def matmul(m, k, n, lead=()):
    x = te.placeholder((*lead, m, k), name="x")
    y = te.placeholder((k, n), name="y")
    made = topi.nn.relu(topi.add(topi.matmul(x, y), 1.0))
    return te.create_prim_func([x, y, made], index_dtype_override="int64")


def run(function, x, y, shape):
    out = ts.nd.array(np.zeros(shape, "float32"))
    ts.build(function, target="llvm")["main"](ts.nd.array(x), ts.nd.array(y), out)
    return out.numpy()


def check(function, m, k, n, lead=()):
    x, y = random(*lead, m, k), random(k, n, seed=1)
    got = run(function, x, y, (*lead, m, n))
    np.testing.assert_allclose(got, np.maximum(x @ y + 1, 0), rtol=1e-4, atol=1e-4)


def product(m=512, k=512, n=512, **changes):
    given = {
        "batch": 1, "shared": 1, "rows": m, "columns": n, "depth": k, "left_bytes": 4 * m * k,
        "row_stride": 4 * k, "element_bytes": 4, "depth_stride": 4 * n, "may_pack": True,
    }  # fmt: skip
    return Product(**{**given, **changes})


def with_candidate(function, candidate, threads=1):
    """Return a function scheduled by one candidate instead of the winner."""
    sch = Schedule(function)
    inline_elementwise(sch)
    block = sch.get_block("T_matmul")
    plan = find_contraction(sch.get(block))
    decision = Decision(candidate, predict(product_of(plan), candidate, ZEN_AVX512), threads > 1)
    schedule_contraction(sch, block, plan, machine_model(Target("llvm")), threads, decision)
    return sch.mod["main"]


@given(
    m=st.integers(2, 21), k=st.integers(1, 20), n=st.integers(1, 70),
    rows=st.integers(1, 5), vectors=st.integers(1, 3), block=st.sampled_from([None, 1, 2]),
    packs=st.booleans(), threads=st.sampled_from([1, 2]),
)  # fmt: skip
@settings(max_examples=12, deadline=None, derandomize=True)
def test_candidates_compute_the_product(m, k, n, rows, vectors, block, packs, threads):
    candidate = Candidate(rows, vectors, block, packs and n > 1 and k > 1)
    check(with_candidate(matmul(m, k, n), candidate, threads), m, k, n)


@pytest.mark.parametrize("lead", [(2, 3), (5, 2, 3)])
def test_leading_axes_become_rows(lead):
    function = matmul(7, 24, 40, lead)
    made = default_schedule(function, Target(ZEN))
    assert f"T.axis.spatial(T.int64({7 * np.prod(lead)})" in made.script()
    check(made, 7, 24, 40, lead)


def test_open_leading_axes_become_rows():
    b, s = te.size_var("b", "int64"), te.size_var("s", "int64")
    made = default_schedule(matmul(s, 24, 40, (b,)), Target(ZEN))
    assert "b * s" in made.script()
    built = ts.build(made, target="llvm")["main"]
    for shape in ((1, 1), (3, 5), (2, 17), (0, 4)):
        x, y = random(*shape, 24), random(24, 40, seed=1)
        out = ts.nd.array(np.zeros((*shape, 40), "float32"))
        built(ts.nd.array(x), ts.nd.array(y), out)
        np.testing.assert_allclose(out.numpy(), np.maximum(x @ y + 1, 0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("k", "n"), [(40, 512), (33, 300), (8, 1003)])
@pytest.mark.parametrize("cores", [1, 2])
def test_one_row_reads_rows_of_the_matrix(k, n, cores):
    made = default_schedule(matmul(1, k, n), Target(f"llvm -num-cores={cores}"))
    assert "T.unroll(4, " in made.script().replace("T.int64(4)", "4")
    check(made, 1, k, n)


def test_one_row_with_an_open_number_of_columns():
    n = te.size_var("n", "int64")
    built = ts.build(default_schedule(matmul(1, 20, n), Target(ZEN)), target="llvm")["main"]
    for columns in (1, 64, 700, 2100):
        x, y = random(1, 20), random(20, columns, seed=1)
        out = ts.nd.array(np.zeros((1, columns), "float32"))
        built(ts.nd.array(x), ts.nd.array(y), out)
        np.testing.assert_allclose(out.numpy(), np.maximum(x @ y + 1, 0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("n", "pads"), [(1024, False), (1004, True)])
def test_an_operand_with_rows_in_few_sets_is_packed(n, pads):
    """Rows at a multiple of 4 KB evict each other; the copy has zeros behind the last column."""
    made = default_schedule(matmul(512, n, n), Target("llvm -mcpu=znver5 -num-cores=1"))
    assert ("y_global" in made.script()) != pads
    candidate = Candidate(8, 2, None, True)
    check(with_candidate(matmul(16, 12, n), candidate), 16, 12, n)


def test_the_nest_knows_strides_and_reuse():
    sch = Schedule(matmul(8, 24, 40))
    nest = loop_nest(sch.get(sch.get_block("T_matmul")))
    (i, j), (k,) = nest.spatial, nest.reduced
    left, right = nest.operands
    assert [left.stride(one.variable) for one in (i, j, k)] == [24, 0, 1]
    assert [right.stride(one.variable) for one in (i, j, k)] == [0, 1, 40]
    assert right.uses(j.variable) and not right.uses(i.variable)


def test_rows_without_a_divisor_get_a_tail_of_constant_size():
    text = ts.lower(default_schedule(matmul(197, 64, 64), Target(ZEN))).script()
    assert "if " not in text and "T.unroll(" in text


@pytest.mark.parametrize(
    ("better", "worse", "changes"),
    [
        (Candidate(8, 2, None, True), Candidate(8, 2, None, False), {"n": 1024, "m": 1024}),
        (Candidate(8, 3, None, False), Candidate(8, 3, None, True), {"m": 64, "k": 768, "n": 3072}),
        (Candidate(8, 2, None, False), Candidate(1, 4, None, False), {}),
        (Candidate(8, 3, None, True), Candidate(28, 1, None, True), {"k": 1024}),
        (Candidate(8, 2, None, True), Candidate(8, 2, 1, True), {"m": 2048, "n": 2048, "k": 2048}),
    ],
)
def test_the_model_ranks_as_measured(better, worse, changes):
    given = product(**changes)
    times = [predict(given, one, ZEN_AVX512).total for one in (better, worse)]
    assert times[0] < times[1]


def test_choices_are_recorded_and_repeatable():
    texts = []
    for _ in range(2):
        with capture_choices() as found:
            default_schedule(matmul(64, 64, 64), Target(ZEN))
        (choice,) = found
        texts.append(str(choice.to_json()))
        assert choice.considered[0].cycles > 0 and choice.reason
    assert texts[0] == texts[1] and "compute" in texts[0]
    with capture_choices() as outside:
        pass
    assert outside == []


def test_little_work_is_not_shared_and_much_is():
    machine = machine_model(Target(ZEN))
    assert not choose(product(16, 16, 16), machine, 2).is_parallel
    decision = choose(product(197, 64, 1000), machine, 2)
    assert decision.is_parallel
    levels = levels_of(product(197, 64, 1000), decision.candidate, machine)
    assert [level.name for level in levels][0] == "batch"
    found = candidates(product(), machine, 2)
    assert len(found) == len(set(found)) < 200


def test_threads_that_divide_columns_exchange_rows_and_those_that_divide_rows_nothing():
    pixels = product(196, 384, 64, packed_width=32, may_pack=False)
    rows = predict(pixels, Candidate(14, 2, 7, False), ZEN_AVX512, 2)
    columns = predict(pixels, Candidate(14, 2, None, False), ZEN_AVX512, 2)
    assert rows.exchange == 0 < columns.exchange
    assert (
        rows.compute
        == columns.compute
        < predict(pixels, Candidate(14, 2, 7, False), ZEN_AVX512).compute
    )
    made = choose(pixels, ZEN_AVX512, 2)
    levels = parallel_levels(levels_of(pixels, made.candidate, ZEN_AVX512), 2)
    assert made.is_parallel and levels[-1].name in ("blocks", "rows")


def test_a_smaller_last_tile_is_run_after_the_others():
    """Of 49 rows in tiles of 13 one thread runs two tiles, and the last 10 rows besides."""
    pixels = product(49, 960, 160, packed_width=32, may_pack=False)
    candidate = Candidate(13, 2, 1, False)
    alone, both = (predict(pixels, candidate, ZEN_AVX512, threads) for threads in (1, 2))
    assert both.compute == pytest.approx(alone.compute * 36 / 49)


@pytest.mark.parametrize("stride", [1, 2])
def test_pixels_of_a_1x1_window_become_rows(stride):
    x, w = te.placeholder((2, 7, 7, 12), name="x"), te.placeholder((2, 1, 1, 12, 16), name="w")
    y = topi.nn.conv2d_nhwc_packed(x, w, 24, [stride] * 2, [0] * 4, [1] * 2)
    made = default_schedule(
        te.create_prim_func([x, w, y], index_dtype_override="int64"), Target(ZEN)
    )
    assert ("T.axis.spatial(T.int64(98)" in made.script()) == (stride == 1)
    data, weights = random(2, 7, 7, 12), random(12, 32, seed=1)
    weights[:, 24:] = 0
    packed = weights.reshape(12, 2, 16).transpose(1, 0, 2).reshape(2, 1, 1, 12, 16).copy()
    out = ts.nd.array(np.zeros([int(size) for size in y.shape], "float32"))
    ts.build(made, target="llvm")["main"](ts.nd.array(data), ts.nd.array(packed), out)
    want = data[:, ::stride, ::stride] @ weights[:, :24]
    np.testing.assert_allclose(out.numpy(), want, rtol=1e-4, atol=1e-4)


def test_blocks_divide_the_tiles_of_rows_where_they_can():
    """A smaller last tile in a smaller last block has no constant size: slow code, slow to make."""
    rows = 56 * 56  # 224 tiles of 14 rows, 241 and a piece of 13
    pixels = product(rows, 64, 64, packed_width=32, may_pack=False)
    for threads in (1, 2):
        made = choose(pixels, ZEN_AVX512, threads).candidate
        assert made.block in (None, 1) or rows % (made.rows * made.block) == 0
    blocks = {
        one.block for one in candidates(pixels, ZEN_AVX512, 2) if one.rows == 14 and one.block
    }
    assert len(blocks) > 1 and all(224 % block == 0 for block in blocks)


@pytest.mark.parametrize(("rows", "block"), [(13, 2), (5, 5), (7, 4)])
def test_the_last_block_of_rows_is_a_branch_with_tiles_of_constant_size(rows, block):
    made = with_candidate(matmul(49, 24, 40), Candidate(rows, 2, block, False), threads=2)
    lowered = ts.lower(made).script()
    assert lowered.count("T.parallel") == 1 and "else:" in lowered
    assert "T.min(" not in lowered and "T.likely" not in lowered
    check(made, 49, 24, 40)


def test_the_largest_block_of_rows_decides_how_long_threads_take():
    pixels = product(49, 960, 160, packed_width=32, may_pack=False)
    for rows, block, share in ((7, 4, 28 / 49), (5, 5, 25 / 49)):
        candidate = Candidate(rows, 2, block, False)
        alone = predict(pixels, candidate, ZEN_AVX512, 1)
        both = predict(pixels, candidate, ZEN_AVX512, 2)
        assert both.compute == pytest.approx(alone.compute * share)


def test_results_of_a_register_tile_are_finished_one_by_one():
    """Sums, limits and stores take turns: stores side by side keep multiply-adds waiting."""
    shapes = {"x": (64, 16), "y": (16, 48), "z": (48,)}
    x, y, z = [te.placeholder(shape, name=name) for name, shape in shapes.items()]
    made = topi.nn.relu(topi.add(topi.matmul(x, y), z))
    function = default_schedule(te.create_prim_func([x, y, z, made]), Target(ZEN))
    text = ts.build(function, target=ZEN).get_source("asm")
    kinds = re.findall(r"^\t(vaddps|vmaxps|vmovups)\t", text, re.MULTILINE)
    longest = max(len(list(run)) for kind, run in itertools.groupby(kinds) if kind == "vaddps")
    assert kinds.count("vaddps") >= 12 and longest <= 3


@pytest.mark.parametrize("k", [2, 3, 8, 131])
@pytest.mark.parametrize("steps", [2, 3, 8])
def test_an_iteration_takes_several_steps_of_a_reduction(k, steps):
    target = Target(f"llvm -num-cores=1 -machine=reduction_steps:{steps}")
    made = default_schedule(matmul(9, k, 40), target)
    assert made.script().count(f'"llvm.loop.unroll.count": {steps}') == 1
    check(made, 9, k, 40)


@pytest.mark.parametrize(("cpu", "steps"), [("haswell", 4), ("znver3", 4), ("znver5", 1)])
def test_innermost_loops_for_avx2_hold_several_steps(cpu, steps):
    target = f"llvm -mcpu={cpu} -num-cores=1"
    with capture_choices() as found:
        function = default_schedule(matmul(1024, 64, 64), Target(target))
    rows, vectors = re.match(r"(\d+)x(\d+) vectors", found[0].considered[0].text).groups()
    assembly = ts.build(function, target=target).get_source("asm")
    loops = re.findall(r"^(\.LBB\w+):\n((?:\t.*\n)*?)\tj\w+\t\1\n", assembly, re.MULTILINE)
    products = [text.count("vfmadd") for _, text in loops]
    assert max(products) == steps * int(rows) * int(vectors)


def test_taps_of_windows_stay_loops():
    """Neighbouring results read the same elements at different taps: they do not fit registers."""
    x = te.placeholder((1, 20, 20, 1), name="x")
    w = te.placeholder((2, 3, 3, 1, 16), name="w")
    y = topi.nn.conv2d_nhwc_packed(x, w, 32, [1, 1], [0, 0, 0, 0], [1, 1])
    target = Target("llvm -mcpu=haswell -num-cores=1")
    text = default_schedule(te.create_prim_func([x, w, y]), target).script()
    assert "pragma_unroll_disable" in text and "llvm.loop.unroll.count" not in text


def test_short_rows_that_nothing_aligns_are_packed_on_avx2():
    """Each takes up a part of a line more: the panel falls out of L1; few row tiles bear it."""
    machine = machine_model(Target("llvm -mcpu=haswell -num-cores=1"))
    aligned = replace(machine, unaligned_lines=0.0)
    for rows, packs in ((256, True), (12, False)):
        pixels = product(rows, 64, 3136)
        assert choose(pixels, machine, 1).candidate.packs == packs
        assert not choose(pixels, aligned, 1).candidate.packs


def test_parts_of_lines_and_streams_from_l3_decide_for_high_tiles_on_avx2():
    """Pixels of a tile in NCHW at a stride of two: each step brings a line for each tile."""
    machine = machine_model(Target("llvm -mcpu=haswell -num-cores=1"))
    given = {"shared": 28, "left_bytes": 4 * 256 * 56 * 56, "row_stride": 8, "depth_stride": 64}
    pixels = product(28, 256, 512, packed_width=16, may_pack=False, **given)
    chosen = choose(pixels, machine, 1).candidate
    assert (chosen.rows, chosen.vectors, chosen.block) == (6, 2, 1)
    apart, near = [
        predict(pixels, chosen, one, 1) for one in (machine, replace(machine, unaligned_lines=0.0))
    ]
    assert apart.l2 > near.l2 and apart.l3 == near.l3
    waits = {"row_waiting": 2 * machine.row_waiting, "panel_waiting": 2 * machine.panel_waiting}
    slow = predict(pixels, chosen, replace(machine, **waits), 1)
    assert slow.l3 == pytest.approx(2 * apart.l3) and slow.stream == apart.stream


@pytest.mark.parametrize("size", [1536, 2048, 2064])
def test_large_products_do_not_read_panels_again_from_l3_on_avx2(size):
    """Blocks of a few row tiles read all panels again, at the rate of the multiply-adds."""
    machine = machine_model(Target("llvm -mcpu=haswell -num-cores=1"))
    given = product(size, size, size)
    chosen = choose(given, machine, 1).candidate
    assert chosen.block is None and chosen.packs
    blocks = replace(chosen, block=4)
    eager = replace(machine, panel_waiting=0.3)
    slow, quick = [predict(given, blocks, one, 1).l3 for one in (machine, eager)]
    assert slow > 1.5 * quick

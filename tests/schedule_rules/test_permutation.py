"""Permutations of axes: tiles are transposed in registers, for any sizes, types and machines."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilesmith as ts
from tilesmith import te, tir, topi
from tilesmith.schedule_rules import default_schedule
from tilesmith.schedule_rules.elementwise.permutation import find_permutation
from tilesmith.schedule_rules.intrinsics.transposes import transpose_intrin
from tilesmith.support.fallbacks import collect_fallbacks
from tilesmith.target import Target
from tilesmith.tir.schedule import Schedule

HOST = "llvm -num-cores=2"
AVX2 = "llvm -mcpu=haswell -num-cores=2"
AVX512 = "llvm -mcpu=znver4 -num-cores=2"


def place(shape, dtype="float32", name="x"):
    return te.placeholder(shape, dtype, name=name)


def scheduled(tensors, result, target=HOST):
    """The function with its default schedule, which applies without a fallback."""
    function = te.create_prim_func([*tensors, result], index_dtype_override="int64")
    with collect_fallbacks() as report:
        made = default_schedule(function, Target(target))
    assert not report.rows()
    return made


def random(shape, dtype="float32", seed=0):
    values = np.random.default_rng(seed).standard_normal(shape) * 50
    return values > 0 if dtype == "bool" else values.astype(dtype)


def run(library, arrays, want):
    out = ts.nd.array(np.zeros(want.shape, want.dtype))
    library["main"](*[ts.nd.array(array) for array in arrays], out)
    np.testing.assert_array_equal(out.numpy(), want)


def check(tensors, result, compute, target=HOST):
    """Compile with the default schedule and compare with numpy; gives the script."""
    made = scheduled(tensors, result, target)
    arrays = [random([int(size) for size in one.shape], str(one.dtype)) for one in tensors]
    run(ts.build(made, target=target), arrays, compute(*arrays))
    text = made.script()
    assert "T.Shuffle" in text
    return text


def plan_of(tensors, result):
    function = te.create_prim_func([*tensors, result], index_dtype_override="int64")
    sch = Schedule(function)
    (block,) = sch.get_child_blocks(sch.get_block("root"))
    return find_permutation(sch.get(block))


# -- the tile


@pytest.mark.parametrize(
    "rows, columns, dtype",
    [(16, 16, "float32"), (4, 4, "float32"), (8, 16, "int8"), (5, 9, "float32"), (16, 7, "int64"),
     (3, 16, "float32"), (16, 3, "float16"), (2, 7, "bool"), (1, 5, "float32"), (9, 1, "int32")],
)  # fmt: skip
def test_tiles_are_transposed(rows, columns, dtype):
    tile = transpose_intrin(rows, columns, dtype).impl.with_attr("global_symbol", "main")
    values = np.arange(rows * columns).reshape(rows, columns)
    array = values % 2 == 1 if dtype == "bool" else values.astype(dtype)
    run(ts.build(tile, target=HOST), [array], np.ascontiguousarray(array.T))


def test_a_square_takes_one_stage_of_shuffles_per_bit():
    text = transpose_intrin(16, 16, "float32").impl.script()
    assert text.count("T.Shuffle") == 4 * 16


def test_a_square_is_unpacks_and_shuffles_of_registers():
    x = place((64, 64))
    made = scheduled([x], topi.transpose(x), AVX512)
    assembly = ts.build(made, target=AVX512).get_source("asm")
    assert assembly.count("vunpcklps") == assembly.count("vunpckhps") >= 16
    assert not any(word in assembly for word in ("vgather", "vscatter", "vinsertps"))


# -- which blocks are permutations


def test_axes_that_follow_each_other_are_one():
    x = place((2, 20, 6, 8))
    plan = plan_of([x], topi.transpose(x, (0, 2, 3, 1)))
    assert len(plan.iterators.final_indices) == 3
    assert [int(size) for size in plan.iterators.map_shape([2, 6, 8, 20])] == [2, 48, 20]


def test_copies_of_rows_are_no_permutations():
    x = place((2, 30, 4, 64))
    assert plan_of([x], topi.transpose(x, (0, 2, 1, 3))) is None
    assert plan_of([x], topi.nn.relu(x)) is None
    assert plan_of([x], topi.sum(x, 3)) is None


def test_operands_in_the_layout_of_the_result_are_not_transposed():
    x, y = place((20, 48)), place((48, 20), name="y")
    plan = plan_of([x, y], te.compute((48, 20), lambda i, j: x[j, i] + y[i, j]))
    assert plan.computes_last and [one.name for one in plan.turned] == ["x"]


def test_long_rows_are_written_one_after_the_other_short_ones_side_by_side():
    def outer(shape):
        x = place(shape)
        sch = Schedule(scheduled([x], topi.transpose(x), "llvm -mcpu=haswell -num-cores=1"))
        (block, *_) = sch.get_child_blocks(sch.get_block("root"))
        return [int(sch.get(loop).extent) for loop in sch.get_loops(block)][:2]

    assert outer((256, 64)) == [8, 32]
    assert outer((32, 256)) == [4, 32]


@pytest.mark.parametrize(
    ("shape", "rows"),
    [((1024, 196), 8), ((1008, 196), 16), ((512, 196), 16), ((1024, 1024), 16)],
)
def test_tiles_of_rows_in_one_set_of_l1_are_lower(shape, rows):
    x = place(shape)
    made = scheduled([x], topi.transpose(x), "llvm -mcpu=znver5 -num-cores=1")
    assert f"T.unroll(T.int64({rows}))" in made.script()
    assert f"({16}, {rows})" in made.script()  # the tile that is transposed
    if shape == (1024, 196):
        values = random(shape)
        run(ts.build(made, target="llvm"), [values], values.T)


def test_only_much_work_runs_in_parallel():
    for sizes, is_parallel in (((40, 50), False), ((300, 257), True), ((257, 300), True)):
        x = place(sizes)
        assert ("T.parallel" in check([x], topi.transpose(x), lambda a: a.T)) == is_parallel


# -- what they compute


@pytest.mark.parametrize("rows, columns", [(49, 2048), (41, 1056), (1056, 41)])
def test_threads_share_the_longer_side_where_the_other_has_few_tiles(rows, columns):
    x, values = place((rows, columns)), random((rows, columns))
    made = scheduled([x], topi.transpose(x), AVX512)
    assert "T.parallel(T.int64(2))" in made.script()
    run(ts.build(made, target=HOST), [values], values.T)


@pytest.mark.parametrize("target", [HOST, AVX2])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int64", "float64", "bool"])
def test_dtypes(dtype, target):
    x = place((37, 50), dtype)
    check([x], topi.transpose(x), lambda a: np.ascontiguousarray(a.T), target)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_code_for_other_machines(dtype):
    x = place((37, 50), dtype)
    target = "llvm -mtriple=aarch64-linux-gnu -mattr=+neon"
    assembly = ts.build(scheduled([x], topi.transpose(x), target), target=target).get_source("asm")
    assert "zip1" in assembly or "trn1" in assembly


@pytest.mark.parametrize(
    "shape, order",
    [((1, 3, 20, 16), (0, 2, 3, 1)), ((1, 20, 17, 3), (0, 3, 1, 2)),
     ((2, 12, 10, 40), (0, 3, 1, 2)), ((8, 49, 7, 9), (3, 2, 1, 0)),
     ((3, 17, 1, 33), (0, 3, 2, 1)), ((5, 5), (1, 0))],
)  # fmt: skip
def test_orders_and_odd_sizes(shape, order):
    x = place(shape)
    check([x], topi.transpose(x, order), lambda a: np.ascontiguousarray(a.transpose(order)))


def test_what_is_computed_belongs_to_the_copy():
    x, b = place((1, 20, 9, 9)), place((20, 1, 1), name="b")
    biased = topi.nn.relu(topi.add(x, b))
    text = check(
        [x, b],
        topi.transpose(biased, (0, 2, 3, 1)),
        lambda a, c: np.maximum(a + c, 0).transpose(0, 2, 3, 1),
    )
    assert "T_add" not in text.replace("T_add[", "")


def test_operands_of_both_layouts():
    x, y = place((1, 33, 6, 6)), place((1, 6, 6, 33), name="y")
    total = topi.add(topi.transpose(x, (0, 2, 3, 1)), y)
    check([x, y], total, lambda a, b: a.transpose(0, 2, 3, 1) + b)


def test_an_operand_that_is_read_twice():
    """Found by the fuzzer."""
    n = te.var("n", "int64")
    x = te.placeholder((n, 8, 1, 4), "float32", "x")
    kept = te.compute(x.shape, lambda *i: tir.Select(x(*i) > 0.5, x(*i), -0.5), "kept")
    made = scheduled([x], topi.transpose(kept, (0, 3, 1, 2)))
    array = random((3, 8, 1, 4))
    want = np.where(array > 0.5, array, np.float32(-0.5)).transpose(0, 3, 1, 2)
    run(ts.build(made, target=HOST), [array], want)


def test_an_image_of_bytes():
    x = place((20, 30, 3), "uint8")
    scaled = topi.multiply(topi.cast(topi.transpose(x, (2, 0, 1)), "float32"), 0.5)
    check([x], scaled, lambda a: a.transpose(2, 0, 1).astype("float32") * np.float32(0.5))


def test_padding_with_a_permutation():
    x = place((1, 20, 12, 17))
    padded = topi.nn.pad(topi.transpose(x, (0, 2, 3, 1)), [0, 1, 1, 0])
    widths = ((0, 0), (1, 1), (1, 1), (0, 0))
    check([x], padded, lambda a: np.pad(a.transpose(0, 2, 3, 1), widths))


def test_parts_of_an_array():
    x = place((40, 50))
    part = te.compute((30, 35), lambda i, j: x[j + 2, i + 7])
    check([x], part, lambda a: np.ascontiguousarray(a[2:37, 7:37].T))


@pytest.mark.parametrize("block", [2, 3])
def test_pixels_of_blocks(block):
    x, size = place((1, 4 * block**2, 9, 10)), block
    order = (0, 3, 4, 1, 5, 2)
    check(
        [x],
        topi.nn.depth_to_space(x, size),
        lambda a: (
            a.reshape(1, size, size, 4, 9, 10).transpose(order).reshape(1, 4, 9 * size, 10 * size)
        ),
    )


def test_blocks_of_pixels():
    x = place((1, 4, 12, 20))
    check(
        [x],
        topi.nn.space_to_depth(x, 2),
        lambda a: a.reshape(1, 4, 6, 2, 10, 2).transpose(0, 3, 5, 1, 2, 4).reshape(1, 16, 6, 10),
    )


# -- sizes known at run time only


@pytest.fixture(scope="module", params=[(0, 2, 3, 1), (3, 1, 2, 0)], ids=str)
def symbolic(request):
    x = place([te.var(name, "int64") for name in "abcd"])
    made = scheduled([x], topi.transpose(x, request.param))
    return ts.build(made, target=HOST), request.param


@settings(max_examples=30, deadline=None)
@given(shape=st.tuples(*[st.integers(1, 20)] * 4))
def test_symbolic_sizes(symbolic, shape):
    library, order = symbolic
    array = random(shape)
    run(library, [array], np.ascontiguousarray(array.transpose(order)))


def test_rows_of_symbolic_images_are_loaded_as_vectors():
    h, w = te.var("h", "int64"), te.var("w", "int64")
    x = place((1, 16, h, w))
    made = scheduled([x], topi.transpose(x, (0, 2, 3, 1)), AVX512)
    text = ts.build(made, target=AVX512).get_source("ll")
    assert "gather" not in text and "scatter" not in text

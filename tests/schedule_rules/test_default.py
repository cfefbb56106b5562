"""Default schedules: the rules apply where they are meant to, and keep what a function computes."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import te, topi
from tilesmith.ir import structural_equal
from tilesmith.schedule_rules import default_schedule
from tilesmith.schedule_rules.contractions.contraction import find_contraction
from tilesmith.schedule_rules.contractions.tiles import Tile, best_tile, tile_steps
from tilesmith.schedule_rules.default import prepare_for_rules, schedule_by_rules
from tilesmith.support.fallbacks import collect_fallbacks
from tilesmith.target import Target
from tilesmith.target.machine import machine_model
from tilesmith.tir.analysis import is_unscheduled
from tilesmith.tir.schedule import Schedule


def scheduled(function, target="llvm -num-cores=2"):
    """The function with its default schedule."""
    return default_schedule(function, Target(target))


def check(tensors, result, want, inputs, rtol=1e-4):
    """Compile with the default schedule and compare; gives the script."""
    function = te.create_prim_func([*tensors, result], index_dtype_override="int64")
    made = scheduled(function)
    out = ts.nd.array(np.zeros([int(size) for size in result.shape], str(result.dtype)))
    ts.build(made, target="llvm")["main"](*[ts.nd.array(x) for x in inputs], out)
    np.testing.assert_allclose(out.numpy(), want, rtol=rtol, atol=1e-3)
    return made.script()


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def place(*shapes):
    return [te.placeholder(shape, name=f"x{k}") for k, shape in enumerate(shapes)]


def test_elementwise_runs_in_vectors_and_threads():
    (x,) = place((64, 48, 64))
    a = random(64, 48, 64)
    text = check([x], topi.nn.relu(topi.add(x, 1.0)), np.maximum(a + 1, 0), [a])
    assert "T.vectorized(" in text and "T.parallel(" in text and "T_add" not in text


def test_padding_runs_in_vectors_and_threads():
    (x,) = place((1, 56, 56, 64))
    a = random(1, 56, 56, 64)
    want = np.pad(a, ((0, 0), (1, 1), (1, 1), (0, 0)))
    text = check([x], topi.nn.pad(x, [0, 1, 1, 0]), want, [a])
    assert "T.vectorized(" in text and "T.parallel(" in text


def test_little_work_stays_on_one_thread():
    (x,) = place((8, 16))
    a = random(8, 16)
    assert "T.parallel(" not in check([x], topi.exp(x), np.exp(a), [a])


@pytest.mark.parametrize("m, k, n", [(64, 96, 128), (128, 33, 48), (7, 20, 24), (1, 64, 256)])
def test_products_run_over_register_tiles(m, k, n):
    x, y = place((m, k), (k, n))
    a, b = random(m, k), random(k, n, seed=1)
    product = topi.matmul(x, y)
    text = check([x, y], topi.nn.relu(topi.add(product, 1.0)), np.maximum(a @ b + 1, 0), [a, b])
    assert 'scope="local"' in text and "pragma_unroll_explicit" in text


@pytest.mark.parametrize("m, k, n", [(13, 11, 17), (5, 3, 9), (31, 7, 10)])
def test_products_of_odd_sizes(m, k, n):
    x, y = place((m, k), (k, n))
    a, b = random(m, k), random(k, n, seed=1)
    check([x, y], topi.matmul(x, y), a @ b, [a, b])


def test_packed_products_with_a_filled_up_tile():
    x, w = place((12, 20), (2, 20, 16))
    a, b = random(12, 20), random(20, 26, seed=1)
    packed = np.zeros((2, 20, 16), "float32")
    packed[0], packed[1, :, :10] = b[:, :16], b[:, 16:]
    check([x, w], topi.nn.matmul_packed(x, w, 26), a @ b, [a, packed])


@pytest.mark.parametrize("reduce, want", [(topi.sum, np.sum), (topi.max, np.max)])
def test_rows_are_reduced_in_lanes(reduce, want):
    (x,) = place((40, 256))
    a = random(40, 256)
    assert "T.vectorized(" in check([x], reduce(x, 1), want(a, 1), [a])


def test_softmax():
    (x,) = place((30, 64))
    a = random(30, 64)
    e = np.exp(a - a.max(1, keepdims=True))
    assert "T.vectorized(" in check([x], topi.nn.softmax(x), e / e.sum(1, keepdims=True), [a])


def test_pooling_runs_along_the_channels():
    (x,) = place((1, 20, 20, 32))
    a = random(1, 20, 20, 32)
    want = a.reshape(1, 10, 2, 10, 2, 32).max((2, 4))
    pooled = topi.nn.pool2d(x, [2, 2], [2, 2], [1, 1], [0, 0, 0, 0], "max", False, "NHWC")
    assert "T.vectorized(" in check([x], pooled, want, [a])


def test_symbolic_sizes():
    n = te.var("n", "int64")
    (x,) = place((n, 32))
    function = te.create_prim_func([x, topi.nn.softmax(x)], index_dtype_override="int64")
    library = ts.build(scheduled(function), target="llvm")
    for rows in (1, 5, 64):
        a, out = random(rows, 32), ts.nd.array(np.zeros((rows, 32), "float32"))
        library["main"](ts.nd.array(a), out)
        e = np.exp(a - a.max(1, keepdims=True))
        np.testing.assert_allclose(out.numpy(), e / e.sum(1, keepdims=True), rtol=1e-4)


def test_contractions_are_told_by_their_accesses():
    x, y = place((8, 16), (16, 24))
    function = te.create_prim_func([x, y, topi.matmul(x, y)])
    sch = Schedule(function)
    plan = find_contraction(sch.get(sch.get_block("T_matmul")))
    assert (plan.vector_axis, plan.row_axis, plan.packed_width) == (1, 0, None)
    function = te.create_prim_func([x, topi.sum(x, 1)])
    sch = Schedule(function)
    assert find_contraction(sch.get(sch.get_block("x0_red"))) is None


def test_what_is_scheduled_is_not_scheduled_again():
    (x,) = place((64, 64))
    function = te.create_prim_func([x, topi.exp(x)])
    assert is_unscheduled(function) and not is_unscheduled(scheduled(function))


def test_tiles_fit_the_registers():
    machine = machine_model(Target("llvm"))
    for rows in (1, 6, 7, 14, 56, 128):
        for columns in (8, 16, 24, 64, 1000):
            tile = best_tile(rows, columns, machine)
            used = tile.rows * tile.vectors + tile.vectors + 1
            assert tile.rows <= rows and used <= machine.vector_registers
    assert tile_steps(Tile(64, 4), machine) == float("inf")


@pytest.mark.parametrize("rows", [97, 127, 197])
def test_rows_that_nothing_divides_get_full_tiles(rows):
    machine = machine_model(Target("llvm"))
    for columns in (64, 256, 768, 1000):
        tile = best_tile(rows, columns, machine)
        assert tile.rows * tile.vectors >= machine.vector_registers // 2


def packed_product(rows, columns, width, epilogue=True):
    x, w, b = place((rows, 48), (-(-columns // width), 48, width), (columns,))
    made = topi.nn.matmul_packed(x, w, columns)
    return [x, w, b], topi.nn.relu(topi.add(made, b)) if epilogue else topi.add(made, b)


@pytest.mark.parametrize(("rows", "columns"), [(13, 64), (31, 100), (7, 33), (1, 50), (197, 16)])
@pytest.mark.parametrize("cores", [1, 2])
def test_products_of_odd_extents(rows, columns, cores):
    width = 16
    weights = random(48, -(-columns // width) * width, seed=1)
    weights[:, columns:] = 0
    inputs = [random(rows, 48), None, random(columns, seed=2)]
    inputs[1] = weights.reshape(48, -1, width).transpose(1, 0, 2).copy()
    tensors, result = packed_product(rows, columns, width)
    function = te.create_prim_func([*tensors, result], index_dtype_override="int64")
    made = scheduled(function, f"llvm -num-cores={cores}")
    out = ts.nd.array(np.zeros((rows, columns), "float32"))
    ts.build(made, target="llvm")["main"](*[ts.nd.array(x) for x in inputs], out)
    want = np.maximum(inputs[0] @ weights[:, :columns] + inputs[2], 0)
    np.testing.assert_allclose(out.numpy(), want, rtol=1e-4, atol=1e-4)


def test_one_kernel_serves_all_numbers_of_rows():
    """Full tiles, and what is left over, in one kernel without a tile of one row for all."""
    n = te.size_var("n", "int64")
    tensors, result = packed_product(n, 80, 16)
    function = te.create_prim_func([*tensors, result])
    made = scheduled(function)
    assert '"pragma_loop_partition_tails"' in made.script()
    assert "n % T.int64(6) == T.int64(1)" in ts.lower(made)["main"].script()
    built = ts.build(made, target="llvm")["main"]
    weights = random(48, 80, seed=1)
    packed = weights.reshape(48, 5, 16).transpose(1, 0, 2).copy()
    for rows in (0, 1, 2, 5, 13, 16, 17, 50):
        x, bias = random(rows, 48), random(80, seed=2)
        out = ts.nd.array(np.zeros((rows, 80), "float32"))
        built(ts.nd.array(x), ts.nd.array(packed), ts.nd.array(bias), out)
        want = np.maximum(x @ weights + bias, 0)
        np.testing.assert_allclose(out.numpy(), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("sizes", [(3, 7, 5, 9), (2, 33, 40, 17), (1, 1, 8, 1), (12, 20, 16, 64)])
@pytest.mark.parametrize("cores", [1, 2])
def test_products_of_symbolic_extents(sizes, cores):
    names = [te.size_var(name, "int64") for name in "bmkn"]
    b, m, k, n = names
    x, y = te.placeholder((b, m, k), name="x"), te.placeholder((b, k, n), name="y")
    function = te.create_prim_func([x, y, topi.nn.batch_matmul(x, y, transpose_b=False)])
    built = ts.build(scheduled(function, f"llvm -num-cores={cores}"), target="llvm")["main"]
    first, second = random(*sizes[:3]), random(sizes[0], *sizes[2:], seed=1)
    out = ts.nd.array(np.zeros((sizes[0], sizes[1], sizes[3]), "float32"))
    built(ts.nd.array(first), ts.nd.array(second), out)
    np.testing.assert_allclose(out.numpy(), first @ second, rtol=1e-4, atol=1e-4)


def strided_product(x, y):
    k = te.reduce_axis((0, 48))
    return te.compute((8, 32), lambda i, j: te.sum(x[i, k] * y[k, j * 2], k), name="strided")


@pytest.mark.parametrize(
    ("shapes", "compute", "place_of_it", "reason"),
    [
        (
            [(8, 48), (48, 64)],
            strided_product,
            "block 'strided'",
            "no register tiles: an operand does not move by 0 or 1 along the result's last axis",
        ),
        (
            [(1, 5)],
            topi.exp,
            "block 'T_exp'",
            "the innermost loop has 5 steps, fewer than 8",
        ),
        (
            [(8, 3)],
            lambda x: topi.sum(x, 1),
            "block 'x0_red'",
            "the reduction has 3 steps, fewer than 4",
        ),
    ],
)
def test_rules_that_do_not_apply_say_why(shapes, compute, place_of_it, reason):
    tensors = place(*shapes)
    function = te.create_prim_func([*tensors, compute(*tensors)])
    with collect_fallbacks() as report:
        scheduled(function, "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell -num-cores=2")
    assert ("main", place_of_it, reason) in [
        (one.function, one.place, one.reason) for one, _ in report.rows()
    ]


@pytest.mark.parametrize("shape, axis", [((9, 1001), 1), ((5, 4, 28, 27), (2, 3)), ((64, 37), 0)])
def test_reductions_of_any_extent_run_in_vectors(shape, axis):
    (x,) = place(shape)
    a = random(*shape)
    with collect_fallbacks() as report:
        text = check([x], topi.sum(x, axis), a.sum(axis), [a])
    assert "T.vectorized(" in text and len(report) == 0


def test_reductions_of_tuples_run_in_vectors():
    (x,) = place((6, 100))
    a = random(6, 100)
    want = (a - a.mean(1, keepdims=True)) / np.sqrt(a.var(1, keepdims=True) + 1e-5)
    text = check([x], topi.nn.layer_norm(x, None, None, -1), want, [a])
    assert "x0_red_temp_rf" in text and "T.vectorized(" in text


@pytest.mark.parametrize("name", ["sum", "max"])
def test_rows_of_symbolic_length_run_in_vectors(name):
    n, m = te.size_var("n", "int64"), te.size_var("m", "int64")
    x = te.placeholder((n, m), name="x")
    made = scheduled(te.create_prim_func([x, getattr(topi, name)(x, 1)]))
    assert "T.vectorized(" in made.script()
    built = ts.build(made, target="llvm")["main"]
    for shape in ((3, 1), (2, 7), (5, 16), (4, 33), (1, 1000)):
        a = random(*shape)
        out = ts.nd.array(np.zeros(shape[0], "float32"))
        built(ts.nd.array(a), out)
        np.testing.assert_allclose(out.numpy(), getattr(np, name)(a, 1), rtol=1e-4, atol=1e-4)


def test_rows_of_symbolic_length_have_a_condition_only_at_their_end():
    m = te.size_var("m", "int64")
    x = te.placeholder((3, m), name="x")
    made = scheduled(te.create_prim_func([x, topi.nn.softmax(x, 1)]), "llvm -mcpu=skylake-avx512")
    lines = ts.lower(made).script().splitlines()
    ends = ("range(m // T.int64(64)):", "range(m // T.int64(16)):")
    whole = [k for k, line in enumerate(lines) if line.endswith(ends)]
    assert len(whole) == 4  # the largest, exp, the sum, the quotient
    assert not any("predicate" in lines[k + 1] or "Select" in lines[k + 1] for k in whole)
    assert "predicate" in "".join(lines)
    built = ts.build(made, target="llvm")["main"]
    for size in (1, 15, 16, 17, 31, 1000):
        a, out = random(3, size), ts.nd.array(np.zeros((3, size), "float32"))
        built(ts.nd.array(a), out)
        e = np.exp(a - a.max(1, keepdims=True))
        np.testing.assert_allclose(out.numpy(), e / e.sum(1, keepdims=True), rtol=1e-4)


@pytest.mark.parametrize(
    "shapes, subscripts",
    [
        (((2, 40, 33), (2, 50, 33)), "bid,bjd->bij"),
        (((1, 40, 3, 16), (1, 37, 3, 16)), "bihd,bjhd->bhij"),
    ],
)
def test_products_of_rows_get_a_transposed_operand(shapes, subscripts):
    a, b = random(*shapes[0]), random(*shapes[1], seed=1)
    tensors = place(*shapes)
    want = np.einsum(subscripts, a, b)
    text = check(tensors, topi.einsum(subscripts, *tensors), want, [a, b])
    assert "x1_global" in text and "T_einsum_local" in text


def test_few_rows_do_not_transpose_an_operand():
    tensors = place((4, 64), (50, 64))
    a, b = random(4, 64), random(50, 64, seed=1)
    text = check(tensors, topi.nn.dense(*tensors), a @ b.T, [a, b])
    assert "x1_global" not in text and "T.vectorized(" in text


def test_the_trace_knows_blocks_that_share_a_name():
    """Parts of one block keep its name: they are children of the root."""
    q, k, v = (
        te.placeholder((1, rows, 1, 8), name=name) for rows, name in ((16, "q"), (8, "k"), (8, "v"))
    )
    function = te.create_prim_func([q, k, v, topi.nn.attention(q, k, v)])
    target = Target("llvm -mcpu=skylake-avx512 -num-cores=1")
    made = schedule_by_rules(function, target)
    assert any(one.kind.name == "GetChildBlocks" for one in made.trace.insts)
    replayed = Schedule(prepare_for_rules(function, target))
    made.trace.apply_to_schedule(replayed, remove_postproc=False)
    assert structural_equal(replayed.mod, made.mod)

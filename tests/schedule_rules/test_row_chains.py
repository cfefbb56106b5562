"""Row chains: softmax, normalisations and the like are one kernel that goes row by row."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import te, topi
from tilesmith.schedule_rules import default_schedule
from tilesmith.schedule_rules.rows.row_chains import find_row_chains
from tilesmith.support.fallbacks import collect_fallbacks
from tilesmith.target import Target
from tilesmith.tir import For, ForKind
from tilesmith.tir.queries import statements
from tilesmith.tir.schedule import Schedule


def place(*shapes, dtype="float32"):
    return [te.placeholder(shape, dtype, name=f"x{k}") for k, shape in enumerate(shapes)]


def random(*shape, dtype="float32"):
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def program(tensors, result):
    return te.create_prim_func([*tensors, result], index_dtype_override="int64")


def scheduled(function, cores=1):
    with collect_fallbacks() as report:
        made = default_schedule(function, Target(f"llvm -num-cores={cores}"))
    assert not report.rows(), [str(one) for one, _ in report.rows()]
    return made


def nests(function):
    """The outermost loops of a function."""
    body = function.body.block.body
    return [body] if isinstance(body, For) else [one for one in body.seq if isinstance(one, For)]


def run(function, inputs, shape, dtype="float32"):
    out = ts.nd.array(np.zeros(shape, dtype))
    ts.build(function, target="llvm")["main"](*[ts.nd.array(one) for one in inputs], out)
    return out.numpy()


def softmax(a, axis=-1):
    e = np.exp(a - a.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def normal(a, axes):
    return (a - a.mean(axes, keepdims=True)) / np.sqrt(a.var(axes, keepdims=True) + 1e-5)


def masked(x, mask):
    return topi.nn.softmax(topi.add(topi.multiply(x, 0.125), mask))


def normal_length(x):
    length = topi.sqrt(topi.sum(topi.multiply(x, x), -1, True))
    return topi.divide(x, length)


ONES = {  # what: shapes, in topi, in numpy
    "softmax": ([(7, 197)], topi.nn.softmax, softmax),
    "softmax of short rows": ([(5, 9)], topi.nn.softmax, softmax),
    "softmax of one row": ([(1, 1000)], topi.nn.softmax, softmax),
    "softmax of 4 dimensions": ([(1, 3, 5, 33)], topi.nn.softmax, softmax),
    "log softmax": ([(6, 50)], topi.nn.log_softmax, lambda a: np.log(softmax(a))),
    "masked softmax": (
        [(2, 3, 4, 21), (2, 1, 1, 21)],
        masked,
        lambda a, b: softmax(a / 8 + b),
    ),
    "layer norm": (
        [(5, 77), (77,), (77,)],
        lambda x, scale, shift: topi.nn.layer_norm(x, scale, shift, -1),
        lambda a, b, c: normal(a, 1) * b + c,
    ),
    "layer norm of two axes": (
        [(5, 3, 30), (3, 30), (3, 30)],
        lambda x, scale, shift: topi.nn.layer_norm(x, scale, shift, [1, 2]),
        lambda a, b, c: normal(a, (1, 2)) * b + c,
    ),
    "root mean square": (
        [(5, 100), (100,)],
        lambda x, scale: topi.nn.rms_norm(x, scale, -1),
        lambda a, b: a / np.sqrt((a * a).mean(-1, keepdims=True) + 1e-5) * b,
    ),
    "instance norm": (
        [(2, 3, 9, 11), (3,), (3,)],
        lambda x, scale, shift: topi.nn.instance_norm(x, scale, shift, [2, 3]),
        lambda a, b, c: normal(a, (2, 3)) * b[:, None, None] + c[:, None, None],
    ),
    "group norm": (
        [(2, 6, 7, 9), (6,), (6,)],
        lambda x, scale, shift: topi.nn.group_norm(x, scale, shift, 3, 1, [2, 3]),
        lambda a, b, c: (
            normal(a.reshape(2, 3, 2, 7, 9), (2, 3, 4)).reshape(a.shape) * b[:, None, None]
            + c[:, None, None]
        ),
    ),
    "group norm of large groups": (
        [(1, 4, 40, 41), (4,), (4,)],
        lambda x, scale, shift: topi.nn.group_norm(x, scale, shift, 2, 1, [2, 3]),
        lambda a, b, c: (
            normal(a.reshape(1, 2, 2, 40, 41), (2, 3, 4)).reshape(a.shape) * b[:, None, None]
            + c[:, None, None]
        ),
    ),
    "length one": (
        [(6, 45)],
        normal_length,
        lambda a: a / np.sqrt((a * a).sum(-1, keepdims=True)),
    ),
    "mean": ([(6, 45)], lambda x: topi.mean(x, 1), lambda a: a.mean(1)),
    "variance": ([(6, 45)], lambda x: topi.variance(x, 1), lambda a: a.var(1)),
    "means of channels": (
        [(2, 3, 9, 11)],
        lambda x: topi.mean(x, (2, 3)),
        lambda a: a.mean((2, 3)),
    ),
}


@pytest.mark.parametrize("name", ONES)
def test_rows_pass_through_one_nest(name):
    shapes, in_topi, in_numpy = ONES[name]
    tensors = place(*shapes)
    result = in_topi(*tensors)
    made = scheduled(program(tensors, result))
    assert len(nests(made)) == 1
    inputs = [random(*shape) for shape in shapes]
    want = in_numpy(*[one.astype("float64") for one in inputs])
    np.testing.assert_allclose(run(made, inputs, want.shape), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype, tolerance", [("float16", 2e-3), ("float64", 1e-12)])
@pytest.mark.parametrize("name", ["softmax", "layer norm"])
def test_other_dtypes(name, dtype, tolerance):
    shapes, in_topi, in_numpy = ONES[name]
    tensors = place(*shapes, dtype=dtype)
    made = scheduled(program(tensors, in_topi(*tensors)))
    assert len(nests(made)) == 1
    inputs = [random(*shape, dtype=dtype) for shape in shapes]
    want = in_numpy(*[one.astype("float64") for one in inputs])
    got = run(made, inputs, want.shape, dtype)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["softmax", "layer norm"])
def test_symbolic_rows(name):
    n, m = te.size_var("n", "int64"), te.size_var("m", "int64")
    _, in_topi, in_numpy = ONES[name]
    shapes = [(n, m), (m,), (m,)][: 1 if name == "softmax" else 3]
    tensors = place(*shapes)
    made = scheduled(program(tensors, in_topi(*tensors)), cores=2)
    assert len(nests(made)) == 1 and nests(made)[0].kind is ForKind.PARALLEL
    built = ts.build(made, target="llvm")["main"]
    for rows, size in ((1, 1), (3, 15), (2, 64), (4, 197), (1, 1000)):
        inputs = [random(*[{n: rows, m: size}[one] for one in shape]) for shape in shapes]
        out = ts.nd.array(np.zeros((rows, size), "float32"))
        built(*[ts.nd.array(one) for one in inputs], out)
        np.testing.assert_allclose(out.numpy(), in_numpy(*inputs), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("size", [3, 37, 1000])
def test_places_of_the_largest(size, last):
    (x,) = place((9, size))
    made = default_schedule(program([x], topi.argmax(x, 1, False, last)), Target("llvm"))
    a = np.round(random(9, size) * 2)  # with equal values
    want = size - 1 - a[:, ::-1].argmax(1) if last else a.argmax(1)
    assert np.array_equal(run(made, [a], (9,), "int32"), want)


def test_there_is_no_chain_where_a_block_reads_other_rows():
    (x,) = place((8, 8))
    turned = topi.transpose(topi.nn.softmax(x))
    function = program([x], topi.add(turned, topi.nn.softmax(x)))
    made = default_schedule(function, Target("llvm -num-cores=1"))
    a = random(8, 8)
    want = softmax(a) + softmax(a).T
    np.testing.assert_allclose(run(made, [a], (8, 8)), want, rtol=1e-5)


def test_results_of_the_function_are_no_steps():
    (x,) = place((8, 40))
    total = topi.sum(x, 1)
    quotient = te.compute((8, 40), lambda i, j: x[i, j] / total[i], name="quotient")
    sch = Schedule(te.create_prim_func([x, total, quotient], index_dtype_override="int64"))
    blocks = [sch.get_block("x0_red"), sch.get_block("quotient")]
    assert [len(chain.blocks) for chain in find_row_chains(sch, blocks)] == [1]


def test_rows_are_shared_out_to_threads_if_that_is_worth_it():
    for rows, wanted in ((512, True), (4, False)):
        (x,) = place((rows, 128))
        made = scheduled(program([x], topi.nn.softmax(x)), cores=2)
        (nest,) = nests(made)
        assert (nest.kind is ForKind.PARALLEL) == wanted


def test_one_long_row_feeds_all_threads():
    (x,) = place((1, 1 << 17))
    made = scheduled(program([x], topi.nn.softmax(x)), cores=2)
    kinds = [one.kind for one in statements(made.body) if isinstance(one, For)]
    assert ForKind.PARALLEL in kinds and len(nests(made)) > 1

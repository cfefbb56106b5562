"""Look-ups: places are computed in vectors, elements are copied one by one."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import te, topi
from tilesmith.schedule_rules import default_schedule
from tilesmith.support.errors import OutOfBoundsError
from tilesmith.target import Target
from tilesmith.tir import For, ForKind
from tilesmith.tir.queries import statements

ZEN = "llvm -mcpu=znver5 -num-cores={}"
TAKES = {  # shapes of data and places, operator, how numpy does it
    "numbers": ((300,), (1111,), lambda a, b: topi.take(a, b, 0, mode="fast"), lambda a, b: a[b]),
    "columns": (
        (5, 33),
        (131,),
        lambda a, b: topi.take(a, b, 1, mode="fast"),
        lambda a, b: a[:, b],
    ),
    "many columns": (
        (3, 33),
        (4099,),
        lambda a, b: topi.take(a, b, 1, mode="fast"),
        lambda a, b: a[:, b],
    ),
    "rows of places": (
        (40,),
        (7, 150),
        lambda a, b: topi.take(a, b, 0, mode="fast"),
        lambda a, b: a[b],
    ),
    "own places": (
        (6, 333),
        (6, 99),
        lambda a, b: topi.gather(a, 1, b),
        lambda a, b: np.take_along_axis(a, b, 1),
    ),
}


def function_of(name, cores=1):
    data, places, operator, _ = TAKES[name]
    x, i = te.placeholder(data, name="x"), te.placeholder(places, "int64", name="i")
    return te.create_prim_func([x, i, operator(x, i)], index_dtype_override="int64")


def scheduled(name, target=ZEN, cores=1):
    return default_schedule(function_of(name), Target(target.format(cores)))


def inputs_of(name):
    data, places, _, reference = TAKES[name]
    draw = np.random.default_rng(0)
    size = data[-1]
    a, b = draw.standard_normal(data).astype("float32"), draw.integers(-size, size, places)
    return a, b, reference(a, b)


def run(module, a, b, shape):
    out = ts.nd.array(np.full(shape, np.nan, "float32"))
    module["main"](ts.nd.array(a), ts.nd.array(b), out)
    return out.numpy()


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("name", TAKES)
def test_results_and_errors(name, cores):
    a, b, expected = inputs_of(name)
    module = ts.build(scheduled(name, cores=cores), target="llvm")
    np.testing.assert_array_equal(run(module, a, b, expected.shape), expected)
    operator = "gather" if name == "own places" else "take"
    for place, wrong in ((0, a.shape[-1]), (b.size // 2, -a.shape[-1] - 1), (b.size - 1, 1 << 40)):
        other = b.copy()
        other.reshape(-1)[place] = wrong
        with pytest.raises(OutOfBoundsError, match=f"{operator}: the index {wrong} is outside"):
            run(module, a, other, expected.shape)


@pytest.mark.parametrize("name", TAKES)
def test_the_places_are_computed_first(name):
    made = scheduled(name)
    text = made.script()
    assert text.count("T.checked") == 1 and "index_var_0" in text
    copying = [one for one in statements(made.body) if isinstance(one, For) and one.annotations]
    assert any(one.annotations.get("llvm.loop.vectorize.enable") is False for one in copying)
    assert any(
        isinstance(one, For) and one.kind is ForKind.VECTORIZED for one in statements(made.body)
    )


def test_shared_places_are_computed_once():
    outside = scheduled("columns").script().index("T.checked")
    assert outside < scheduled("columns").script().index("range(T.int64(5))")


def test_other_machines_gather_in_vectors():
    text = scheduled("columns", "llvm -mcpu=skylake-avx512 -num-cores={}").script()
    assert "index_var" not in text and "T.vectorized" in text


def test_rows_are_copied_in_vectors():
    x, i = te.placeholder((30, 48), name="x"), te.placeholder((7,), "int64", name="i")
    function = te.create_prim_func(
        [x, i, topi.take(x, i, 0, mode="fast")], index_dtype_override="int64"
    )
    made = default_schedule(function, Target(ZEN.format(1)))
    assert "index_var" not in made.script() and "T.vectorized" in made.script()
    module = ts.build(made, target="llvm")
    assert "no-builtin-memcpy" in module.get_source("ll")
    a, b = np.random.default_rng(1).standard_normal((30, 48)).astype("float32"), np.arange(7) * 4
    np.testing.assert_array_equal(run(module, a, b, (7, 48)), a[b])


@pytest.mark.parametrize(("rows", "divided"), [(16, 16), (1000, 1000), (15, 15 * 79), (1, 79)])
def test_threads_take_whole_rows_where_there_are_enough(rows, divided):
    """The last part of a row, which is shorter, then needs no check in the loop that is divided."""
    x, i = te.placeholder((rows, 90), name="x"), te.placeholder((rows, 10111), "int64", name="i")
    function = te.create_prim_func([x, i, topi.gather(x, 1, i)], index_dtype_override="int64")
    made = default_schedule(function, Target(ZEN.format(2)))
    loops = [one for one in statements(made.body) if isinstance(one, For)]
    parallel = [int(one.extent) for one in loops if one.kind is ForKind.PARALLEL]
    assert parallel == [divided]

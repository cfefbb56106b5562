"""Sizes that depend on data in graphs written by hand: struct info, match_cast, results."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tilesmith
from tilesmith import relax
from tilesmith.error import OpNotImplemented, ShapeError
from tilesmith.relax import op
from tilesmith.relax.op.common import tensor
from tilesmith.relax.struct_info import TensorStructInfo
from tilesmith.runtime.frame import Frame
from tilesmith.script import ir as I
from tilesmith.script import relax as R
from tilesmith.script import tir as T


@I.ir_module
class Chosen:
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32")):
        n, m, count = T.int64(), T.int64(), T.int64()
        places = R.nonzero(x)
        named = R.match_cast(places, R.Tensor((2, count), "int64"))
        twice = R.multiply(named, R.const(2, "int64"))
        shape = R.shape_of(twice)
        return twice, shape


@I.ir_module
class Set:
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        values = R.unique(x, True, True)
        both = R.add(values[0], values[0])
        return both, values[1]


@I.ir_module
class Fixed:
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        places = R.nonzero(x)
        three = R.match_cast(places, R.Tensor((1, 3), "int64"))
        return three


def test_new_sizes_are_names_for_what_was_found():
    executable = relax.build(Chosen, target="llvm")
    for x in (np.eye(4, dtype="float32"), np.zeros((2, 3), "float32")):
        twice, shape = executable(x)
        np.testing.assert_array_equal(twice.numpy(), 2 * np.stack(np.nonzero(x)))
        assert tuple(shape) == twice.shape


def test_match_cast_is_not_needed():
    x = np.array([3, 1, 3, 2, 1], "float32")
    both, first = relax.build(Set, target="llvm")(x)
    np.testing.assert_array_equal(both.numpy(), [2, 4, 6])
    np.testing.assert_array_equal(first.numpy(), [1, 3, 0])


def test_nan_is_one_value():
    x = np.array([np.nan, -0.0, 1, np.nan, 0.0, -np.inf], "float32")
    both, first = relax.build(Set, target="llvm")(x)
    np.testing.assert_array_equal(both.numpy(), [-np.inf, 0, 2, np.nan])
    np.testing.assert_array_equal(first.numpy(), [5, 1, 2, 0])


def test_found_sizes_are_compared_with_declared_ones():
    executable = relax.build(Fixed, target="llvm")
    assert executable(np.ones(3, "float32")).shape == (1, 3)
    with pytest.raises(ShapeError, match="match_cast of three expects size 3, it is 4"):
        executable(np.ones(4, "float32"))


def test_threads_have_frames_of_their_own():
    executable = relax.build(Chosen, target="llvm")

    def count(size):
        return executable(np.eye(size, dtype="float32"))[0].shape[1]

    with ThreadPoolExecutor(4) as pool:
        sizes = [1 + number % 40 for number in range(200)]
        assert list(pool.map(count, sizes)) == sizes


def test_saved_executables_make_results_inside(tmp_path):
    relax.build(Chosen, target="llvm").save(tmp_path / "chosen.tsm")
    loaded = tilesmith.runtime.load_module(tmp_path / "chosen.tsm")
    assert loaded(np.eye(5, dtype="float32"))[0].shape == (2, 5)


def test_a_frame_uses_memory_again():
    frame = Frame()
    first = frame.reserve(1000)
    frame.release(first)
    assert frame.reserve(990) == first
    assert frame.reserve(1000) != first
    frame.finish()  # kept for the next call
    assert first in (frame.reserve(1000), frame.reserve(1000))
    with pytest.raises(ShapeError, match="negative"):
        frame.reserve(-1)


op.define(
    "test_programless", "x", lambda call: TensorStructInfo(None, tensor(call, 0).dtype, None, 1)
)


def test_the_error_says_what_is_missing():
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((3,), "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(op.add(op.test_programless(x), x)))
    with pytest.raises(OpNotImplemented) as caught:
        relax.build(builder.get(), target="llvm")
    text = str(caught.value)
    assert "relax.test_programless" in text and "it has no tensor program" in text
    assert "relax.add" in text and "bind it with R.match_cast" in text


# Functions that call themselves


@I.ir_module
class Loops:
    @R.function(private=True)
    def step(
        i: R.Tensor((), "int64"),
        n: R.Tensor((), "int64"),
        x: R.Tensor(("m",), "float32"),
        y: R.Tensor(("k",), "float32"),
    ) -> R.Tensor(dtype="float32", ndim=1):
        ends = R.greater_equal(i, n)
        if ends:
            r = x
        else:
            longer = R.concat([x, y], 0)
            r = Loops.step(R.add(i, R.const(1, "int64")), n, longer, y)
        return r

    @R.function
    def main(n: R.Tensor((), "int64"), x: R.Tensor(("m",), "float32")):
        r = Loops.step(R.const(0, "int64"), n, x, x)
        return r


@I.ir_module
class Deep:
    @R.function(private=True)
    def sum(i: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
        more = R.greater(i, R.const(0, "int64"))
        if more:
            rest = Deep.sum(R.subtract(i, R.const(1, "int64")))
            r = R.add(rest, i)
        else:
            r = i
        return r

    @R.function
    def main(i: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
        r = Deep.sum(i)
        return r


@pytest.mark.parametrize("count", [0, 1, 7])
def test_a_function_that_calls_itself_last_is_a_loop(count):
    x = np.arange(3, dtype="float32")
    found = relax.build(Loops, target="llvm")(np.int64(count), x)
    np.testing.assert_array_equal(found.numpy(), np.tile(x, count + 1))


def test_other_recursion_runs_step_by_step():
    built = relax.build(Deep, target="llvm")
    assert built(np.int64(6)).numpy() == 21
    (reason,) = [row.reason for row, _ in built.fallbacks.rows()]
    assert "'sum' calls itself, but is no loop" in reason

"""StoreNarrow: what products read as bfloat16 lies in memory as bfloat16, for all its readers."""

import ml_dtypes
import numpy
import pytest

from tilesmith import relax
from tilesmith.driver.pipelines import default_passes
from tilesmith.ir.queries import nodes
from tilesmith.ir.transform import Sequential
from tilesmith.relax import interpreter
from tilesmith.relax.expr import Call, known_struct_info
from tilesmith.relax.transform import (
    ConvertToDataflow,
    EliminateCommonSubexpr,
    NarrowWeights,
    StoreNarrow,
)
from tilesmith.script import relax as R
from tilesmith.target import Target

RANDOM = numpy.random.default_rng(0)
COOPERLAKE = "llvm -mtriple=x86_64-linux-gnu -mcpu=cooperlake"


def residual(is_result=False, channels=24):
    """Return a module: a convolution, whose result a second one and an addition read."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((1, channels, 5, 7), "float32"))
    weights = [
        relax.const(RANDOM.standard_normal((channels, channels, 1, 1)).astype("float32") * 0.2)
        for _ in range(3)
    ]
    with builder.function("main", [x]):
        first = builder.emit(relax.op.nn.relu(builder.emit(relax.op.nn.conv2d(x, weights[0]))))
        second = builder.emit(relax.op.nn.conv2d(first, weights[1]))
        total = builder.emit(relax.op.add(second, first))
        last = builder.emit(relax.op.nn.conv2d(total, weights[2]))
        results = [last, first] if is_result else [last]
        builder.emit_func_output(builder.emit(relax.Tuple(results)) if is_result else last)
    return builder.get()


def stored(mod, target):
    """Return the dtypes of what the kernels of a compiled graph write."""
    passes = Sequential(default_passes(Target(target), "bfloat16"))
    main = passes(mod)["main"]
    calls = [one for one in nodes(main.body, Call) if one.op.name == "relax.call_tir"]
    return [str(known_struct_info(one).dtype) for one in calls]


def test_a_value_is_read_in_one_form():
    narrow = EliminateCommonSubexpr()(NarrowWeights()(ConvertToDataflow(1)(residual())))
    before, after = [one["main"].script().splitlines() for one in (narrow, StoreNarrow()(narrow))]
    assert [sum("R.astype(" in line for line in one) for one in (before, after)] == [3, 4]
    (total,) = [line for line in after if "R.add(" in line]
    (wide,) = [line for line in after if 'dtype="float32")' in line and "R.astype(" in line]
    assert wide.split(":")[0].strip() in total


@pytest.mark.parametrize(
    ("is_result", "wanted"),
    [
        (False, ["bfloat16", "bfloat16", "bfloat16", "float32", "float32"]),
        (True, ["bfloat16", "float32", "bfloat16", "bfloat16", "float32", "float32", "float32"]),
    ],
)
def test_kernels_write_each_value_once(is_result, wanted):
    """The data, three convolutions and the permutation of the result; a result of the model
    stays float32 (its conversion and its permutation are kernels of their own).
    """
    assert sorted(stored(residual(is_result), COOPERLAKE)) == sorted(wanted)


@pytest.mark.parametrize("is_result", [False, True])
def test_results_are_those_of_rounded_values(is_result):
    mod = residual(is_result, 10)
    passes = Sequential(default_passes(Target("llvm"), "bfloat16"))
    x = RANDOM.standard_normal((1, 10, 5, 7)).astype("float32")
    exact = interpreter.run(mod, "main", x)
    found = relax.build(mod, "llvm", pipeline=passes)(x)
    results = zip(exact, found) if is_result else [(exact, found)]
    for want, have in results:
        error = abs(have.numpy() - want).max() / abs(want).max()
        assert 0 < error < 2e-2
    if is_result:  # float32: not one of the values that bfloat16 has
        first = found[1].numpy()
        assert (first != first.astype(ml_dtypes.bfloat16).astype("float32")).any()

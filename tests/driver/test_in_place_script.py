"""Calls in place do not overwrite what is read later, whatever the passes made of its names."""

import numpy as np
import pytest

import tilesmith
from tilesmith import relax
from tilesmith.relax import interpreter
from tilesmith.script import relax as R
from tilesmith.script import tir as T


@T.prim_func
def increase(x: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("increase"):
            vi = T.axis.spatial(4, i)
            x[vi] = x[vi] + T.float32(4)


def in_place(builder, operand):
    info = relax.TensorStructInfo((4,), "float32")
    variable = builder.add_func(increase, "increase")
    return builder.emit(relax.op.call_tir_inplace(variable, (operand,), [0], info))


def another_name(builder, y):
    return builder.emit(relax.op.add(y, relax.const(np.float32(0))))  # simplified to `y`


def equal_value(builder, y):
    return builder.emit(relax.op.exp(builder.emit(relax.op.log(y))))


def program(other, twice=False, packed=False):
    """y stays, what became of it or of an equal value is overwritten."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((4,), "float32"))
    with builder.function("main", [x]):
        y = builder.emit(relax.op.exp(x))
        z = in_place(builder, other(builder, y))
        if twice:
            z = in_place(builder, z)
        if packed:  # then steps of the runtime stand between native parts
            y = builder.emit(
                relax.op.call_pure_packed("tests.in_place.same", y, sinfo_args=y.struct_info)
            )
        last = builder.emit(relax.op.negative(y))
        builder.emit_func_output((y, z, last))
    return builder.get()


@pytest.mark.parametrize("pipeline", ["default", None])
@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("other", [another_name, equal_value, lambda builder, y: y])
def test_what_is_read_later_stays(other, packed, twice, pipeline):
    tilesmith.register_func("tests.in_place.same", lambda x: x, override=True)
    module = program(other, twice, packed)
    x = np.arange(4, dtype="float32") / 4
    built = relax.build(module, "llvm", pipeline=pipeline)
    for found, expected in zip(built(x), interpreter.run(module, "main", x)):
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


def test_constants_stay():
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((4,), "float32"))
    with builder.function("main", [x]):
        z = in_place(builder, builder.emit(relax.const(np.ones(4, "float32"))))
        builder.emit_func_output(builder.emit(relax.op.add(z, x)))
    built = relax.build(builder.get(), "llvm")
    for _ in range(2):
        np.testing.assert_array_equal(built(np.zeros(4, "float32")).numpy(), np.full(4, 5.0))


def test_what_is_not_read_later_is_overwritten():
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((4,), "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(in_place(builder, in_place(builder, x)))
    built = relax.build(builder.get(), "llvm")
    x = tilesmith.nd.array(np.zeros(4, "float32"))
    np.testing.assert_array_equal(built(x).numpy(), np.full(4, 8.0))
    np.testing.assert_array_equal(x.numpy(), np.full(4, 8.0))  # the parameter itself, no copy


def test_a_value_that_is_read_after_a_branch():
    @tilesmith.script.ir_module
    class Module:
        @T.prim_func
        def increase(x: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("increase"):
                    vi = T.axis.spatial(4, i)
                    x[vi] = x[vi] + T.float32(4)

        @R.function
        def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")):
            y = R.exp(x)
            if c:
                z = R.call_tir_inplace(
                    Module.increase, (y,), out_sinfo=R.Tensor((4,), "float32"), inplace_indices=[0]
                )
            else:
                z = R.negative(y)
            w = R.add(y, z)
            return w

    x = np.arange(4, dtype="float32") / 4
    built = relax.build(Module, "llvm")
    for condition, expected in ((True, 2 * np.exp(x) + 4), (False, 0 * x)):
        found = built(x, np.array(condition)).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)

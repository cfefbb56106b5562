"""Passes over parameters, results and products."""

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import relax
from tilesmith.ir import structural_equal
from tilesmith.relax import analysis, interpreter, op, transform
from tilesmith.runtime.registry import register_func
from tilesmith.script import ir as I
from tilesmith.script import relax as R
from tilesmith.support.errors import TypeMismatchError, UnknownNameError

rng = np.random.default_rng(0)


def f32(*shape):
    return rng.standard_normal(shape).astype("float32")


@I.ir_module
class Wasteful:
    @R.function(private=True)
    def inner(
        x: R.Tensor((4,), "float32"),
        unused: R.Tensor((3,), "float32"),
        pair: R.Tuple(R.Tensor((4,), "float32"), R.Tensor((4,), "float32")),
    ):
        with R.dataflow():
            a = R.add(x, pair[0])
            b = R.exp(a)
            c = R.multiply(pair[1], b)
            R.output(a, b, c)
        return (a, b, c)

    @R.function
    def main(x: R.Tensor((4,), "float32"), y: R.Tensor((3,), "float32")):
        with R.dataflow():
            r = cls.inner(x, y, (x, x))
            s = r[0]
            t = r[2]
            z = R.add(s, t)
            R.output(z)
        return z


@pytest.mark.parametrize(
    "step, check",
    [
        (transform.RemoveUnusedParameters(), lambda f: len(f.params) == 2),
        (transform.RemoveUnusedOutputs(), lambda f: len(f.ret_struct_info.fields) == 2),
        (transform.ExpandTupleArguments(), lambda f: len(f.params) == 4),
    ],
)
def test_private_signatures_change(step, check):
    changed = step(Wasteful)
    analysis.assert_well_formed(changed)
    assert check(changed["inner"])
    arrays = f32(4), f32(3)
    want = interpreter.run(Wasteful, "main", *arrays)
    np.testing.assert_allclose(interpreter.run(changed, "main", *arrays), want, rtol=1e-6)


def weighted():
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((2, 4), "float32"))
    w = relax.Var("w", R.Tensor((5, 4), "float32"))
    b = relax.Var("b", R.Tensor((5,), "float32"))
    with builder.function("main", [x, w, b], {"num_input": 1}):
        with builder.dataflow():
            turned = builder.emit(op.permute_dims(op.multiply(w, relax.const(2.0))))
            output = builder.emit_output(op.add(op.matmul(x, turned), b))
        builder.emit_func_output(output)
    return builder.get()


def test_weights_are_transformed_ahead_of_time():
    module = weighted()
    lifted = transform.LiftTransformParams()(module)
    analysis.assert_well_formed(lifted)
    x, w, b = f32(2, 4), f32(5, 4), f32(5)
    ready = interpreter.run(lifted, "main_transform_params", (w, b))
    assert ready[0].shape == (4, 5)
    want = interpreter.run(module, "main", x, w, b)
    np.testing.assert_allclose(interpreter.run(lifted, "main", x, *ready), want, rtol=1e-5)
    assert len(analysis.bindings_of(lifted["main"])) == 2


def test_bundles():
    module = weighted()
    bundled = transform.BundleModelParams("weights")(module)
    analysis.assert_well_formed(bundled)
    assert [p.name_hint for p in bundled["main"].params] == ["x", "weights"]
    x, w, b = f32(2, 4), f32(5, 4), f32(5)
    want = interpreter.run(module, "main", x, w, b)
    np.testing.assert_allclose(interpreter.run(bundled, "main", x, (w, b)), want)


def test_update_of_struct_info():
    def double(param):
        return R.Tensor((4, 4), "float32") if param.name_hint == "x" else None

    changed = transform.UpdateParamStructInfo(double)(weighted())
    assert changed["main"].ret_struct_info.concrete_shape == (4, 5)


def test_parallel_products_are_combined():
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((2, 4), "float32"))
    weights = [relax.const(f32(4, size)) for size in (3, 5, 3)]
    with builder.function("main", [x]):
        with builder.dataflow():
            products = [builder.emit(op.matmul(x, weight)) for weight in weights]
            output = builder.emit_output(relax.Tuple([op.nn.relu(p) for p in products]))
        builder.emit_func_output(output)
    module = builder.get()
    combined = transform.CombineParallelMatmul()(module)
    analysis.assert_well_formed(combined)
    calls = [b.value for b in analysis.bindings_of(combined["main"])]
    names = [c.op.name for c in calls if isinstance(c, relax.Call)]
    assert names.count("relax.matmul") == 1 and names.count("relax.split") == 1
    array = f32(2, 4)
    want = interpreter.run(module, "main", array)
    for a, b in zip(interpreter.run(combined, "main", array), want):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@I.ir_module
class Steps:
    """Two functions of the same weights; each also prepares something that the other does not."""

    @R.function
    def prefill(
        x: R.Tensor((3, 4), "float32"), w: R.Tensor((5, 4), "float32"), b: R.Tensor((5,), "float32")
    ):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            t = R.permute_dims(w)
            shift = R.exp(b)
            y = R.matmul(x, t)
            z = R.add(y, shift)
            R.output(z)
        return z

    @R.function
    def decode(
        x: R.Tensor((1, 4), "float32"),
        weight: R.Tensor((5, 4), "float32"),
        bias: R.Tensor((5,), "float32"),
    ):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            other = R.negative(bias)
            turned = R.permute_dims(weight)
            again = R.permute_dims(weight)
            y = R.matmul(x, turned)
            z = R.add(y, R.matmul(x, again))
            out = R.add(z, other)
            R.output(out)
        return out


@I.ir_module
class SharedSteps:
    @R.function
    def transform_params(
        params: R.Tuple(R.Tensor((5, 4), "float32"), R.Tensor((5,), "float32")),
    ):
        with R.dataflow():
            w = params[0]
            b = params[1]
            t = R.permute_dims(w)
            gv = (b, t)
            R.output(gv)
        return gv

    @R.function
    def prefill(
        x: R.Tensor((3, 4), "float32"), b: R.Tensor((5,), "float32"), t: R.Tensor((4, 5), "float32")
    ):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            shift = R.exp(b)
            y = R.matmul(x, t)
            z = R.add(y, shift)
            R.output(z)
        return z

    @R.function
    def decode(
        x: R.Tensor((1, 4), "float32"), b: R.Tensor((5,), "float32"), t: R.Tensor((4, 5), "float32")
    ):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            other = R.negative(b)
            y = R.matmul(x, t)
            z = R.add(y, R.matmul(x, t))
            out = R.add(z, other)
            R.output(out)
        return out


@pytest.mark.parametrize("shared", [True, ["prefill", "decode"]])
def test_functions_of_the_same_weights_share_a_transform(shared):
    lifted = transform.LiftTransformParams(shared_transform=shared)(Steps)
    analysis.assert_well_formed(lifted)
    assert structural_equal(lifted, SharedSteps, True), lifted.script()
    w, b = f32(5, 4), f32(5)
    ready = interpreter.run(lifted, "transform_params", (w, b))
    for name, rows in (("prefill", 3), ("decode", 1)):
        x = f32(rows, 4)
        want = interpreter.run(Steps, name, x, w, b)
        np.testing.assert_allclose(interpreter.run(lifted, name, x, *ready), want, rtol=1e-5)


def test_what_cannot_share_a_transform_is_refused():
    module = Steps.shallow_copy()
    module["other"] = weighted()["main"].with_attr("global_symbol", "other")
    assert "transform_params" in transform.LiftTransformParams(["prefill"])(module)
    module["other"] = Wasteful["inner"].with_attr("num_input", 1)
    with pytest.raises(TypeMismatchError, match="'other' are not those of 'prefill'"):
        transform.LiftTransformParams(True)(module)
    with pytest.raises(UnknownNameError, match="main has no weights"):
        transform.LiftTransformParams(["main"])(Wasteful)


def test_lifted_transforms_run_one_weight_at_a_time():
    """LiftTransformParams, LazyTransformParams, BundleModelParams, build, run."""
    lifted = transform.LiftTransformParams(shared_transform=True)(Steps)
    lazy = transform.LazyTransformParams("tests.chain.get", "tests.chain.set")(lifted)
    built = relax.build(transform.BundleModelParams()(lazy), "llvm")
    given, found = [f32(5, 4), f32(5)], {}
    register_func("tests.chain.get", lambda number: relax.const(given[number]).data, override=True)
    register_func(
        "tests.chain.set", lambda number, one: found.update({number: one.numpy()}), override=True
    )
    machine = relax.VirtualMachine(built, ts.cpu())
    machine["transform_params"]()
    ready = tuple([ts.nd.array(found[number]) for number in sorted(found)])
    x = f32(3, 4)
    want = x @ given[0].T + np.exp(given[1])
    np.testing.assert_allclose(machine["prefill"](ts.nd.array(x), ready).numpy(), want, rtol=1e-4)

"""KillAfterLastUse, LazyGetInput, LazySetOutput, LazyTransformParams, DecomposeOpsForTraining."""

import numpy as np
import pytest

from tilesmith import relax
from tilesmith.ir import structural_equal
from tilesmith.relax import analysis, interpreter, op, transform
from tilesmith.runtime.registry import register_func
from tilesmith.script import ir as I
from tilesmith.script import relax as R
from tilesmith.script import tir as T

rng = np.random.default_rng(0)


def f32(*shape):
    return rng.standard_normal(shape).astype("float32")


def assert_equal(got, wanted):
    assert structural_equal(got, wanted, True), f"{got.script()}\n\nwanted\n\n{wanted.script()}"


@I.ir_module
class Stored:
    @R.function(pure=False)
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        storage = R.memory.alloc_storage(R.shape([16]), 0, "global", "uint8")
        a = R.memory.alloc_tensor(storage, 0, R.shape([4]), "float32")
        b = R.call_packed("tests.lifetimes.same", a, x, sinfo_args=R.Tuple())
        out = R.builtin.alloc_tensor(R.shape([4]), "float32", 0)
        view = R.reshape(a, (2, 2))
        s = R.exp(view)
        t = R.reshape(s, (4,))
        u = R.add(t, x)
        gv = R.add(u, out)
        return gv


def test_values_are_killed_after_their_last_use():
    killed = transform.KillAfterLastUse()(Stored)
    analysis.assert_well_formed(killed)
    steps = [b.value for b in analysis.bindings_of(killed["main"])]
    told = {
        (call.op.name, call.args[0].name_hint): steps[:number]
        for number, call in enumerate(steps)
        if isinstance(call, relax.Call) and "kill" in getattr(call.op, "name", "")
    }
    # what a registered function was given may be kept by it, and its storage with it
    assert set(told) == {
        ("relax.vm.kill_object", "s"),
        ("relax.vm.kill_object", "u"),
        ("relax.memory.kill_tensor", "out"),
    }
    assert told["relax.vm.kill_object", "s"][-1].op.name == "relax.add"  # through its view


@I.ir_module
class Planned:
    @R.function(pure=False)
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        storage = R.memory.alloc_storage(R.shape([16]), 0, "global", "uint8")
        a = R.memory.alloc_tensor(storage, 0, R.shape([4]), "float32")
        s = R.add(a, x)
        b = R.exp(s)
        return b


@I.ir_module
class PlannedAndKilled:
    @R.function(pure=False)
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        storage = R.memory.alloc_storage(R.shape([16]), 0, "global", "uint8")
        a = R.memory.alloc_tensor(storage, 0, R.shape([4]), "float32")
        s = R.add(a, x)
        _ = R.memory.kill_tensor(a)
        _1 = R.memory.kill_storage(storage)
        b = R.exp(s)
        _2 = R.vm.kill_object(s)
        return b


def test_tensors_before_their_storage():
    assert_equal(transform.KillAfterLastUse()(Planned), PlannedAndKilled)


def test_lowered_models_run_after_it():
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((3, 4), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(op.exp(op.add(x, x)))
            z = builder.emit_output(op.multiply(y, op.tanh(y)))
        builder.emit_func_output(z)
    module = builder.get()
    lowered = module
    for step in ("LegalizeOps", "CallTIRRewrite", "StaticPlanBlockMemory", "KillAfterLastUse"):
        lowered = getattr(transform, step)()(lowered)
    analysis.assert_well_formed(lowered)
    assert lowered.script().count("kill_tensor") == 3
    assert lowered.script().count("kill_storage") == 1
    x = f32(3, 4) / 4
    want = interpreter.run(module, "main", x)
    np.testing.assert_allclose(interpreter.run(lowered, "main", x), want, rtol=1e-5)
    np.testing.assert_allclose(relax.build(lowered)(x).numpy(), want, rtol=1e-5)


@I.ir_module
class Weights:
    @R.function
    def main(
        x: R.Tensor((2, 3), "float32"),
        w: R.Tensor((3, "n"), "float32"),
        b: R.Tensor((2,), "float32"),
    ) -> R.Tensor(("n", 2), "float32"):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            y = R.matmul(x, w)
            z = R.permute_dims(y)
            gv = R.add(z, b)
            R.output(gv)
        return gv


@I.ir_module
class LazyWeights:
    @R.function
    def main(
        x: R.Tensor((2, 3), "float32"),
        fget_param: R.Callable([R.Prim("int64"), R.Object], R.Object),
    ) -> R.Tensor(ndim=2, dtype="float32"):
        n = T.int64()
        w_untyped = fget_param(R.prim_value(0), R.str("w"))
        w = R.match_cast(w_untyped, R.Tensor((3, n), "float32"))
        y = R.matmul(x, w)
        z = R.permute_dims(y)
        b_untyped = fget_param(R.prim_value(1), R.str("b"))
        b = R.match_cast(b_untyped, R.Tensor((2,), "float32"))
        gv = R.add(z, b)
        return gv


def test_weights_are_got_when_they_are_needed():
    lazy = transform.LazyGetInput()(Weights)
    analysis.assert_well_formed(lazy)
    assert_equal(lazy, LazyWeights)
    x, w, b = f32(2, 3), f32(3, 5), f32(2)
    asked = []

    @register_func("tests.lifetimes.get", override=True)
    def get(index, name):
        asked.append((index, name))
        return relax.const({"w": w, "b": b}[name]).data

    got = interpreter.run(lazy, "main", x, relax.ExternFunc("tests.lifetimes.get"))
    np.testing.assert_allclose(got, (x @ w).T + b, rtol=1e-5)
    assert asked == [(0, "w"), (1, "b")]
    plain = transform.LazyGetInput()(LazyWeights)
    assert plain["main"] is LazyWeights["main"]


@I.ir_module
class Results:
    @R.function
    def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")) -> R.Tuple(
        R.Tensor((2,), "float32"), R.Tensor((2,), "float32"), R.Tensor((2,), "float32")
    ):
        a = R.add(x, y)
        b = R.exp(a)
        return (b, y, a)


@I.ir_module
class LazyResults:
    @R.function(pure=False)
    def main(
        x: R.Tensor((2,), "float32"),
        y: R.Tensor((2,), "float32"),
        fset_output: R.Callable([R.Prim("int64"), R.Object], R.Tuple(), False),
    ) -> R.Tuple():
        _: R.Tuple() = fset_output(R.prim_value(1), y)
        a = R.add(x, y)
        _1: R.Tuple() = fset_output(R.prim_value(2), a)
        b = R.exp(a)
        _2: R.Tuple() = fset_output(R.prim_value(0), b)
        return R.tuple()


def test_results_are_handed_over_when_they_are_known():
    lazy = transform.LazySetOutput()(Results)
    analysis.assert_well_formed(lazy)
    assert_equal(lazy, LazyResults)
    x, y = f32(2), f32(2)
    found = {}

    @register_func("tests.lifetimes.set", override=True)
    def set_(index, value):
        found[index] = value.numpy()

    interpreter.run(lazy, "main", x, y, relax.ExternFunc("tests.lifetimes.set"))
    want = interpreter.run(Results, "main", x, y)
    for number, value in enumerate(want):
        np.testing.assert_array_equal(found[number], value)
    private = Results.clone()
    private["main"] = private["main"].without_attr("global_symbol")
    assert transform.LazySetOutput()(private)["main"] is private["main"]


def normalised(make, *shapes, dtype="float32"):
    builder = relax.BlockBuilder()
    params = [relax.Var(f"p{k}", R.Tensor(s, dtype)) for k, s in enumerate(shapes)]
    with builder.function("main", params):
        with builder.dataflow():
            value = builder.emit_output(make(*params))
        builder.emit_func_output(value)
    return builder.get()


def test_training_normalisation_by_batches():
    shapes = [(2, 3, 4), (3,), (3,), (3,), (3,)]
    module = normalised(lambda *p: op.nn.batch_norm(*p, axis=1, momentum=0.25), *shapes)
    trained = normalised(
        lambda *p: op.nn.batch_norm(*p, axis=1, momentum=0.25, training=True), *shapes
    )
    changed = transform.DecomposeOpsForTraining()(module)
    analysis.assert_well_formed(changed)
    assert "batch_norm" not in changed.script()
    arrays = [f32(*shape) for shape in shapes[:-1]] + [abs(f32(3)) + 0.5]
    want = interpreter.run(trained, "main", *arrays)
    for a, b in zip(interpreter.run(changed, "main", *arrays), want):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    other = transform.DecomposeOpsForTraining("other")(module)
    assert "batch_norm" in other.script()


@pytest.mark.parametrize("axes", [[-1], [1, 2], [1]])
def test_training_normalisation_by_layers(axes):
    shape = (2, 3, 4)
    sizes = tuple([shape[axis] for axis in axes])
    module = normalised(lambda *p: op.nn.layer_norm(*p, axes=axes), shape, sizes, sizes)
    changed = transform.DecomposeOpsForTraining()(module)
    assert "layer_norm" not in changed.script()
    arrays = [f32(*shape), f32(*sizes), f32(*sizes)]
    want = interpreter.run(module, "main", *arrays)
    np.testing.assert_allclose(
        interpreter.run(changed, "main", *arrays), want, rtol=1e-4, atol=1e-5
    )


@I.ir_module
class Transform:
    @R.function
    def main_transform_params(
        params: R.Tuple(R.Tensor((2, 3), "float32"), R.Tensor((4,), "float32")),
    ) -> R.Tuple(R.Tensor((4,), "float32"), R.Tensor((3, 2), "float32")):
        with R.dataflow():
            b = params[1]
            w = params[0]
            t = R.permute_dims(w)
            gv = (b, t)
            R.output(gv)
        return gv


@I.ir_module
class LazyTransform:
    @R.function(pure=False)
    def main_transform_params(rank: R.Object) -> R.Tuple():
        R.func_attr({"relax.force_pure": True})
        o1 = R.call_packed("tests.lazy.get", rank, R.prim_value(1), sinfo_args=(R.Object,))
        b1 = R.match_cast(o1, R.Tensor((4,), "float32"))
        b = b1
        _ = R.call_packed("tests.lazy.set", R.prim_value(0), b, sinfo_args=(R.Object,))
        _k = R.vm.kill_object(o1)
        o2 = R.call_packed("tests.lazy.get", rank, R.prim_value(0), sinfo_args=(R.Object,))
        w1 = R.match_cast(o2, R.Tensor((2, 3), "float32"))
        w = w1
        t = R.permute_dims(w)
        _k2 = R.vm.kill_object(o2)
        _2 = R.call_packed("tests.lazy.set", R.prim_value(1), t, sinfo_args=(R.Object,))
        _k3 = R.vm.kill_object(t)
        return R.tuple()


def test_weights_are_transformed_one_by_one():
    rank = relax.Var("rank", R.Object())
    lazy = transform.LazyTransformParams("tests.lazy.get", "tests.lazy.set", [rank])(Transform)
    analysis.assert_well_formed(lazy)
    assert_equal(lazy, LazyTransform)
    given, found = [f32(2, 3), f32(4)], {}
    register_func("tests.lazy.get", lambda rank, k: relax.const(given[k]).data, override=True)
    register_func(
        "tests.lazy.set", lambda k, value: found.__setitem__(k, value.numpy()), override=True
    )
    interpreter.run(lazy, "main_transform_params", 7)
    np.testing.assert_array_equal(found[0], given[1])
    np.testing.assert_array_equal(found[1], given[0].T)


def test_only_weights_or_only_results():
    inputs = transform.LazyTransformParams(fset_item=None)(Transform)["main_transform_params"]
    assert not inputs.params and len(inputs.ret_struct_info.fields) == 2
    outputs = transform.LazyTransformParams(fget_item=None)(Transform)["main_transform_params"]
    assert len(outputs.params) == 1 and not outputs.ret_struct_info.fields


def test_what_the_lazy_form_is_made_from():
    from tilesmith.relax.transform import lazy_transform_params as lazy

    function = Transform["main_transform_params"]
    result = function.body.body
    collector = lazy.ForwardCollector(result, function.params[0])
    collector.visit_expr(function)
    assert {var.name_hint: k for var, k in collector.out_tuple_map.items()} == {"b": [0], "t": [1]}
    assert [var.name_hint for var in collector.var_tuple_get_item] == ["b", "w"]
    ends = lazy.LivenessAnalysis(result)
    ends.visit_expr(function)
    found = {
        k.name_hint: [v.name_hint for v in ended] for k, ended in ends.var_liveness_end.items()
    }
    assert found == {"t": ["w", "t"], "w": ["params"], "b": ["b"]}

"""FuseOps and FuseTIR: which calls make a group, what the group's function takes, what it means."""

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import ir, relax, topi
from tilesmith.relax import analysis, interpreter, op, transform
from tilesmith.script import relax as R

rng = np.random.default_rng(0)


def f32(*shape):
    return rng.standard_normal(shape).astype("float32")


def tensor(name, *shape):
    return relax.Var(name, R.Tensor(shape, "float32"))


def build(make, *params):
    builder = relax.BlockBuilder()
    with builder.function("main", list(params)):
        with builder.dataflow():
            output = builder.emit_output(make(builder, *params))
        builder.emit_func_output(output)
    return transform.AnnotateTIROpPattern()(transform.LegalizeOps()(builder.get()))


def in_place(builder, compute, x, *others):
    """Call a kernel that writes its result over its first argument."""
    shape = x.struct_info.shape.values
    a = ts.te.placeholder(shape, "float32", "a")
    rest = [ts.te.placeholder(shape, "float32", f"b{k}") for k in range(len(others))]
    made = ts.te.create_prim_func([a, *rest, compute(a, *rest)])
    target = made.buffer_map[made.params[0]]
    result = made.buffer_map[made.params[-1]]
    body = ts.tir.functor.substitute(made.body, {}, buffers={result: target})
    kernel = ts.tir.PrimFunc(
        list(made.params[:-1]),
        body,
        buffer_map={p: made.buffer_map[p] for p in made.params[:-1]},
        attrs={"tir.noalias": True},
    )
    name = builder.add_func(kernel, "over")
    return builder.emit(op.call_tir_inplace(name, [x, *others], [0], x.struct_info))


def split_and_add(builder, x):
    parts = builder.emit(op.split(builder.emit(op.exp(x)), 2, axis=1))
    return builder.emit(op.add(parts[0], builder.emit(op.negative(parts[1]))))


def item_used_twice(builder, x):
    parts = builder.emit(op.split(x, 2, axis=1))
    added = builder.emit(op.add(parts[0], builder.emit(op.exp(parts[0]))))
    total = builder.emit(op.matmul(parts[1], builder.emit(op.permute_dims(added))))
    return total


def items_of_a_parameter(builder, pair):
    return builder.emit(op.exp(builder.emit(op.add(pair[0], pair[2]))))


def softmax_and_relu(builder, x):
    return builder.emit(op.nn.relu(builder.emit(op.nn.softmax(x))))


def layer_norm_and_add(builder, x):
    weight, bias = relax.const(f32(4)), relax.const(f32(4))
    normal = builder.emit(op.nn.layer_norm(x, weight, bias, axes=[-1]))
    return builder.emit(op.add(normal, x))


def scalar_constant(builder, x):
    return builder.emit(op.exp(builder.emit_te(topi.add, x, relax.const(2.0))))


def full_of_a_size(builder, x):
    n = x.struct_info.shape[0]
    filled = builder.emit(op.full((n, 4), relax.const(3.0), "float32"))
    return builder.emit(op.add(x, builder.emit(op.exp(filled))))


def over_its_own(builder, x):
    first = builder.emit(op.exp(x))
    second = in_place(builder, lambda a: topi.add(a, a), first)
    return builder.emit(op.negative(second))


def over_a_parameter(builder, x):
    first = in_place(builder, topi.exp, x)
    return in_place(builder, lambda a: topi.add(a, a), first)


N = ir.Var("n", "int64")
PAIR = relax.Var("pair", R.Tuple([R.Tensor((6, 4), "float32")] * 3))
CASES = {
    # the parameters, the fused function and its parameters, whether main calls it in place
    split_and_add: (tensor("x", 6, 4), "fused_exp_split_negative_add", ["x"]),
    item_used_twice: (tensor("x", 6, 4), "fused_exp_add_permute_dims", ["lv_0"]),
    items_of_a_parameter: (PAIR, "fused_add_exp", ["pair_0", "pair_2"]),
    softmax_and_relu: (tensor("x", 6, 4), "fused_softmax_relu", ["x"]),
    layer_norm_and_add: (tensor("x", 6, 4), "fused_layer_norm_add", ["x", "param_0", "param_1"]),
    scalar_constant: (tensor("x", 6, 4), "fused_add_exp", ["x", "param_0"]),
    full_of_a_size: (tensor("x", N, 4), "fused_full_exp_add", ["param_0", "x"]),
    over_its_own: (tensor("x", 6, 4), "fused_exp_over_negative", ["x"]),
    over_a_parameter: (tensor("x", 6, 4), "fused_over_over1", ["x"]),
}


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_groups(make):
    param, name, expected = CASES[make]
    module = build(make, param)
    fused = transform.FuseOps()(module)
    analysis.assert_well_formed(fused)
    found = [gv for gv in fused.get_global_vars() if gv.name_hint.startswith("fused_")]
    assert [gv.name_hint for gv in found] == [name]
    assert [param.name_hint for param in fused[name].params] == expected
    merged = transform.DeadCodeElimination()(transform.FuseTIR()(fused))
    analysis.assert_well_formed(merged)
    assert isinstance(merged[name], ts.tir.PrimFunc)
    argument = tuple(f32(6, 4) for _ in range(3)) if make is items_of_a_parameter else f32(6, 4)

    def run(one):
        copied = tuple(map(np.copy, argument)) if isinstance(argument, tuple) else argument.copy()
        return interpreter.run(one, "main", copied)

    want = run(module)
    for one in (fused, merged):
        np.testing.assert_allclose(run(one), want, rtol=1e-6)
    built = relax.build(merged, target="llvm", pipeline=None)
    got = built(argument) if not isinstance(argument, tuple) else built(argument)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, atol=1e-6)


def test_results_in_place_stay_in_place():
    merged = transform.FuseTIR()(transform.FuseOps()(build(over_a_parameter, tensor("x", 6, 4))))
    calls = [b.value for b in analysis.bindings_of(merged["main"])]
    (call,) = [value for value in calls if isinstance(value, relax.Call)]
    assert call.op.name == "relax.call_tir_inplace" and list(call.attrs.inplace_indices) == [0]


def test_what_is_overwritten_is_read_before():
    """`a` reads x before it is overwritten: its group must not move behind that."""

    def make(builder, x):
        a = builder.emit(op.exp(x))
        b = in_place(builder, lambda a: topi.add(a, a), x)
        total = builder.emit(op.add(builder.emit(op.negative(a)), b))
        return total

    module = build(make, tensor("x", 6, 4))
    merged = transform.FuseTIR()(transform.FuseOps()(module))
    x = f32(6, 4)
    np.testing.assert_allclose(
        relax.build(merged, target="llvm", pipeline=None)(x.copy()).numpy(),
        2 * x - np.exp(x),
        rtol=1e-5,
    )


@pytest.mark.parametrize("is_result", [False, True])
def test_values_are_widened_where_they_are_read(is_result):
    """What passes between two kernels has the fewer bits, unless the wide form is a result."""
    weights = [relax.const(f32(4, 6)) for _ in range(2)]

    def make(builder, x, y):
        second = builder.emit(op.matmul(y, weights[1]))
        first = builder.emit(op.astype(builder.emit(op.matmul(x, weights[0])), "float16"))
        wide = builder.emit(op.astype(first, "float32"))
        total = builder.emit(op.add(second, wide))
        return builder.emit(relax.Tuple([total, wide])) if is_result else total

    mod = build(make, tensor("x", 5, 4), tensor("y", 5, 4))
    fused = transform.FuseOps()(mod)
    given = [one.ret_struct_info.dtype for one in fused.functions.values()
             if isinstance(one, relax.Function) and one.attrs.get("Primitive")]  # fmt: skip
    assert sorted(map(str, given)) == ["float32" if is_result else "float16", "float32"]
    x, y = f32(5, 4), f32(5, 4)
    wanted, found = [interpreter.run(one, "main", x, y) for one in (mod, fused)]
    for want, have in zip(*[one if is_result else [one] for one in (wanted, found)]):
        np.testing.assert_allclose(have, want, rtol=1e-6)

"""Simplification, recognised operators, mixed precision."""

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import relax
from tilesmith.ir.queries import nodes
from tilesmith.relax import analysis, interpreter, op, transform
from tilesmith.script import relax as R

rng = np.random.default_rng(0)


def f32(*shape):
    return rng.standard_normal(shape).astype("float32")


def build(make, *shapes, dtype="float32"):
    params = [relax.Var(f"x{i}", R.Tensor(shape, dtype)) for i, shape in enumerate(shapes)]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            output = builder.emit_output(make(*params))
        builder.emit_func_output(output)
    return builder.get()


def operators(module):
    values = [b.value for b in analysis.bindings_of(module["main"])]
    return [v.op.name.removeprefix("relax.") for v in values if isinstance(v, relax.Call)]


def constant(value):
    return relax.const(value, "float32")


@pytest.mark.parametrize(
    "make, left",
    [
        (lambda x: op.reshape(op.reshape(x, (8,)), (4, 2)), ["reshape"]),
        (lambda x: op.reshape(op.reshape(x, (8,)), (2, 4)), []),
        (lambda x: op.permute_dims(op.permute_dims(x)), []),
        (lambda x: op.permute_dims(x, [0, 1]), []),
        (lambda x: op.astype(op.astype(x, "float64"), "float32"), []),
        (lambda x: op.astype(op.astype(x, "float16"), "float32"), ["astype", "astype"]),
        (lambda x: op.add(op.multiply(x, constant(1.0)), constant(0.0)), []),
        (lambda x: op.add(x, relax.const(np.zeros((3, 2, 4), "float32"))), ["add"]),
        (lambda x: op.power(x, constant(2.0)), ["multiply"]),
        (lambda x: op.power(op.abs(x), constant(0.5)), ["abs", "sqrt"]),
        (lambda x: op.negative(op.negative(x)), []),
        (lambda x: op.nn.relu(op.nn.relu(x)), ["nn.relu"]),
        (lambda x: op.concat([x], 0), []),
        (lambda x: op.strided_slice(x, [0], [0], [2]), []),
        (lambda x: op.strided_slice(x, [0], [-1], [-3], [-1]), ["strided_slice"]),
        (lambda x: op.broadcast_to(x, (2, 4)), []),
        (lambda x: op.take(x, relax.const(-1, "int64"), 1), ["strided_slice", "squeeze"]),
        (lambda x: op.take(x, relax.const([1], "int64"), 1), ["take"]),
        (lambda x: op.strided_slice(op.permute_dims(x), [0], [1], [3]),
         ["strided_slice", "permute_dims"]),
        (lambda x: op.strided_slice(op.expand_dims(x, [0, 2]), [-1], [3], [0], [-2]),
         ["strided_slice", "expand_dims"]),
        (lambda x: op.strided_slice(op.expand_dims(x, [0]), [0], [0], [1]), ["expand_dims"]),
        (lambda x: op.take(op.squeeze(op.permute_dims(op.expand_dims(x, [0]), [1, 2, 0]), [2]),
                           relax.const(1, "int64"), 1),
         ["strided_slice", "expand_dims", "permute_dims", "squeeze", "squeeze"]),
    ],
)  # fmt: skip
def test_rules(make, left):
    module = build(make, (2, 4))
    simple = transform.CanonicalizeBindings()(transform.SimplifyExpr()(module))
    assert operators(simple) == left
    analysis.assert_well_formed(simple)
    x = f32(2, 4)
    want, got = interpreter.run(module, "main", x), interpreter.run(simple, "main", x)
    np.testing.assert_allclose(got, want, rtol=1e-6)


def written_out_layer_norm(x, square=True):
    mean = op.mean(x, axis=[-1], keepdims=True)
    centred = op.subtract(x, mean)
    squared = op.power(centred, constant(2.0)) if square else op.multiply(centred, centred)
    variance = op.mean(squared, axis=[-1], keepdims=True)
    divided = op.divide(centred, op.sqrt(op.add(variance, constant(1e-5))))
    return op.add(op.multiply(divided, relax.const(f32(6))), relax.const(f32(6)))


def written_out_gelu(x, order=0):
    bell = op.add(op.erf(op.divide(x, constant(2**0.5))), constant(1.0))
    if order == 0:
        return op.multiply(op.multiply(x, bell), constant(0.5))
    if order == 1:
        return op.multiply(op.multiply(constant(0.5), x), bell)
    return op.multiply(x, op.multiply(bell, constant(0.5)))


@pytest.mark.parametrize(
    "make, name",
    [
        (written_out_layer_norm, "nn.layer_norm"),
        (lambda x: written_out_layer_norm(x, False), "nn.layer_norm"),
        (written_out_gelu, "nn.gelu"),
        (lambda x: written_out_gelu(x, 1), "nn.gelu"),
        (lambda x: written_out_gelu(x, 2), "nn.gelu"),
    ],
)
def test_operators_are_recognised(make, name):
    module = build(make, (3, 6))
    found = transform.RecognizeOps()(module)
    assert operators(found) == [name]
    x = f32(3, 6)
    want, got = interpreter.run(module, "main", x), interpreter.run(found, "main", x)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_what_only_looks_alike_is_left():
    def wrong(x):
        bell = op.add(op.erf(op.divide(x, constant(1.5))), constant(1.0))
        return op.multiply(op.multiply(x, bell), constant(0.5))

    assert "nn.gelu" not in operators(transform.RecognizeOps()(build(wrong, (3, 6))))


def test_mixed_precision():
    def network(x):
        y = op.nn.relu(op.add(op.matmul(x, relax.const(f32(6, 5))), relax.const(f32(5))))
        return op.nn.softmax(op.matmul(y, relax.const(f32(5, 4))))

    module = build(network, (3, 6))
    mixed = transform.ToMixedPrecision()(module)
    analysis.assert_well_formed(mixed)
    assert mixed["main"].ret_struct_info.dtype == "float32"
    products = [
        b.value
        for b in analysis.bindings_of(mixed["main"])
        if isinstance(b.value, relax.Call) and b.value.op.name == "relax.matmul"
    ]
    assert [p.args[0].struct_info.dtype for p in products] == ["float16", "float16"]
    assert [p.struct_info.dtype for p in products] == ["float32", "float32"]
    x = f32(3, 6)
    want, got = interpreter.run(module, "main", x), interpreter.run(mixed, "main", x)
    np.testing.assert_allclose(got, want, rtol=2e-2, atol=1e-2)
    narrow = transform.ToMixedPrecision("float16", ["x0"])(module)
    assert narrow["main"].params[0].struct_info.dtype == "float16"
    assert narrow["main"].ret_struct_info.dtype == "float32"


@pytest.mark.parametrize("far", [0.0, 100.0, -3000.0])
def test_written_out_normalisation_is_one_kernel_and_as_exact(far):
    module = build(written_out_layer_norm, (5, 40, 6))
    assert operators(relax.get_pipeline("default")(module)) == ["call_tir"]
    x = f32(5, 40, 6) + np.float32(far)
    exact = x.astype("float64") - x.mean(-1, keepdims=True, dtype="float64")
    exact /= np.sqrt((exact**2).mean(-1, keepdims=True) + 1e-5)
    found = relax.build(module, "llvm")(ts.nd.array(x)).numpy()
    scale, shift = [
        one.data.numpy()
        for one in nodes(module["main"].body, relax.Constant)
        if one.data.shape == (6,)
    ]
    np.testing.assert_allclose(found, exact * scale + shift, rtol=1e-3, atol=1e-3)

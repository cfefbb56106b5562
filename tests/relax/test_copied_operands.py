"""A convolution that pads the image of few colours permutes it on the way."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import relax, te, tir, topi
from tilesmith.ir import IRModule
from tilesmith.relax import op, transform
from tilesmith.relax.analysis.copied_operands import copies_narrow_operand
from tilesmith.script import relax as R

torch = pytest.importorskip("torch")


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def network(shape, padding, uses_twice=False, goes_on=False):
    """A convolution at the door of a network, with ReLU; a lone one is read as it is."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor(shape, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            weight = relax.const(random(16, shape[1], 3, 3, seed=1))
            y = builder.emit(op.nn.conv2d(x, weight, strides=2, padding=padding))
            y = builder.emit(op.nn.relu(y))
            if goes_on:
                y = builder.emit(op.nn.conv2d(y, relax.const(random(16, 16, 1, 1, seed=3))))
            if uses_twice:
                weight = relax.const(random(16, shape[1], 3, 3, seed=2))
                y = builder.emit(op.add(y, op.nn.conv2d(x, weight, strides=2, padding=padding)))
            result = builder.emit_output(y)
        builder.emit_func_output(result)
    return builder.get()


def kernels(mod):
    passes = [
        transform.PackForVectors("llvm -mcpu=skylake-avx512"),
        transform.DeadCodeElimination(),
        transform.LegalizeOps(),
        transform.AnnotateTIROpPattern(),
        transform.FuseOps(),
    ]
    fused = ts.transform.Sequential(passes)(mod)
    return [name.name_hint for name, one in fused.functions.items() if "Primitive" in one.attrs]


@pytest.mark.parametrize(
    ("shape", "padding", "uses_twice", "is_fused"),
    [
        ((1, 3, 9, 11), 1, False, True),
        ((1, 3, 9, 11), 0, False, False),  # nothing is copied
        ((1, 16, 9, 11), 1, False, False),  # not narrow
        ((1, 3, 9, 11), 1, True, False),  # both would permute it
    ],
)
def test_who_permutes(shape, padding, uses_twice, is_fused):
    found = kernels(network(shape, padding, uses_twice, goes_on=not uses_twice))
    assert any("permute_dims_conv2d" in name for name in found) == is_fused


def test_what_counts_as_a_copy():
    x, w = te.placeholder((1, 9, 9, 3)), te.placeholder((1, 3, 3, 3, 16))
    padded = topi.nn.conv2d_nhwc_packed(x, w, 16, [1, 1], [1] * 4, [1, 1])
    function = te.create_prim_func([x, w, padded])
    assert copies_narrow_operand(function, 0)
    assert not copies_narrow_operand(function, 1)
    doubled = te.compute((9, 3), lambda i, j: x[0, i, 0, j] + x[0, 0, i, j])
    assert not copies_narrow_operand(te.create_prim_func([x, doubled]), 0)
    assert not copies_narrow_operand(te.create_prim_func([x, topi.nn.relu(x)]), 0)  # the result


@pytest.mark.parametrize("batch", [1, 2, None], ids=["1", "2", "symbolic"])
@pytest.mark.parametrize("colours", [1, 3])
def test_results(batch, colours):
    shape = (tir.Var("n", "int64") if batch is None else batch, colours, 9, 21)
    x = random(batch or 2, colours, 9, 21)
    mod = network(shape, 1)
    assert isinstance(mod, IRModule)
    found = relax.build(mod, "llvm")(ts.nd.array(x)).numpy()
    weight = torch.tensor(random(16, colours, 3, 3, seed=1))
    want = torch.relu(torch.nn.functional.conv2d(torch.tensor(x), weight, stride=2, padding=1))
    np.testing.assert_allclose(found, want.numpy(), rtol=1e-4, atol=1e-4)

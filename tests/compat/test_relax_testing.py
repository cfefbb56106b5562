"""Helpers of `tvm.relax.testing`: models made of layers, trees of graphs."""

import ast

import numpy as np
import pytest

from tilesmith import relax
from tilesmith.compat.tvm import relax_testing
from tilesmith.compat.tvm.relax_testing import dump_ast, nn
from tilesmith.relax import interpreter
from tilesmith.script import relax as R
from tilesmith.support.errors import DiagnosticError, ShapeError


def network():
    builder = relax.BlockBuilder()
    with builder.function("main"):
        model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2, bias=False))
        data = nn.Placeholder((5, 4), name="data")
        output = nn.LogSoftmax()(model(data))
        builder.emit_func_output(output, params=[data, *model.parameters()])
    return builder.get()


def test_layers():
    module = network()
    names = [param.name_hint for param in module["main"].params]
    assert names == ["data", "linear_weight", "linear_bias", "linear_weight1"]
    assert [value.shape for value in nn.init_params(module)] == [(4, 3), (3,), (3, 2)]
    rng = np.random.default_rng(0)
    x, w, b, v = [rng.standard_normal(s).astype("float32") for s in ((5, 4), (4, 3), (3,), (3, 2))]
    scores = np.maximum(x @ w + b, 0) @ v
    expected = scores - np.log(np.exp(scores).sum(-1, keepdims=True))
    got = relax.build(module, target="llvm")(x, w, b, v)
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-4, atol=1e-5)


def test_layers_belong_to_a_function():
    with pytest.raises(DiagnosticError, match="while a function is built"):
        nn.Linear(4, 3)


@pytest.mark.parametrize("segments, last", [(2, False), ([1, 2], True)])
def test_checkpoints(segments, last):
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((3,), "float32"))
    layers = [lambda v: relax.op.exp(v), lambda v: relax.op.sin(v), lambda v: relax.op.cos(v)]
    with builder.function("main", [x]):
        with builder.dataflow():
            value = nn.emit_checkpoint_sequential(layers, segments, x, last)
            output = builder.emit_output(value)
        builder.emit_func_output(output)
    text = builder.get().script()
    assert text.count("start_checkpoint") == (2 if last else 1)
    values = np.array([0.1, 0.2, 0.3], "float32")
    got = interpreter.run(builder.get(), "main", values)
    np.testing.assert_allclose(got, np.cos(np.sin(np.exp(values))), rtol=1e-6)
    with pytest.raises(ShapeError, match="segments"):
        nn.emit_checkpoint_sequential(layers, [2], x)


@R.function
def everything(x: R.Tensor((2, "n"), "float32"), p: R.Tensor((), "bool")):
    a = R.sum(x, axis=[0])
    if p:
        r = R.exp(a)
    else:
        t = (a, R.const(1.0))
        r = t[0]
    return r


def test_trees():
    text = dump_ast(everything)
    for part in (
        "Function(", 'name_hint="x"', 'Op(name="relax.sum")', "attrs=", "If(", "TupleGetItem(",
        "VarBinding(", "BindingBlock(", "Constant(data=", "struct_info=R.Tensor(",
    ):  # fmt: skip
        assert part in text
    short = dump_ast(everything, include_struct_info_annotations=False, include_call_attrs=False)
    assert len(short) < len(text) and "keepdims" not in short
    assert "\n  params=[" in dump_ast(everything, indent_str="  ")
    plain = dump_ast(relax.op.exp(relax.Var("y", R.Tensor((1,)))), "    ", False)
    ast.parse(plain)
    assert plain == 'Call(op=Op(name="relax.exp"), args=[Var(name_hint="y")])'
    assert dump_ast(relax.StringImm("s"), "    ", False) == 'StringImm(value="s")'
    assert relax_testing.dump_ast is dump_ast

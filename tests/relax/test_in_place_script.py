"""Which arguments may be overwritten, and programs that do so."""

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import relax
from tilesmith.ir.transform import PassContext
from tilesmith.relax import analysis, interpreter, op
from tilesmith.relax.analysis.in_place import (
    UNKNOWN,
    InplaceOpportunity,
    dataflow_alias_analysis,
    dataflow_inplace_analysis,
    dataflow_liveness_analysis,
)
from tilesmith.relax.transform.in_place import dataflow_single_inplace_call
from tilesmith.script import ir as I
from tilesmith.script import relax as R
from tilesmith.support.errors import UnsupportedError


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((1, 3), "float32")):
        with R.dataflow():
            z = R.add(x, y)  # inputs are not overwritten
            p = R.exp(z)  # z is needed again
            q = R.multiply(z, y)  # over z
            r = R.add(p, q)  # over both
            n = R.add(r, r)  # over r
            m = R.nn.softmax(r, axis=1)  # not elementwise
            R.output(n, m)
        return n, m

    @R.function
    def aliases(x: R.Tensor((2, 3), "float32"), t: R.Tuple(R.Tensor((6,), "float32"), R.Object)):
        with R.dataflow():
            a = R.exp(x)
            b = R.reshape(a, (6,))
            c = (a, x)
            d = c[0]
            e = R.split(x, 2, axis=0)
            f = e[1]
            g = t[0]
            h = R.call_pure_packed("keeps", a, sinfo_args=R.Tensor((2, 3), "float32"))
            i = R.exp(b)
            j = R.exp(f)
            R.output(c, h, i, j)
        return c, h, i, j


def block_of(name):
    function = Module[name]
    return function.body.blocks[0], list(function.params)


def named(found):
    return {var.name_hint: value for var, value in found.items()}


def test_liveness():
    block, _ = block_of("main")
    found = named(dataflow_liveness_analysis(block))
    assert found == {
        "x": (-1, 0), "y": (-1, 2), "z": (0, 2), "p": (1, 3), "q": (2, 3), "r": (3, 5),
        "n": (4, 6), "m": (5, 6),
    }  # fmt: skip


def test_aliases():
    block, inputs = block_of("aliases")
    found, fields = dataflow_alias_analysis(block, inputs)
    found = named(found)
    assert found["a"] == found["b"] == found["d"] and len(found["a"]) == 1
    (c,) = found["c"]
    assert fields[c] == [found["a"], found["x"]]
    (e,), (t,) = found["e"], found["t"]
    assert len(fields[e]) == 2 and fields[e][1] == found["f"] and fields[t][0] == found["g"]
    assert found["h"] == {UNKNOWN}
    assert len({*found["a"], *found["x"], *found["f"], *found["g"], *found["i"]}) == 5


def test_opportunities():
    block, inputs = block_of("main")
    by_size, exact = dataflow_inplace_analysis(block, inputs, Module)
    expected = [(2, {0}), (3, {0, 1})]
    assert exact == by_size == [InplaceOpportunity(n, frozenset(a)) for n, a in expected]
    block, inputs = block_of("aliases")
    _, exact = dataflow_inplace_analysis(block, inputs)
    # `b` shares its memory with what the block puts out; `f` is a field of new memory
    assert [one.binding_idx for one in exact] == [9]


def test_larger_arguments():
    @R.function
    def narrow(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = R.astype(a, "float16")
            R.output(b)
        return b

    by_size, exact = dataflow_inplace_analysis(narrow.body.blocks[0], narrow.params)
    assert by_size == [InplaceOpportunity(1, frozenset([0]))] and not exact


def overwriting(function, module):
    """Return the module with all calls of a function in place that are allowed to be."""
    (block,) = function.body.blocks
    _, exact = dataflow_inplace_analysis(block, function.params)
    bindings = list(block.bindings)
    for one in exact:
        binding = bindings[one.binding_idx]
        value, module = dataflow_single_inplace_call(module, binding.value, [min(one.arg_idxs)])
        bindings[one.binding_idx] = relax.VarBinding(binding.var, value)
    changed = module.shallow_copy()
    body = relax.SeqExpr([relax.DataflowBlock(bindings)], function.body.body)
    changed["main"] = function.with_fields(body=body)
    return changed


def test_opportunities_are_right():
    changed = overwriting(Module["main"], Module)
    analysis.assert_well_formed(changed)
    assert changed["main"].script().count("call_tir_inplace") == 2
    rng = np.random.default_rng(0)
    x, y = [rng.standard_normal(s).astype("float32") for s in ((2, 3), (1, 3))]
    expected = interpreter.run(Module, "main", x, y)
    for found in (
        interpreter.run(changed, "main", x, y),
        [one.numpy() for one in ts.relax.build(changed, "llvm", pipeline=None)["main"](x, y)],
    ):
        for mine, other in zip(found, expected):
            np.testing.assert_allclose(mine, other, rtol=1e-5)


def test_a_single_call():
    x = relax.Var("x", R.Tensor((4,), "float32"))
    call, module = dataflow_single_inplace_call(
        ts.IRModule(), op.multiply(x, relax.const(3.0)), [0]
    )
    assert call.op is op.call_tir_inplace.op and list(call.attrs.inplace_indices) == [0]
    builder = relax.BlockBuilder(module)
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(call)
        builder.emit_func_output(out)
    values = np.arange(4, dtype="float32")
    with PassContext(opt_level=0):
        found = ts.relax.build(builder.get(), "llvm", pipeline=None)(values)
    np.testing.assert_allclose(found.numpy(), np.arange(4) * 3)
    with pytest.raises(UnsupportedError, match="no kernel"):
        dataflow_single_inplace_call(ts.IRModule(), op.shape_of(x), [0])


def test_symbolic_sizes():
    @I.ir_module
    class Symbolic:
        @R.function
        def main(x: R.Tensor(("n", 3), "float32")):
            with R.dataflow():
                a = R.exp(x)
                b = R.negative(a)
                R.output(b)
            return b

    changed = overwriting(Symbolic["main"], Symbolic)
    assert "call_tir_inplace" in changed["main"].script()
    x = np.ones((5, 3), "float32")
    found = ts.relax.build(changed, "llvm", pipeline=None)(x)
    np.testing.assert_allclose(found.numpy(), -np.exp(x), rtol=1e-6)

"""Weights that many steps of a model share are one constant, folded and packed once."""

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import relax
from tilesmith.driver.pipelines import default_passes
from tilesmith.ir.transform import Sequential
from tilesmith.relax.analysis import post_order_visit
from tilesmith.relax.op import add, matmul, permute_dims, tanh
from tilesmith.relax.struct_info import TensorStructInfo
from tilesmith.target import Target

STEPS, STATE = 3, 40


def recurrent(batch):
    """A recurrent network whose steps transpose the weight anew, as importers write it."""
    random = np.random.default_rng(0)
    inner = random.standard_normal((STATE, STATE)).astype("float32") / 8
    weight = relax.const(inner)
    state = relax.Var("h", TensorStructInfo((batch, STATE), "float32"))
    inputs = [
        relax.Var(f"x{step}", TensorStructInfo((batch, STATE), "float32")) for step in range(STEPS)
    ]
    builder = relax.BlockBuilder()
    with builder.function("main", [state, *inputs]):
        with builder.dataflow():
            now = state
            for one in inputs:
                turned = builder.emit(permute_dims(weight, [1, 0]))
                product = builder.emit(matmul(now, turned))
                now = builder.emit(tanh(builder.emit(add(product, one))))
            out = builder.emit_output(now)
        builder.emit_func_output(out)
    return builder.get(), inner


def large_constants(mod):
    """The places in memory of the large constants of the main function."""
    found = set()

    def look(node):
        if isinstance(node, relax.Constant) and node.data.numpy().size > STATE:
            found.add(np.asarray(node.data).ctypes.data)

    post_order_visit(mod["main"].body, look)
    return found


@pytest.mark.parametrize("batch", [1, "open"])
def test_steps_share_packed_weights(batch):
    size = ts.tir.Var("n", "int64") if batch == "open" else batch
    mod, inner = recurrent(size)
    target = Target("llvm -num-cores=1")
    assert len(large_constants(Sequential(default_passes(target))(mod))) == 1
    compiled = ts.compile(mod, target)
    for rows in (1, 2, 5, 9) if batch == "open" else (1,):
        random = np.random.default_rng(rows)
        given = [random.standard_normal((rows, STATE)).astype("float32") for _ in range(STEPS + 1)]
        want = given[0]
        for one in given[1:]:
            want = np.tanh(want @ inner.T + one)
        np.testing.assert_allclose(compiled(*given).numpy(), want, rtol=1e-4, atol=1e-5)

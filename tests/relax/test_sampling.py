"""Draws from distributions, and attention of packed sequences, compiled."""

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import relax
from tilesmith.relax import interpreter, op
from tilesmith.script import relax as R
from tilesmith.support.errors import OpAttributeInvalid, ShapeError, TypeMismatchError

rng = np.random.default_rng(5)


def compiled_and_evaluated(make, arrays):
    params = [relax.Var(f"x{n}", R.Tensor(a.shape, str(a.dtype))) for n, a in enumerate(arrays)]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            out = builder.emit_output(make(*params))
        builder.emit_func_output(out)
    module = builder.get()
    return (
        ts.relax.build(module, "llvm")(*arrays).numpy(),
        interpreter.run(module, "main", *arrays),
    )


@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_multinomial_from_uniform(dtype):
    prob = rng.random((3, 5)).astype("float32")
    prob /= prob.sum(1, keepdims=True)
    uniform = np.array([[0.0], [0.3], [0.55], [0.999999], [0.2]], "float32")
    rows = np.array([[0], [1], [2], [0], [2]], "int64")
    found, evaluated = compiled_and_evaluated(
        lambda p, u, r: op.multinomial_from_uniform(p, u, r, dtype=dtype), [prob, uniform, rows]
    )
    expected = [
        min(np.searchsorted(np.cumsum(prob[r]), u, side="right"), 4)
        for (u,), (r,) in zip(uniform, rows)
    ]
    assert found.dtype == dtype and found.shape == (5, 1)
    assert found[:, 0].tolist() == expected == evaluated[:, 0].tolist()


def test_refused_draws():
    f = lambda *shape: relax.Var("x", R.Tensor(shape, "float32"))
    with pytest.raises(TypeMismatchError, match="integers"):
        print(op.multinomial_from_uniform(f(2, 3), f(4, 1), f(4, 1)).struct_info)
    with pytest.raises(ShapeError, match="4 numbers but 5"):
        rows = relax.Var("r", R.Tensor((5, 1), "int64"))
        print(op.multinomial_from_uniform(f(2, 3), f(4, 1), rows).struct_info)


@pytest.mark.parametrize("causal", [None, "TopLeft", "BottomRight"])
def test_attention_of_packed_sequences(causal):
    lengths_q, lengths_k = [2, 3, 1], [4, 3, 2]
    starts = [np.cumsum([0, *one]).astype("int32") for one in (lengths_q, lengths_k)]
    f32 = lambda *shape: rng.standard_normal(shape).astype("float32")
    q, k, v = f32(1, 6, 2, 5), f32(1, 9, 2, 5), f32(1, 9, 2, 3)
    arrays = [q, k, v, starts[0], np.array(3, "int32"), starts[1], np.array(4, "int32")]
    found, evaluated = compiled_and_evaluated(
        lambda *x: op.nn.attention_var_len(*x, causal_mask=causal), arrays
    )
    np.testing.assert_allclose(found, evaluated, rtol=1e-4, atol=1e-5)
    for number in range(3):
        rows = slice(starts[0][number], starts[0][number + 1])
        columns = slice(starts[1][number], starts[1][number + 1])
        alone, _ = compiled_and_evaluated(
            lambda *x: op.nn.attention(*x, causal_mask=causal),
            [np.ascontiguousarray(one) for one in (q[:, rows], k[:, columns], v[:, columns])],
        ) if number == 0 else (None, None)  # fmt: skip
        if alone is not None:
            np.testing.assert_allclose(found[:, rows], alone, rtol=1e-4, atol=1e-5)


def test_keys_are_divided_as_queries():
    t = relax.Var("t", R.Tensor((1, 6, 2, 5), "float32"))
    s, m = relax.Var("s", R.Tensor((3,), "int32")), relax.Var("m", R.Tensor((), "int32"))
    call = op.nn.attention_var_len(t, t, t, s, m)
    assert call.args[5] is s and call.args[6] is m
    assert call.struct_info.shape.concrete == (1, 6, 2, 5)
    with pytest.raises(OpAttributeInvalid, match="window_size"):
        print(op.nn.attention_var_len(t, t, t, s, m, window_size=4).struct_info)

"""The law of the script for modules with graph functions, with and without large constants."""

import base64
import time

import numpy
import pytest

import tilesmith as ts
from tilesmith import relax
from tilesmith.ir.structural import assert_structural_equal
from tilesmith.script import ir as I
from tilesmith.script import relax as R
from tilesmith.script import tir as T


def check(module):
    text = module.script()
    again = ts.script.from_source(text)
    assert_structural_equal(module, again)
    assert again.script() == text
    return text


@I.ir_module
class Mixed:
    I.module_attrs({"stage": "mixed"})

    @T.prim_func(private=True)
    def relu(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, 4), "float32")
        B = T.match_buffer(b, (n, 4), "float32")
        for i, j in T.grid(n, T.int64(4)):
            with T.block("relu"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = T.max(A[vi, vj], 0.0)

    @R.function
    def main(x: R.Tensor(("n", 4), "float32")) -> R.Tensor(("n", 4), "float32"):
        n = T.int64()
        cls = Mixed
        with R.dataflow():
            lv = R.call_tir(cls.relu, (x,), out_sinfo=R.Tensor((n, 4), "float32"))
            gv = R.add(lv, R.const(1.0, "float32"))
            R.output(gv)
        return gv


def test_mixed_module():
    text = check(Mixed)
    assert "R.call_tir(cls.relu" in text


def constants_module(size, dtype="float32"):
    builder = relax.BlockBuilder()
    weight = (numpy.arange(size * 4) % 251).astype(dtype).reshape(4, size)
    x = relax.Var("x", R.Tensor((2, 4), dtype))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(relax.op.matmul(x, relax.const(weight)))
            out = builder.emit_output(relax.op.add(y, relax.const(weight[0])))
        builder.emit_func_output(out)
    return builder.get(), weight


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int8"])
def test_constants_travel(dtype):
    module, weight = constants_module(8, dtype)
    text = check(module)
    assert base64.b64encode(weight.tobytes()).decode() in text
    assert "base64" not in str(module) and len(str(module)) < 2000


def test_large_constants_are_quick():
    module, _ = constants_module(1_000_000)
    text = module.script()
    start = time.process_time()
    again = ts.script.from_source(text)
    assert time.process_time() - start < 5  # of CPU time: not element by element
    assert_structural_equal(module, again)


def test_texts_of_several_programs_do_not_mix():
    first, _ = constants_module(8)
    second, _ = constants_module(9)
    assert_structural_equal(ts.script.from_source(first.script()), first)
    assert_structural_equal(ts.script.from_source(second.script()), second)


def test_mistake_in_a_graph_function():
    text = "@R.function\ndef main(x: R.Tensor((2, 4))):\n    y = R.add(x, z)\n    return y\n"
    with pytest.raises(ts.TilesmithError, match="undefined variable 'z'") as caught:
        ts.script.from_source(text)
    assert caught.value.span.line == 3

"""The classic builder: the statements that it makes, and what they compute."""

import numpy
import pytest

import tilesmith as ts
from tilesmith import tir
from tilesmith.ir.structural import assert_structural_equal
from tilesmith.script import tir as T
from tilesmith.tir import ir_builder
from tilesmith.tir.interpreter import run


def test_statements():
    ib = ir_builder.create()
    n = tir.Var("n", "int32")
    A = ib.pointer("float32", name="A")
    with ib.for_range(0, n, name="i") as i:
        with ib.if_scope(i % 2 == 0):
            A[i] = A[i] + 1.0
        with ib.else_scope():
            A[0] = A[i] + 2.0
    body = ib.get()

    @T.prim_func(private=True)
    def expected(n: T.int32, p: T.handle("float32", "global")):
        A = T.Buffer((1,), "float32", data=p)
        for i in range(n):
            if i % 2 == 0:
                A[i] = A[i] + 1.0
            else:
                A[0] = A[i] + 2.0

    assert_structural_equal(tir.PrimFunc([n, A.asobject()], body), expected)


def test_what_they_compute():
    data, out = tir.decl_buffer((10,), "int32", "X"), tir.decl_buffer((1,), "int32", "out")
    ib = ir_builder.create()
    source, result = ib.buffer_ptr(data), ib.buffer_ptr(out)
    total = ib.allocate("int32", (1,), name="total", scope="local")
    total[0] = 0
    with ib.new_scope():
        ib.scope_attr("cpu", "some_attr", 1)
        with ib.for_range(2, 10, kind="unroll") as i:
            twice = ib.let("twice", source[i] * 2)
            with ib.if_scope(ib.likely(twice > 4)):
                total[0] = total[0] + twice
    k = ib.allocate("int32", 1, name="k")
    k[0] = 0
    with ib.while_loop(k[0] < 3):
        k[0] = k[0] + 1
    result[0] = total[0] + k[0]
    function = tir.PrimFunc([data, out], ib.get())
    values, answer = numpy.arange(10, dtype="int32"), numpy.zeros(1, "int32")
    run(function, values, answer)
    assert answer[0] == sum(2 * v for v in range(3, 10)) + 3
    assert_structural_equal(function, ts.script.from_source(function.script()))


def test_mistakes():
    ib = ir_builder.create()
    with pytest.raises(ts.TilesmithError, match="right behind an if_scope"):
        ib.else_scope()
    with pytest.raises(ts.TilesmithError, match="unknown kind"):
        ib.for_range(0, 4, kind="sideways")
    with pytest.raises(TypeError, match="needs float32"):
        ib.pointer("float32")[0] = tir.const(1, "int32")
    with pytest.raises(ts.TilesmithError, match="cannot emit"):
        ib.emit(None)
    with ib.for_range(0, 4):
        with pytest.raises(ts.TilesmithError, match="outside of all scopes"):
            ib.get()

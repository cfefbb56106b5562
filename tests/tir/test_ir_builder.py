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

    assert_structural_equal(tir.PrimFunc([n, A.asobject().data], body), expected)


def test_memory_behind_a_pointer_has_any_size():
    ib = ir_builder.create()
    A = ib.pointer("float32", name="A")
    with ib.for_range(0, 4, name="i") as i:
        A[i] = A[i] + 1.0
    function = tir.PrimFunc([A.asobject().data], ib.get())
    values = ts.nd.array(numpy.arange(4, dtype="float32"))
    ts.build(function, target="llvm")(values)
    assert values.numpy().tolist() == [1, 2, 3, 4]


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


@pytest.mark.parametrize("kind", ["serial", "parallel", "vectorize", "unroll"])
def test_kinds_of_loops(kind):
    """``for_type`` is the older name of ``kind``; a kernel for threads as it used to be written."""
    made = []
    for options in ({"kind": kind}, {"for_type": kind}):
        ib = ir_builder.create()
        A = ib.buffer_ptr(tir.decl_buffer((8, 4), "float32", "A"))
        thread = tir.IterVar((0, 8), tir.Var("t", "int32"), tir.IterVar.ThreadIndex, "threadIdx.x")
        ib.scope_attr(thread, "thread_extent", 8)
        with ib.for_range(0, 4, name="j", dtype="int64", **options) as j:
            A[thread.var, j] = A[thread.var, j] * 2.0
        ib.emit(tir.call_extern("int32", "sync"))
        made.append(ib.get())
    assert made[0].script() == made[1].script()
    assert "T.launch_thread" in made[0].script() and "T.int64" in made[0].script()


def test_names_of_parameters():
    import inspect

    wanted = {
        "scope_attr": "node attr_key value",
        "for_range": "begin end name dtype kind for_type",
        "while_loop": "condition",
        "let": "var_name value",
        "allocate": "dtype shape name axis_separators scope",
        "pointer": "content_type name scope",
        "buffer_ptr": "buf",
        "likely": "expr",
    }
    for name, parameters in wanted.items():
        found = inspect.signature(getattr(ir_builder.IRBuilder, name)).parameters
        assert list(found)[1:] == parameters.split()

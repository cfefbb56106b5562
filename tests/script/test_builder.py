"""Frames in plain Python."""

import pytest

import tilesmith as ts
from tilesmith import tir
from tilesmith.ir.structural import assert_structural_equal
from tilesmith.script import IRBuilder
from tilesmith.script import ir as I
from tilesmith.script import tir as T
from tilesmith.script.builder import Frame


def test_function_in_frames():
    with IRBuilder() as builder:
        with T.prim_func():
            T.func_name("main")
            T.func_attr({"tir.noalias": True})
            A = T.arg("A", T.Buffer((16, 16), "float32"))
            B = T.arg("B", T.Buffer((16, 16), "float32"))
            with T.grid(16, 16) as (i, j):
                with T.block("B"):
                    vi, vj = IRBuilder.name_many(["vi", "vj"], T.axis.remap("SS", [i, j]))
                    with T.If(vi < 3):
                        with T.Then():
                            T.buffer_store(B, A[vi, vj] + 1.0, [vi, vj])
                        with T.Else():
                            T.evaluate(0)

    @T.prim_func
    def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
        T.func_attr({"tir.noalias": True})
        for i, j in T.grid(16, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                if vi < 3:
                    B[vi, vj] = A[vi, vj] + 1.0
                else:
                    T.evaluate(0)

    assert_structural_equal(builder.get(), main)


@T.prim_func
def parsed(n: T.int32):
    T.evaluate(n)


def test_module_in_frames():
    with IRBuilder() as builder:
        with I.ir_module():
            I.module_attrs({"a": 1})
            with T.prim_func():
                T.func_name("f")
                n = T.arg("n", T.int32())
                T.evaluate(n)
            I.def_function("g", parsed)
    module = builder.get()
    assert module.attrs["a"] == 1
    assert isinstance(module["f"], tir.PrimFunc)
    assert module["g"] is parsed


def test_printing_in_colours(capsys):
    from tilesmith.script import highlight

    highlight.cprint(parsed)
    highlight.cprint("x = 1")
    assert "def parsed(n: T.int32):" in capsys.readouterr().out


def test_statement_without_function():
    with IRBuilder() as builder:
        with T.serial(4) as i:
            T.evaluate(i)
        with T.LetStmt(T.int32(3)) as x:
            IRBuilder.name("x", x)
            T.evaluate(x)
    loop, let = builder.get().seq
    assert isinstance(loop, tir.For)
    assert let.var.name == "x"


def test_nothing_built():
    with IRBuilder() as builder:
        pass
    with pytest.raises(ts.TilesmithError, match="nothing has been built"):
        builder.get()


def test_callbacks_and_names_of_frames():
    assert not IRBuilder.is_in_scope()
    with IRBuilder() as builder:
        assert IRBuilder.current() is builder
        with T.prim_func() as frame:
            assert isinstance(frame, Frame)
            called = []
            frame.add_callback(lambda: called.append(True))
            T.func_name("main")
            A = T.arg("A", T.Buffer((16,), "float32"))
            one, two = IRBuilder.name_many(["one", "two"], [T.int32(), T.int32()])
            with T.LetStmt(1, var=one), T.LetStmt(2, var=two), T.serial(16) as i:
                IRBuilder.name("i", i)
                T.buffer_store(A, 1.0, [i])
    assert called and "one: T.int32 = 1" in builder.get().script()

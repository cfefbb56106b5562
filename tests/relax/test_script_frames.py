"""Functions of the graph that plain Python builds in frames."""

import numpy
import pytest

import tilesmith.compat.tvm as alias
from tilesmith import relax, runtime, topi
from tilesmith.ir import IRModule
from tilesmith.ir.structural import assert_structural_equal
from tilesmith.script import IRBuilder
from tilesmith.script import ir as I
from tilesmith.script import relax as R
from tilesmith.script import tir as T
from tilesmith.support.errors import DiagnosticError, ScriptError


def test_function_with_a_dataflow_block():
    with IRBuilder() as builder:
        with R.function():
            R.func_name("main")
            R.func_attr({"Primitive": 1})
            x = R.arg("x", R.Tensor(("n", 4), "float32"))
            y = R.arg("y", R.Tensor(("n", 4), "float32"))
            tensor = R.Tensor(("n", 4), "float32")
            R.func_ret_struct_info(R.Tuple(tensor, tensor))
            with R.dataflow() as block:
                a = R.emit(R.add(x, y))
                IRBuilder.name("a", a)
                b = R.emit(R.nn.relu(R.multiply(a, a)), R.Tensor(ndim=2, dtype="float32"))
                c = R.emit(R.negative(b))
                R.output(a, c)
            a, c = block.output_vars
            d = R.emit_match_cast(c, R.Tensor(("n", 4), "float32"))
            R.func_ret_value((a, d))

    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("n", 4), "float32")) -> R.Tuple(
        R.Tensor(("n", 4), "float32"), R.Tensor(("n", 4), "float32")
    ):
        R.func_attr({"Primitive": 1})
        n = T.int64()
        with R.dataflow():
            a = R.add(x, y)
            b: R.Tensor(ndim=2, dtype="float32") = R.nn.relu(R.multiply(a, a))
            c = R.negative(b)
            R.output(a, c)
        d = R.match_cast(c, R.Tensor((n, 4), "float32"))
        return (a, d)

    made = builder.get()
    assert_structural_equal(made, main.with_attr("global_symbol", "main"))
    names = [b.var.name_hint for block in made.body.blocks for b in block.bindings]
    assert "a" in names
    assert "" not in names
    assert len(set(names)) == len(names)
    assert [type(b.var) for b in made.body.blocks[0].bindings] == [
        relax.Var, relax.DataflowVar, relax.DataflowVar, relax.Var,
    ]  # fmt: skip


def test_outputs_are_replaced_in_what_follows_them():
    with IRBuilder() as builder:
        with R.function():
            x = R.arg("x", R.Tensor(("n",), "float32"))
            with R.dataflow() as block:
                size = R.emit(R.shape_of(x))
                first = R.emit(R.reshape(x, size), R.Tensor(size, "float32"))
                inner = R.emit(R.exp(first))
                R.output(size, inner)
            R.func_ret_value(block.output_vars[1])
    size, first, inner = builder.get().body.blocks[0].bindings
    assert type(size.var) is relax.Var and type(inner.var) is relax.Var
    assert first.value.args[1] is size.var and first.var.struct_info.shape is size.var
    assert type(first.var) is relax.DataflowVar and inner.value.args[0] is first.var


def built_choice(unnamed=False):
    with IRBuilder() as builder:
        with R.function():
            R.func_name("main")
            c = R.arg("c", R.Tensor((), "bool"))
            x = R.arg("x", R.Tensor((4,), "float32"))
            with R.If(c) as choice:
                with R.Then():
                    with R.dataflow() as block:
                        y = R.emit(R.add(x, x))
                        R.output(y)
                    w = R.emit(R.exp(block.output_vars[0]))
                    if not unnamed:
                        IRBuilder.name("w", w)
                with R.Else():
                    w = R.emit_var_binding(relax.VarBinding(relax.Var("", x.struct_info), x))
                    if not unnamed:
                        IRBuilder.name("w", w)
            R.func_ret_value(choice.var)
    return builder.get()


def test_choice():
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")):
        if c:
            with R.dataflow():
                y = R.add(x, x)
                R.output(y)
            w = R.exp(y)
        else:
            w = x
        return w

    assert_structural_equal(built_choice(), main)
    assert_structural_equal(built_choice(unnamed=True), main)


def test_sequence():
    x = relax.Var("x", R.Tensor((4,), "float32"))
    with IRBuilder() as builder, R.SeqExpr():
        y = R.emit(R.add(x, x))
        R.func_ret_value(y)
    made = builder.get()
    assert isinstance(made, relax.SeqExpr)
    assert made.body is y and y.name_hint == "gv"


@pytest.fixture
def mixed():
    """A module in which graph and tensor functions are built in frames."""
    with IRBuilder() as builder, I.ir_module():
        with T.prim_func():
            T.func_name("double")
            A = T.arg("A", T.Buffer((4,), "float32"))
            B = T.arg("B", T.Buffer((4,), "float32"))
            with T.serial(4) as i, T.block("B"):
                vi = T.axis.spatial(4, i)
                T.buffer_store(B, A[vi] * 2.0, [vi])
        double = I.decl_function("double")
        with R.function(is_pure=False):
            R.func_name("main")
            x = R.arg("x", R.Tensor((4,), "float32"))
            y = R.emit(R.call_tir(double, (x,), R.Tensor((4,), "float32")))
            z = R.emit(R.emit_te(lambda a: topi.add(a, a), y))
            R.func_ret_value(z)
        with R.function(is_private=True):
            R.func_name("helper")
            x = R.arg("x", R.Tensor((4,), "float32"))
            R.func_ret_value(x)
    return builder.get()


def test_module(mixed):
    assert isinstance(mixed, IRModule)
    assert {name.name_hint for name in mixed.functions} >= {"double", "main", "helper"}
    assert "global_symbol" not in mixed["helper"].attrs
    assert not mixed["main"].is_pure
    machine = relax.VirtualMachine(relax.build(mixed, "llvm"), runtime.cpu())
    given = numpy.arange(4, dtype="float32")
    numpy.testing.assert_allclose(machine["main"](given).numpy(), given * 4)


def test_declared_functions_can_be_called_before_they_are_built():
    @R.function(private=True)
    def callee(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        return R.exp(x)

    with IRBuilder() as builder, I.ir_module():
        variable = I.decl_function("callee", callee)
        with R.function():
            R.func_name("main")
            x = R.arg("x", R.Tensor((4,), "float32"))
            y = R.emit(relax.Call(variable, [x]))
            R.func_ret_value(y)
        I.def_function("callee", callee)
    module = builder.get()
    assert_structural_equal(module["main"].ret_struct_info, R.Tensor((4,), "float32"))
    assert module["callee"] is callee


def test_local_functions_are_bound_where_they_are_built():
    with IRBuilder() as builder, R.function():
        R.func_name("main")
        x = R.arg("x", R.Tensor((4,), "float32"))
        with R.function():
            R.func_name("inner")
            y = R.arg("y", R.Tensor((4,), "float32"))
            R.func_ret_value(R.exp(y))
        R.func_ret_value(R.add(x, x))
    inner = builder.get().body.blocks[0].bindings[0]
    assert inner.var.name_hint == "inner" and isinstance(inner.value, relax.Function)
    assert "global_symbol" not in inner.value.attrs


def open_twice():
    with R.dataflow(), R.dataflow():
        pass


def use_hidden():
    with R.dataflow():
        y = R.emit(R.exp(R.const(1.0)))
        R.output(R.emit(R.exp(y)))
    R.func_ret_value(y)


def output_nothing():
    with R.dataflow():
        R.emit(R.exp(R.const(1.0)))


def emit_after_output():
    with R.dataflow():
        y = R.emit(R.exp(R.const(1.0)))
        R.output(y)
        R.emit(R.exp(y))


def choose_in_dataflow():
    with R.dataflow(), R.If(R.const(True)):
        pass


def choose_without_else():
    with R.If(R.const(True)), R.Then():
        R.emit(R.const(1.0))


def choose_different_names():
    with R.If(R.const(True)):
        with R.Then():
            IRBuilder.name("a", R.emit(R.const(1.0)))
        with R.Else():
            IRBuilder.name("b", R.emit(R.const(1.0)))


def choose_nothing():
    with R.If(R.const(True)), R.Then():
        pass


def return_in_dataflow():
    with R.dataflow():
        R.func_ret_value(R.const(1.0))


def return_in_branch():
    with R.If(R.const(True)), R.Then():
        R.func_ret_value(R.const(1.0))


def return_twice():
    R.func_ret_value(R.const(1.0))
    R.func_ret_value(R.const(1.0))


def declare_another_result():
    R.func_ret_struct_info(R.Tensor((4,), "int32"))
    R.func_ret_value(R.const(1.0))


@pytest.mark.parametrize(
    "body, message",
    [
        (open_twice, "no dataflow block inside"),
        (output_nothing, "no R.output"),
        (use_hidden, "used after the end of its dataflow block"),
        (emit_after_output, "last statement of a dataflow block"),
        (choose_in_dataflow, "no branches"),
        (choose_without_else, "needs R.Then and R.Else"),
        (choose_different_names, "'a' and 'b'"),
        (choose_nothing, "ends by assigning"),
        (return_in_dataflow, "after the dataflow block"),
        (return_in_branch, "at the end of the function"),
        (return_twice, "set already"),
        (lambda: None, "no result"),
        (declare_another_result, "declared to return"),
        (lambda: R.output(), "ends a dataflow block"),
        (lambda: R.emit(R.const(1.0), R.Tensor((3,), "int8")), "declared as"),
        (lambda: R.emit_te(lambda a: a, R.const(1.0)), "needs a module"),
    ],
)
def test_refused(body, message):
    with pytest.raises(DiagnosticError, match=message), IRBuilder(), R.function():
        R.func_name("main")
        body()


@pytest.mark.parametrize("word", ["arg", "emit", "func_name", "output", "func_ret_value"])
def test_words_outside_of_a_function(word):
    arguments = ("x", None) if word == "arg" else ("x",)
    with pytest.raises(ScriptError, match=f"R.{word} stands in a function"):
        getattr(R, word)(*arguments)


def test_the_alias_builds_the_same():
    alias.install()
    from tvm.script.ir_builder import IRBuilder as Builder
    from tvm.script.ir_builder import relax as words
    from tvm.script.ir_builder.relax import frame as frames
    from tvm.script.ir_builder.relax.ir import py_str, py_tuple

    assert py_str is str and py_tuple is tuple
    with Builder() as builder:
        with words.function() as function:
            assert isinstance(function, frames.FunctionFrame)
            words.func_name("f")
            x = words.arg("x", words.Tensor((4,), "float32"))
            with words.dataflow() as block:
                assert isinstance(block, frames.BlockFrame)
                assert isinstance(block, frames.RelaxFrame)
                out = words.emit(words.tuple(words.add(x, x), words.shape([4]), words.str("a")))
                words.output(out)
            words.func_ret_value(block.output_vars[0])
    assert builder.get().body.body.struct_info.fields[2] is not None

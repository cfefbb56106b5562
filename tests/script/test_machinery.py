"""The parts of the parser, builder and printer under the names that users know."""

import ast

import pytest

import tilesmith as ts
from tilesmith.ir.structural import assert_structural_equal
from tilesmith.runtime.script_printer import PrinterConfig, Scriptable
from tilesmith.script import ir_builder
from tilesmith.script import tir as T
from tilesmith.script.ir_builder.base import IRBuilder, IRBuilderFrame
from tilesmith.script.parser import ir as parser_ir
from tilesmith.script.parser import tir as parser_tir
from tilesmith.script.parser.core import diagnostics, entry, evaluator, parser, utils
from tilesmith.script.parser.tir.entry import BufferProxy, PtrProxy, TIRMacro
from tilesmith.support.errors import ScriptError

TEXT = """
@T.prim_func
def double(A: T.Buffer((16,), "float32")):
    for i in range(16):
        A[i] = A[i] * factor
"""
OFFSET = 3


def plain(a, b):
    return a + b + OFFSET


def test_parse():
    function = entry.parse(TEXT, {"factor": 2.0})
    assert "T.float32(2.0)" in function.script()
    again = parser.Parser(diagnostics.Source(TEXT), {}).parse({"factor": 2.0})
    assert_structural_equal(function, again)


def test_parts_of_the_parser():
    one = parser.Parser(diagnostics.Source("x = 1"))
    one.define("x", 4)
    node = ast.parse("x * y", mode="eval")
    assert one.eval_expr(node, {"y": 3}) == evaluator.eval_expr(one, node, {"y": 3}) == 12
    assert evaluator.ExprEvaluator.eval(one, {"y": 5}, node.body) == 20
    target = ast.parse("a, (b, c) = 0").body[0].targets[0]
    assert evaluator.eval_assign(one, target, (1, (2, 3))) == {"a": 1, "b": 2, "c": 3}
    source = ast.parse("(x, (2, 3))", mode="eval").body
    assert one.eval_assign(target, source, lambda node, name, value: value)["a"] == 4
    with pytest.raises(ScriptError, match="this is wrong"), one.with_diag_source(one.diag.source):
        one.report_error(one.source.tree.body[0], "this is wrong")


def test_source_and_diagnostics():
    source = diagnostics.Source(plain)
    assert source.source == "def plain(a, b):\n    return a + b + OFFSET"
    assert source.source_name == __file__
    assert isinstance(source.as_ast(), ast.Module)
    lines, first = diagnostics.findsource(plain)
    assert lines[first].startswith("def plain") and source.start_line == first + 1
    assert diagnostics.getsourcelines(plain)[0] == [
        line + "\n" for line in source.source.split("\n")
    ]
    with pytest.raises(ScriptError, match=r"(?s)no good.*test_machinery.py.*return a") as caught:
        diagnostics.Diagnostics(source).error(source.definition.body[0], "no good")
    assert caught.value.span.line == first + 2
    with pytest.raises(ScriptError, match="not available"):
        diagnostics.findsource(len)


def test_captured_variables():
    outer = 5

    def function():
        return outer + OFFSET

    class Class:
        def method(self):
            return outer

    assert utils.get_func_nonlocals(function) == {"outer": 5}
    seen = utils.inspect_function_capture(function)
    assert seen["outer"] == 5 and seen["OFFSET"] == 3
    assert utils.inspect_class_capture(Class)["outer"] == 5


def test_table_of_variables():
    table = parser.VarTable()
    with table.with_frame():
        table.add("x", 1)
        with table.with_frame():
            table.add("x", 2)
            table.add("x", 3, allow_shadowing=True)
            assert table.get() == {"x": 3} and not table.exist(2)
            with pytest.raises(ValueError, match="defined already"):
                table.add("x", 4)
        assert table.get() == {"x": 1}
    assert table.get() == {}


def test_scanned_macro():
    macro = entry.scan_macro(
        "def double(buffer, i):\n    buffer[i] = buffer[i] * factor\n", {"factor": 2.0}
    )
    assert isinstance(macro, TIRMacro)
    program = (
        '@T.prim_func\ndef f(A: T.Buffer((4,), "float32")):\n'
        "    for i in range(4):\n        double(A, i)\n"
    )
    assert "A[i] = A[i] * T.float32(2.0)" in ts.script.parse(program, {"double": macro}).script()
    with pytest.raises(ScriptError, match="one function"):
        entry.scan_macro("x = 1")


def test_words_have_one_meaning():
    assert parser_tir.prim_func is T.prim_func and parser_tir.serial is T.serial
    assert parser_ir.ir_module is ts.script.ir_module and "vdevice" in dir(parser_ir)
    assert isinstance(T.Buffer, BufferProxy) and isinstance(T.Ptr, PtrProxy)
    assert ir_builder.tir.grid is T.grid


def test_builder():
    assert not IRBuilder.is_in_scope()
    with IRBuilder() as builder:
        assert IRBuilder.current() is builder
        with ir_builder.tir.prim_func() as frame:
            assert isinstance(frame, IRBuilderFrame)
            called = []
            frame.add_callback(lambda: called.append(True))
            ir_builder.tir.func_name("main")
            A = ir_builder.tir.arg("A", T.Buffer((16,), "float32"))
            one, two = IRBuilder.name_many(["one", "two"], [T.int32(), T.int32()])
            with T.LetStmt(1, var=one), T.LetStmt(2, var=two), T.serial(16) as i:
                IRBuilder.name("i", i)
                T.buffer_store(A, 1.0, [i])
    assert called and "one: T.int32 = 1" in builder.get().script()


def test_printing_names():
    assert isinstance(ts.IRModule({}), Scriptable)
    assert PrinterConfig(int_dtype="int64").int_dtype == "int64"


@pytest.mark.parametrize(
    ("written", "problem"),
    [("privat=True", "did you mean 'private'"), ("is_private=True", None), ("private=True", None)],
)
def test_options_of_functions(written, problem):
    text = f"@T.prim_func({written})\ndef f(x: T.int32):\n    T.evaluate(x)\n"
    if problem is None:
        assert "global_symbol" not in ts.script.parse(text).attrs
        return
    with pytest.raises(ScriptError, match=rf"(?s)has no option.*<script.*{problem}"):
        ts.script.parse(text)

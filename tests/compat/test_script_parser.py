"""The parts of the parser under the names that users know."""

import ast

import pytest

import tilesmith as ts
from tilesmith.compat.tvm.script_parser import diagnostics, entry, evaluator, parser, utils
from tilesmith.ir.structural import assert_structural_equal
from tilesmith.script.macros import ScriptMacro
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
    assert one.eval_assign(target, (4, (2, 3)), lambda parser, node, name, value: value)["a"] == 4
    assert one.var_table.get()["a"] == 4
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
    with pytest.raises(
        ScriptError, match=r"(?s)no good.*test_script_parser.py.*return a"
    ) as caught:
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
    assert isinstance(macro, ScriptMacro)
    program = (
        '@T.prim_func\ndef f(A: T.Buffer((4,), "float32")):\n'
        "    for i in range(4):\n        double(A, i)\n"
    )
    assert "A[i] = A[i] * T.float32(2.0)" in ts.script.parse(program, {"double": macro}).script()
    with pytest.raises(ScriptError, match="one function"):
        entry.scan_macro("x = 1")

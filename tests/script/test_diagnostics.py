"""Where errors in scripts are placed; what they say is kept in ``tests/diagnostics``."""

import linecache
import re

import pytest

import tilesmith as ts
from tilesmith import tir
from tilesmith.script import ir as I
from tilesmith.script import tir as T
from tilesmith.support.errors import DiagnosticError, ScriptError

HEAD = '@T.prim_func\ndef f(A: T.Buffer((16,), "float32"), h: T.handle):\n    for i in range(16):\n'

# name: (lines inside of the loop, message)
MISTAKES = {
    "columns behind other alphabets": (
        'T.call_extern("int32", "größe", B)',
        """undefined variable 'B'
  <script>:4:41
              T.call_extern("int32", "größe", B)
                                              ^
  a text knows T, I, R and what it defines; give other names in extra_vars""",
    ),
    "too large": (
        "T.evaluate(T.int8(300))",
        """300 does not fit into int8
  <script>:4:20
              T.evaluate(T.int8(300))
                         ^^^^^^^^^^^""",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_message(name):
    lines, expected = MISTAKES[name]
    text = HEAD + "\n".join(["        " + line for line in lines.split("\n")]) + "\n"
    with pytest.raises(ScriptError) as caught:
        ts.script.from_source(text)
    assert re.sub("<script [0-9a-f]*>", "<script>", str(caught.value)) == expected


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("@T.prim_func\ndef f(a):\n    pass\n", "parameter 'a' has no type"),
        ("@T.prim_func\ndef f(a: T.Buffer):\n    pass\n", "T.Buffer without a shape"),
        ("@T.prim_func\ndef f(a: T.int32 = 3):\n    pass\n", "no default values"),
        ("def f(a: T.int32):\n    pass\n", "no decorator of a dialect"),
        ("x = 3\n", "defines neither a function nor a module"),
        ("import numpy\n", "a text imports only dialects"),
        ("@I.ir_module\nclass M:\n    def f(self):\n        pass\n", "no decorator of a dialect"),
        (
            "@I.ir_module\nclass M:\n    @T.prim_func\n    def f():\n        pass\n"
            "    @T.prim_func\n    def f():\n        pass\n",
            "two functions 'f'",
        ),
    ],
)
def test_definitions(text, part):
    with pytest.raises(DiagnosticError, match=part) as caught:
        ts.script.from_source(text)
    assert part == "defines neither a function nor a module" or caught.value.span is not None


def test_place_in_this_file():
    with pytest.raises(ScriptError) as caught:

        @T.prim_func
        def wrong(A: T.Buffer((4,), "float32")):
            A[0] = unknown + 1.0

    span = caught.value.span
    assert span.source_name == __file__
    assert "A[0] = unknown + 1.0" in linecache.getline(__file__, span.line)
    line = linecache.getline(__file__, span.line)
    assert line[span.column - 1 : span.end_column - 1] == "unknown"


def test_place_of_an_annotation():
    """Annotations are evaluated by Python itself, before there is a parser."""
    with pytest.raises(DiagnosticError, match="unknown data type 'flaot32'") as caught:

        @T.prim_func
        def wrong(A: T.Buffer((4,), "flaot32")):
            A[0] = 1.0

    span = caught.value.span
    line = linecache.getline(__file__, span.line)
    assert line[span.column - 1 : span.end_column - 1] == '"flaot32"'
    assert caught.value.notes == ("did you mean 'float32'?",)


def test_place_in_a_module_of_this_file():
    with pytest.raises(ScriptError) as caught:

        @I.ir_module
        class Wrong:
            @T.prim_func
            def wrong(A: T.Buffer((4,), "float32")):
                A[0, 0] = 1.0

    line = linecache.getline(__file__, caught.value.span.line)
    assert line.strip() == "A[0, 0] = 1.0"
    assert caught.value.__cause__ is None


def test_cause_in_a_function_of_the_users():
    def helper(value):
        raise ZeroDivisionError("inside of the helper")

    with pytest.raises(ScriptError, match="inside of the helper") as caught:

        @T.prim_func
        def wrong(A: T.Buffer((4,), "float32")):
            A[0] = helper(A[1])

    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_statements_carry_their_place():
    function = ts.script.from_source("@T.prim_func\ndef f(A: T.Buffer((4,))):\n    A[0] = 1.0\n")
    assert (function.body.span.line, function.body.span.column) == (3, 5)
    assert function.span.line == 2


def test_everything_carries_its_place():
    function = ts.script.from_source(
        '@T.prim_func\ndef f(a: T.handle, A: T.Buffer((4,), "float32")):\n'
        '    B = T.match_buffer(a, (4,))\n    C = T.alloc_buffer((4,), "float32")\n'
        "    for i, j in T.grid(2, 2):\n"
        '        with T.block("b"):\n'
        "            v = T.axis.spatial(4, i * 2 + j)\n"
        "            C[v] = A[v] + B[v]\n"
    )
    places = {}

    def note(node):
        span = getattr(node, "span", None)
        if span is not None and not isinstance(node, tir.PrimExpr):
            places[type(node).__name__, getattr(node, "name", "")] = (span.line, span.column)

    tir.post_order_visit(function, note)
    for buffer in function.buffer_map.values():
        note(buffer)
    assert places["Buffer", "A"] == (2, 20) and places["Buffer", "B"] == (3, 5)
    assert places["Buffer", "C"] == (4, 5) and places["For", ""] == (5, 5)
    block = function.body.block.body.body.body.block
    assert (block.span.line, block.span.column) == (6, 9)
    assert places["IterVar", ""] == (7, 13) and places["BufferStore", ""] == (8, 13)
    assert places["PrimFunc", ""] == (2, 1)


def test_words_outside_of_programs():
    with pytest.raises(ScriptError, match="outside of a program"):
        T.evaluate(3)
    with pytest.raises(AttributeError, match="T has no word 'nonsense'"):
        T.nonsense


def test_builder_is_clean_after_an_error():
    for _ in range(2):
        with pytest.raises(ScriptError):
            ts.script.from_source("@T.prim_func\ndef f(A: T.Buffer((4,))):\n    A[q] = 1.0\n")
        assert not ts.script.IRBuilder.is_in_scope()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('T.realize(A, "")\nT.evaluate(0)', "T.realize needs a region"),
        (
            "for i in range(16):\n    with T.block():\n        v = T.axis.S(16, i)\n"
            "        v = T.axis.S(16, i)\n        A[v] = 1.0",
            "'v' is defined already",
        ),
        ("A = 3\nT.evaluate(A)", "'A' is defined already"),
        ("with T.block():\n    T.writes(A[0:16:2])\n    A[0] = 1.0", "has no steps"),
        ("T.evaluate(A[10:0:-1])", "the step of a slice is positive"),
        ('A["x"] = 1.0', "has no element"),
        ("if A:\n    T.evaluate(1)", "a condition is a bool"),
        ("B = T.match_buffer(n, (16,))\nB[0] = 1.0", "needs a T.handle"),
    ],
)
def test_refused_like_elsewhere(body, message):
    text = "@T.prim_func\ndef f(a: T.handle, n: T.int32):\n    A = T.match_buffer(a, (16,))\n"
    text += "".join(f"    {line}\n" for line in body.split("\n"))
    with pytest.raises(DiagnosticError, match=message):
        ts.script.from_source(text)


def test_names_may_be_taken_again_for_values():
    text = (
        "@T.prim_func\ndef f(A: T.Buffer((16,))):\n    y = 3\n    y = y + 1\n    A[y] = 1.0\n"
        "    for i in range(2):\n        with T.block('a'):\n            v = T.axis.S(2, i)\n"
        "            A[v] = 1.0\n    for i in range(2):\n        with T.block('b'):\n"
        "            v = T.axis.S(2, i)\n            A[v] = 2.0\n"
    )
    assert ts.script.from_source(text).script().count("T.axis.spatial") == 2

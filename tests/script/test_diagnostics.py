"""What is said about mistakes in scripts: text, place, marker, advice."""

import linecache
import re

import pytest

import tilesmith as ts
from tilesmith.script import ir as I
from tilesmith.script import tir as T
from tilesmith.support.errors import DiagnosticError, ScriptError

HEAD = '@T.prim_func\ndef f(A: T.Buffer((16,), "float32"), h: T.handle):\n    for i in range(16):\n'

# name: (lines inside of the loop, message)
MISTAKES = {
    "undefined variable": (
        "A[i] = AA[i] + 1.0",
        """undefined variable 'AA'
  <script>:4:16
              A[i] = AA[i] + 1.0
                     ^^
  did you mean 'A'?""",
    ),
    "wrong rank of a load": (
        "A[i] = A[i, i] + 1.0",
        """buffer 'A' has 1 dimensions, got 2 indices
  <script>:4:18
              A[i] = A[i, i] + 1.0
                       ^^^^
  A has the shape (16,)""",
    ),
    "wrong rank of a store": (
        "A[i, 0] = 1.0",
        """buffer 'A' has 1 dimensions, got 2 indices
  <script>:4:11
              A[i, 0] = 1.0
                ^^^^
  A has the shape (16,)""",
    ),
    "bad dtype": (
        'X = T.alloc_buffer((4,), "flaot32")',
        """unknown data type 'flaot32'
  <script>:4:34
              X = T.alloc_buffer((4,), "flaot32")
                                       ^^^^^^^^^
  did you mean 'float32'?""",
    ),
    "value of another dtype": (
        "A[i] = T.float16(1)",
        """a store to buffer 'A' needs a value of float32, got float16
  <script>:4:16
              A[i] = T.float16(1)
                     ^^^^^^^^^^^^""",
    ),
    "missing axis": (
        'with T.block("x"):\n    vi, vj = T.axis.remap("SS", [i])\n    A[vi] = 0.0',
        """T.axis.remap: 2 kinds ('SS') for 1 loops
  <script>:5:22
                  vi, vj = T.axis.remap("SS", [i])
                           ^^^^^^^^^^^^^^^^^^^^^^^
  one letter for each loop: S spatial, R reduce""",
    ),
    "axis without a value": (
        'with T.block("x"):\n    vi = T.axis.spatial(16)',
        """the axis needs a value: T.axis.spatial(extent, value)
  <script>:5:18
                  vi = T.axis.spatial(16)
                       ^^^^^^^^^^^^^^^^^^""",
    ),
    "axis outside of a block": (
        "vi = T.axis.spatial(16, i)",
        """T.axis stands in a block
  <script>:4:14
              vi = T.axis.spatial(16, i)
                   ^^^^^^^^^^^^^^^^^^^^^
  open one: with T.block("name"):""",
    ),
    "too few names": (
        "for j, k in T.grid(2, 3, 4):\n    A[j] = 0.0",
        """2 variables for 3 loops or values
  <script>:4:13
              for j, k in T.grid(2, 3, 4):
                  ^^^^""",
    ),
    "unknown word": (
        "A[i] = T.floorr(A[i])",
        """'T' has no word 'floorr'
  <script>:4:18
              A[i] = T.floorr(A[i])
                       ^^^^^^
  did you mean 'floor'?""",
    ),
    "unknown argument": (
        "for j in T.serial(4, anotations={}):\n    A[j] = 0.0",
        """serial() got an unexpected keyword argument 'anotations'
  <script>:4:30
              for j in T.serial(4, anotations={}):
                                   ^^^^^^^^^^^^^
  usage: T.serial(start, stop=None, *, annotations=None)""",
    ),
    "no loop": (
        "for j in 5:\n    A[j] = 0.0",
        """a loop runs over range, T.grid, T.serial, T.parallel, T.vectorized, T.unroll or \
T.thread_binding
  <script>:4:18
              for j in 5:
                       ^""",
    ),
    "step": (
        "for j in range(0, 4, 2):\n    A[j] = 0.0",
        """range takes an extent, or a begin and an end
  <script>:4:18
              for j in range(0, 4, 2):
                       ^^^^^^^^^^^^^^
  steps: i * step""",
    ),
    "division of integers": (
        "A[i / 2] = 1.0",
        """`/` of integers (int32) is ambiguous; write `//` (rounds down) or tir.truncdiv \
(rounds toward zero)
  <script>:4:11
              A[i / 2] = 1.0
                ^^^^^""",
    ),
    "condition": (
        "if i:\n    A[i] = 0.0",
        """a condition is a bool, got int32
  <script>:4:12
              if i:
                 ^""",
    ),
    "no region": (
        'with T.block("x"):\n    T.reads(3)',
        """a region of a buffer is needed here, got 3
  <script>:5:13
                  T.reads(3)
                  ^^^^^^^^^^""",
    ),
    "no parameter": (
        "X = T.match_buffer(i, (4,))",
        """T.match_buffer: the variable is no parameter of the function
  <script>:4:13
              X = T.match_buffer(i, (4,))
                  ^^^^^^^^^^^^^^^^^^^^^^^""",
    ),
    "statement": (
        "import os",
        """a statement of this kind (import) has no place in a script
  <script>:4:9
              import os
              ^^^^^^^^^""",
    ),
    "columns behind other alphabets": (
        'T.call_extern("int32", "größe", B)',
        """undefined variable 'B'
  <script>:4:41
              T.call_extern("int32", "größe", B)
                                              ^""",
    ),
    "too large": (
        "T.evaluate(T.int8(300))",
        """300 does not fit into int8
  <script>:4:20
              T.evaluate(T.int8(300))
                         ^^^^^^^^^^^""",
    ),
    "syntax": (
        "A[i = 3",
        """no valid Python: '[' was never closed
  <script>:4:10
              A[i = 3
               ^""",
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
            A[0] = unknown + 1.0  # noqa: F821

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


def test_words_outside_of_programs():
    with pytest.raises(ScriptError, match="outside of a program"):
        T.evaluate(3)
    with pytest.raises(AttributeError, match="T has no word 'nonsense'"):
        T.nonsense  # noqa: B018


def test_builder_is_clean_after_an_error():
    for _ in range(2):
        with pytest.raises(ScriptError):
            ts.script.from_source("@T.prim_func\ndef f(A: T.Buffer((4,))):\n    A[q] = 1.0\n")
        assert not ts.script.IRBuilder.is_in_scope()

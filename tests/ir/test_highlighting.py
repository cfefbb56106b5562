"""Colours in terminals, HTML in notebooks, plain text elsewhere; marks and numbers of lines."""

import sys
import types

import pytest

from tilesmith import tir
from tilesmith.ir import printing
from tilesmith.ir.object_path import ObjectPath
from tilesmith.ir.printing import highlight
from tilesmith.script.highlight import cprint
from tilesmith.support.errors import ConfigError

x, y = tir.Var("x", "int32"), tir.Var("y", "int32")
BODY = tir.SeqStmt([tir.Evaluate(x + 1), tir.Evaluate(x * y), tir.Evaluate(y - 2)])
FUNCTION = tir.PrimFunc([x, y], BODY, attrs={"global_symbol": "main"})


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setattr(highlight, "_is_terminal", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    return monkeypatch


@pytest.mark.parametrize("style", [None, "light", "dark", "ansi", "friendly"])
def test_styles_in_a_terminal(style, terminal, capsys):
    FUNCTION.show(style)
    coloured = capsys.readouterr().out
    assert "\x1b[" in coloured and "main" in coloured
    assert ("38;5;" in coloured) == (style not in (None, "ansi"))


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_without_colours(name, value, terminal, capsys):
    terminal.setenv(name, value)
    FUNCTION.show("dark")
    assert capsys.readouterr().out == FUNCTION.script() + "\n"


def test_unknown_style():
    with pytest.raises(ConfigError, match=r"(?s)'monokay'.*did you mean 'monokai'"):
        FUNCTION.show("monokay")


def test_notebook(monkeypatch):
    shown = []
    shell = type("ZMQInteractiveShell", (), {})()
    fake = types.ModuleType("IPython")
    fake.get_ipython = lambda: shell
    fake.display = types.SimpleNamespace(display=shown.append, HTML=lambda text: ("HTML", text))
    monkeypatch.setitem(sys.modules, "IPython", fake)
    for style in (None, "dark"):
        FUNCTION.show(style)
    (kind, text), (_, dark) = shown
    assert kind == "HTML" and "prim_func" in text and "<span style=" in text
    assert "#272822" in dark and text != dark


def test_html_says_what_the_text_says():
    import html
    import re

    made = highlight.highlighted_html("a = 1 < 2")
    assert html.unescape(re.sub("<[^>]*>", "", made)).strip() == "a = 1 < 2"


def test_cprint(capsys):
    cprint(FUNCTION)
    cprint("x = 1", "light", True)
    assert capsys.readouterr().out == FUNCTION.script() + "\nx = 1\n"


def test_several_marks():
    """Each place that shows a node is marked, also two in one line."""
    lines = FUNCTION.script(obj_to_underline=[y]).split("\n")
    marks = [(before, line) for before, line in zip(lines, lines[1:]) if set(line.strip()) == {"^"}]
    marked = [[c for c, m in zip(before, line) if m == "^"] for before, line in marks]
    assert marked == [["y"], ["y"], ["y"]]
    both = tir.Evaluate(y * y).script(obj_to_underline=[y]).split("\n")
    assert both[-2:] == ["T.evaluate(y * y)", "           ^   ^"]


def test_marks_of_statements_blocks_and_buffers():
    A = tir.decl_buffer((4,), "float32", "A")
    store = tir.BufferStore(A, 1.0, (x,))
    block = tir.Block((), (), (), "b", store)
    function = tir.PrimFunc([x, A], tir.BlockRealize((), True, block))
    text = function.script(obj_to_underline=[block], num_context_lines=1)
    assert '    with T.block("b"):\n         ^^^^^^^^^^^^\n' in text
    text = function.script(obj_to_underline=[store], num_context_lines=0)
    assert text.endswith("A[x] = T.float32(1.0)\n        ^^^^^^^^^^^^^^^^^^^^^")
    assert "A: T.Buffer((4,)" in function.script(obj_to_underline=[A]).split("^")[0]


def test_notes():
    first, second = BODY.seq[0], BODY.seq[1].value
    text = FUNCTION.script(obj_to_annotate={first: "the first", second: "a product"})
    assert "T.evaluate(x + 1)  # the first" in text and "T.evaluate(x * y)  # a product" in text
    path = ObjectPath.root().attr("body").attr("seq").array_index(2)
    text = FUNCTION.script(path_to_annotate={path: "the last"}, path_to_underline=[path])
    assert text.endswith("    T.evaluate(y - 2)  # the last\n    ^^^^^^^^^^^^^^^^^")


def test_numbers_of_lines_and_context():
    numbered = FUNCTION.script(print_line_numbers=True).split("\n")
    assert [line.split()[0] for line in numbered] == [str(k + 1) for k in range(len(numbered))]
    text = FUNCTION.script(obj_to_underline=[BODY.seq[1]], num_context_lines=0)
    assert text.split("\n") == [
        "(... 5 lines skipped ...)", "    T.evaluate(x * y)", "    ^^^^^^^^^^^^^^^^^",
        "    T.evaluate(y - 2)",  # to leave out one line would save nothing
    ]  # fmt: skip
    assert "skipped" not in FUNCTION.script(num_context_lines=0)  # nothing is marked


LONG = tir.PrimFunc([x, y], tir.SeqStmt([tir.Evaluate(x + n) for n in range(1, 101)]))


def test_excerpt_around_a_mark():
    lines = printing.excerpt(LONG, LONG.body.seq[49], 2).split("\n")
    assert lines == [
        "(...)",
        *[f"    T.evaluate(x + {n})" for n in (48, 49, 50)],
        "    ^^^^^^^^^^^^^^^^^^",
        *[f"    T.evaluate(x + {n})" for n in (51, 52)],
        "(...)",
    ]
    whole = printing.excerpt(LONG, LONG.body.seq[49]).split("\n")
    assert 20 < len(whole) < 40 and whole[0] == "(...)"


def test_excerpt_of_a_program():
    assert printing.excerpt(FUNCTION) == "\n".join(FUNCTION.script().split("\n")[2:])
    lines = printing.excerpt(LONG).split("\n")
    assert lines[0].startswith("@T.prim_func") and lines[-1] == "(... 42 more lines)"
    assert printing.excerpt(FUNCTION, tir.Evaluate(0)) == printing.excerpt(FUNCTION)

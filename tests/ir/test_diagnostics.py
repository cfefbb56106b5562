"""Diagnostics of a context, and the renderer that users choose."""

import pytest

from tilesmith import ir
from tilesmith.ir.diagnostics import (
    Diagnostic,
    DiagnosticContext,
    DiagnosticLevel,
    DiagnosticRenderer,
    get_renderer,
    override_renderer,
)
from tilesmith.script import from_source
from tilesmith.support.errors import DiagnosticError, ScriptError, TypeMismatchError

SPAN = ir.Span("model.py", 3, 3, 5, 9)


@pytest.fixture
def shown():
    """What a renderer of the user's is shown: (level, message, line)."""
    seen: list = []

    def render(context):
        for one in context.diagnostics:
            seen.append((one.level.name, one.message, getattr(one.span, "line", None)))

    override_renderer(render)
    yield seen
    override_renderer(None)


def context_with(*levels, **options):
    context = DiagnosticContext(ir.IRModule(), **options)
    for level in levels:
        context.emit(Diagnostic(level, SPAN, f"a {level.name.lower()}"))
    return context


def test_a_context_shows_and_raises(shown):
    context = context_with(DiagnosticLevel.WARNING, DiagnosticLevel.ERROR, DiagnosticLevel.BUG)
    with pytest.raises(DiagnosticError, match="an? error") as raised:
        context.render()
    assert [level for level, _, _ in shown] == ["WARNING", "ERROR", "BUG"]
    assert "model.py:3:5" in str(raised.value) and "bug: a bug" in str(raised.value)


def test_warnings_do_not_stop(capsys):
    context_with(DiagnosticLevel.WARNING, DiagnosticLevel.NOTE, DiagnosticLevel.HELP).render()
    assert capsys.readouterr().err.splitlines() == [
        "warning: a warning", "model.py:3:5", "note: a note", "model.py:3:5", "help: a help",
        "model.py:3:5",
    ]  # fmt: skip


def test_a_renderer_of_the_context_own(shown):
    own = []
    context_with(DiagnosticLevel.NOTE, renderer=DiagnosticRenderer(own.append)).render()
    assert len(own) == 1 and shown == []


def test_the_renderer_can_be_restored():
    default = get_renderer()
    override_renderer(print)
    assert get_renderer() is not default
    override_renderer(None)
    assert get_renderer() is default


def test_only_diagnostics_are_taken():
    with pytest.raises(TypeMismatchError, match="takes a Diagnostic"):
        DiagnosticContext(ir.IRModule()).emit("text")
    with pytest.raises(ValueError, match="7"):
        Diagnostic(7, SPAN, "no such level")


WRONG = """
@T.prim_func
def main(A: T.Buffer((4,), "float32")):
    T.evaluate(B[0])
"""


def test_errors_of_scripts_go_through_the_renderer(shown):
    with pytest.raises(ScriptError):
        from_source(WRONG)
    assert len([one for one in shown if one[0] == "ERROR"]) == 1
    level, message, line = shown[0]
    assert level == "ERROR" and "B" in message and line == 3
    assert {one[0] for one in shown[1:]} <= {"HELP"}


def test_without_one_they_are_only_raised(capsys):
    with pytest.raises(ScriptError):
        from_source(WRONG)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""

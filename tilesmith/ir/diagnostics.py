"""Collects what a tool has to say about a program, and shows it by a renderer that users choose.

    context = DiagnosticContext(module, get_renderer())
    context.emit(Diagnostic(DiagnosticLevel.ERROR, span, "the shapes differ"))
    context.render()                    # shows it, then raises DiagnosticError

``override_renderer(function)`` lets a program show diagnostics itself: ``function(context)`` gets
all of them. Errors of scripts go through it as well, before they are raised; without it an error is
its own text.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import IntEnum
from typing import Any

from tilesmith.ir.module import IRModule
from tilesmith.ir.node import Node, data
from tilesmith.support.errors import DiagnosticError, TypeMismatchError, format_span

__all__ = [
    "Diagnostic", "DiagnosticContext", "DiagnosticLevel", "DiagnosticRenderer", "get_renderer",
    "override_renderer", "report",
]  # fmt: skip


class DiagnosticLevel(IntEnum):
    """How bad it is; the first two stop a compilation."""

    BUG = 10
    ERROR = 20
    WARNING = 30
    NOTE = 40
    HELP = 50


class Diagnostic(Node, key="ir.Diagnostic"):
    """A message about a place in a program."""

    level: DiagnosticLevel = data(convert=DiagnosticLevel)
    span: Any = data()
    message: str = data(convert=str)


class DiagnosticRenderer:
    """Shows the diagnostics of a context: ``render_func(context)``."""

    def __init__(self, render_func: Callable[[DiagnosticContext], Any]) -> None:
        self.render_func = render_func

    def render(self, ctx: DiagnosticContext) -> None:
        """Show the diagnostics of a context."""
        self.render_func(ctx)


class DiagnosticContext:
    """The diagnostics of a module, in the order in which they came."""

    def __init__(self, module: IRModule, renderer: DiagnosticRenderer | None = None) -> None:
        self.module = module
        self.renderer = get_renderer() if renderer is None else renderer
        self.diagnostics: list[Diagnostic] = []

    def emit(self, diagnostic: Diagnostic) -> None:
        """Add a diagnostic."""
        if not isinstance(diagnostic, Diagnostic):
            raise TypeMismatchError(f"a context takes a Diagnostic, not {diagnostic!r}")
        self.diagnostics.append(diagnostic)

    def render(self) -> None:
        """Show all diagnostics. Raises DiagnosticError if one of them is an error."""
        self.renderer.render(self)
        errors = [one for one in self.diagnostics if one.level <= DiagnosticLevel.ERROR]
        if errors:
            others = tuple([_text(one) for one in errors[1:]])
            raise DiagnosticError(errors[0].message, span=errors[0].span, notes=others)


def _text(diagnostic: Diagnostic) -> str:
    where = format_span(diagnostic.span)
    text = f"{diagnostic.level.name.lower()}: {diagnostic.message}"
    return f"{text}\n{where}" if where else text


def _print(context: DiagnosticContext) -> None:
    for diagnostic in context.diagnostics:
        print(_text(diagnostic), file=sys.stderr)


_DEFAULT = DiagnosticRenderer(_print)
_chosen: list[DiagnosticRenderer] = []


def get_renderer() -> DiagnosticRenderer:
    """Return the renderer that `override_renderer` chose, else one that prints to stderr."""
    return _chosen[0] if _chosen else _DEFAULT


def override_renderer(render_func: Callable[[DiagnosticContext], Any] | None) -> None:
    """Show diagnostics by ``render_func(context)`` from now on; None restores the default."""
    _chosen[:] = [] if render_func is None else [DiagnosticRenderer(render_func)]


def report(error: DiagnosticError) -> None:
    """Show an error that is about to be raised, if a renderer was chosen. Its advice is HELP."""
    if not _chosen:
        return
    context = DiagnosticContext(IRModule())
    context.emit(Diagnostic(DiagnosticLevel.ERROR, error.span, error.message))
    for note in error.notes:
        context.emit(Diagnostic(DiagnosticLevel.HELP, error.span, note))
    context.renderer.render(context)

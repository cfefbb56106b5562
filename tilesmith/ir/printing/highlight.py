"""Prints Python text in colour where the terminal or notebook supports it."""

from __future__ import annotations

import difflib
import os
import sys
from typing import Any

from tilesmith.support.errors import ConfigError

__all__ = ["STYLES", "highlighted_html", "print_highlighted"]

STYLES = {"light": "default", "dark": "monokai", "ansi": ""}
"""Our names of styles → those of pygments; "ansi": the sixteen colours that the terminal has."""


def print_highlighted(text: str, style: str | None = None) -> None:
    """Print Python text: as HTML in notebooks, with colours in terminals, else as it is.

    ``style``: "light", "dark", "ansi", or any style of pygments; None chooses by the place.
    Colours are left out where ``NO_COLOR`` is set, and in files and pipes. Raises ConfigError for
    an unknown style, also where it is not needed.
    """
    name = _style(style)
    if _in_notebook():
        from IPython import display

        display.display(display.HTML(highlighted_html(text, style)))
        return
    if not _is_terminal() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb":
        print(text)
        return
    import pygments
    from pygments.formatters import Terminal256Formatter, TerminalFormatter
    from pygments.lexers import PythonLexer

    formatter: Any = Terminal256Formatter(style=name) if name else TerminalFormatter()
    print(pygments.highlight(text, PythonLexer(stripnl=False), formatter), end="")


def highlighted_html(text: str, style: str | None = None) -> str:
    """Return Python text as HTML with inline styles."""
    import pygments
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    formatter = HtmlFormatter(style=_style(style) or "default", noclasses=True)
    return str(pygments.highlight(text, PythonLexer(stripnl=False), formatter))


def _style(style: str | None) -> str:
    """Return pygments' name of a style; empty for the terminal's own colours."""
    name = STYLES.get(style or "ansi", style or "")
    if not name:
        return ""
    from pygments.styles import get_all_styles

    known = [*STYLES, *get_all_styles()]
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        advice = f"did you mean '{near[0]}'?" if near else "known: " + ", ".join(sorted(known))
        raise ConfigError(f"unknown style of highlighting '{style}'", notes=(advice,))
    return name


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def _in_notebook() -> bool:
    if "IPython" not in sys.modules:
        return False
    shell = getattr(sys.modules["IPython"], "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"

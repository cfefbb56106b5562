"""Coloured Python text, where the place to print to can show it and pygments is installed."""

from __future__ import annotations

import sys

__all__ = ["print_highlighted"]

_STYLES = {"light": "default", "dark": "monokai", "ansi": "bw"}


def print_highlighted(text: str, style: str | None = None) -> None:
    """Print Python text: as HTML in notebooks, with colours in terminals, else as it is."""
    try:
        import pygments
        from pygments.formatters import HtmlFormatter, Terminal256Formatter, TerminalFormatter
        from pygments.lexers import PythonLexer
    except ImportError:
        print(text)
        return
    name = _STYLES.get(style or "", style)
    if _in_notebook():
        from IPython import display

        formatter = HtmlFormatter(style=name or "default", noclasses=True)
        display.display(display.HTML(pygments.highlight(text, PythonLexer(), formatter)))
        return
    if not sys.stdout.isatty():
        print(text)
        return
    terminal = Terminal256Formatter(style=name) if name else TerminalFormatter()
    print(pygments.highlight(text, PythonLexer(), terminal), end="")


def _in_notebook() -> bool:
    if "IPython" not in sys.modules:
        return False
    shell = getattr(sys.modules["IPython"], "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"

"""The console that commands print tables on."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["table_console"]

_WIDTH_OF_FILES = 160
"""Columns of a table that goes to a file or a pipe, which have no width."""


def table_console() -> Any:
    """Return a rich console as wide as the terminal, or wide enough for any table elsewhere."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _WIDTH_OF_FILES)

"""Prints programs in colour."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Node
from tilesmith.ir.printing import show
from tilesmith.ir.printing.highlight import print_highlighted

__all__ = ["cprint"]


def cprint(printable: Any, style: str | None = None, black_format: bool = False) -> None:
    """Print a program (a node, or its text) for a person; see ``ir.printing.show``."""
    if isinstance(printable, Node):
        show(printable, style, black_format)
    else:
        print_highlighted(str(printable), style)

"""Text of expressions and modules, and where they were written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir import SequentialSpan, SourceName, Span
from tilesmith.ir.node import DIALECT_TEXT

__all__ = ["SequentialSpan", "SourceName", "Span", "astext", "pretty_print"]


def pretty_print(obj: Any) -> str:
    """Return the text of an expression, a type or a module, without the version."""
    return str(obj)


def astext(
    obj: Any, show_meta_data: bool = True, annotate: Callable[[Any], str] | None = None
) -> str:
    """Return the text of an expression or a module, from which `parse` makes an equal one;
    ``annotate`` gives a comment for an expression.
    """
    return str(DIALECT_TEXT["relay"](obj, show_meta_data=show_meta_data, annotate=annotate))

"""Describes the formats in which code can be shown and saved."""

from __future__ import annotations

from collections.abc import Callable, Sequence

__all__ = ["Format", "source_only"]

Format = bytes | str | Callable[[], bytes | str]
"""The contents of a format ("ll", "asm", "cu", …), or a function that makes them."""


def source_only(formats: Sequence[str], advice: str) -> str:
    """Return the message for a user who calls a function that exists only as source."""
    shown = f"get_source('{formats[0]}')" if formats else "get_source()"
    return f"there is its source only: {shown}" + (f"; {advice}" if advice else "")

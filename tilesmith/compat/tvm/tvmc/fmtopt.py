"""Lays out options of projects as text: names and choices in one column, their help in the next."""

from __future__ import annotations

import textwrap

MAX_OPTNAME_CHOICES_TEXT_COL_LEN = 65
MAX_HELP_TEXT_COL_LEN = 40
HELP_TEXT_JUST = 80


def format_option(
    option_text: str, help_text: str, default_text: str, required: bool = True
) -> str:
    """Return an option, its help beside it, and its default below the help."""
    left = textwrap.wrap(option_text, MAX_OPTNAME_CHOICES_TEXT_COL_LEN) or [""]
    right = textwrap.wrap(help_text, MAX_HELP_TEXT_COL_LEN)
    right += textwrap.wrap(default_text, MAX_HELP_TEXT_COL_LEN)
    right.append("(required)" if required else "(optional)")
    rows = max(len(left), len(right))
    left += [""] * (rows - len(left))
    right += [""] * (rows - len(right))
    width = MAX_OPTNAME_CHOICES_TEXT_COL_LEN + 2
    return "\n".join([f"  {a:<{width}}{b}".rstrip() for a, b in zip(left, right)])

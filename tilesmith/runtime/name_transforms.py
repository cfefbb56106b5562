"""Turns names into C identifiers."""

from __future__ import annotations

import re

from tilesmith.support.errors import TypeMismatchError


def sanitize_name(original_name: str) -> str:
    """Return the name with an underscore for each character that a C identifier does not allow."""
    if not original_name:
        raise TypeMismatchError("a name must have at least one character")
    return re.sub(r"[^A-Za-z0-9_]", "_", original_name)

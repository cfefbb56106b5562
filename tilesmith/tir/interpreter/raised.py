"""Makes the errors that programs raise themselves, by assertions and checks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilesmith.support import errors
from tilesmith.support.errors import ExecutionError, TilesmithError
from tilesmith.tir.struct_fields import joined

__all__ = ["raised_error"]


def raised_error(message: str | Iterable[Any], span: Any = None) -> TilesmithError:
    """Return the error with a message of texts and numbers.

    A text that begins with one of Tilesmith's errors, like ``OutOfBoundsError: ``, names the kind.
    """
    text = message if isinstance(message, str) else joined(message)
    name, found, rest = text.partition(": ")
    kind = getattr(errors, name, None) if found and name.isidentifier() else None
    if isinstance(kind, type) and issubclass(kind, TilesmithError):
        return kind(rest, span=span)
    return ExecutionError(text, span=span)

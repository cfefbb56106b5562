"""Conditions that code is specialised for: a scope in which they may be taken as given."""

from __future__ import annotations

import threading
from typing import Any

from tilesmith.ir import PrimExpr, convert
from tilesmith.support.errors import TypeMismatchError

__all__ = ["SpecializedCondition"]

_scopes = threading.local()


class SpecializedCondition:
    """A scope with conditions that hold where the code made inside of it runs.

    with te.SpecializedCondition([n >= 4, n % 8 == 0]): …
    """

    def __init__(self, conditions: Any) -> None:
        given = conditions if isinstance(conditions, (list, tuple)) else [conditions]
        self.clauses: tuple[PrimExpr, ...] = tuple([_condition(one) for one in given])

    @staticmethod
    def current() -> SpecializedCondition | None:
        """Return the innermost scope, or None outside of all."""
        stack = getattr(_scopes, "stack", None)
        return stack[-1] if stack else None

    def __enter__(self) -> SpecializedCondition:
        if not hasattr(_scopes, "stack"):
            _scopes.stack = []
        _scopes.stack.append(self)
        return self

    def __exit__(self, *_: Any) -> None:
        _scopes.stack.pop()


def _condition(given: Any) -> PrimExpr:
    condition: PrimExpr = convert(given)
    if not isinstance(condition, PrimExpr) or not condition.dtype.is_bool:
        raise TypeMismatchError(
            f"a condition is a comparison, got {given!r}", notes=("for example n >= 4",)
        )
    return condition

"""Connected patterns: which value uses which, in one dataflow block."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tilesmith.support.errors import DiagnosticError
from tilesmith.support.lazy import resolve

__all__ = ["PatternContext"]

_contexts = threading.local()


class PatternContext:
    """Collects the connections of the patterns that are made inside ``with PatternContext() as
    ctx``."""

    def __init__(self, incremental: bool = False) -> None:
        outer = PatternContext.current(required=False) if incremental else None
        self.edges: list[tuple[Any, Any, int, bool]] = list(outer.edges) if outer else []
        self.constraints: list[Any] = list(outer.constraints) if outer else []

    def __enter__(self) -> PatternContext:
        if not hasattr(_contexts, "stack"):
            _contexts.stack = []
        _contexts.stack.append(self)
        return self

    def __exit__(self, *error: Any) -> None:
        _contexts.stack.remove(self)

    @staticmethod
    def current(required: bool = True) -> Any:
        """Return the innermost context of this thread."""
        stack = getattr(_contexts, "stack", None)
        if stack:
            return stack[-1]
        if required:
            raise DiagnosticError(
                "patterns are connected inside a context",
                notes=("write `with PatternContext() as ctx:` around it",),
            )
        return None

    def match_dfb(self, dfb: Any) -> dict[Any, Any] | None:
        """Return variables of a dataflow block that match the connected patterns, or None."""
        match_dfb: Callable[..., dict[Any, Any] | None]
        match_dfb = resolve("tilesmith.relax.dpl.matcher:match_dfb")
        return match_dfb(self, dfb)

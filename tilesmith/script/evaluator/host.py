"""Says what the evaluator asks of the parser whose expressions it evaluates."""

from __future__ import annotations

import ast
from collections.abc import Collection
from contextlib import AbstractContextManager
from typing import Any, Protocol

from tilesmith.script.diagnostics import Source
from tilesmith.support.errors import ScriptError

__all__ = ["Host", "Words"]


class Words(Protocol):
    """The dialect of the function that is parsed: its letter and its words."""

    letter: str
    namespace: Any


class Host(Protocol):
    """The names in sight, and errors with a position; `parsing.Parser` is one."""

    source: Source
    ended: set[str]

    @property
    def dialect(self) -> Words | None:
        """The dialect of the function around, if any."""

    def evaluate(self, node: ast.expr) -> Any:
        """Return the value of an expression."""

    def lookup(self, name: str, default: Any = None) -> Any:
        """Return the value of a name, or ``default``."""

    def known_names(self) -> Collection[str]:
        """Return all names in sight."""

    def bind_target(self, target: ast.expr, value: Any) -> None:
        """Give names to a value or its parts."""

    def scope(self, names: dict[str, Any] | None = None) -> AbstractContextManager[None]:
        """Open a scope for the names."""

    def in_scopes(self, scopes: list[dict[str, Any]]) -> AbstractContextManager[None]:
        """Use other scopes for a while."""

    def snapshot(self) -> list[dict[str, Any]]:
        """Return the scopes as they are now."""

    def error(self, node: ast.AST, problem: Any, notes: tuple[str, ...] = ()) -> ScriptError:
        """Return an error at a piece of syntax."""

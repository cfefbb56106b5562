"""Tags: labels attached to the operations made inside a ``with`` block."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["TagScope", "tag_scope"]

_scopes = threading.local()


class TagScope:
    """Attaches its tag to the operations made inside; also serves as a decorator."""

    def __init__(self, tag: str) -> None:
        self.tag = tag

    def __enter__(self) -> TagScope:
        self._outer = getattr(_scopes, "tag", "")
        _scopes.tag = self.tag
        return self

    def __exit__(self, *_: Any) -> None:
        _scopes.tag = self._outer

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def tagged(*args: Any, **kwargs: Any) -> Any:
            with TagScope(self.tag):
                return function(*args, **kwargs)

        return tagged

    @classmethod
    def get_current(cls) -> TagScope | None:
        """Return the innermost scope, or None outside of all."""
        tag = cls.current_tag()
        return cls(tag) if tag else None

    @staticmethod
    def current_tag() -> str:
        """Return the tag of the innermost scope, or an empty string."""
        return getattr(_scopes, "tag", "")


def tag_scope(tag: str) -> TagScope:
    """Return a scope that tags the operations made inside."""
    return TagScope(tag)

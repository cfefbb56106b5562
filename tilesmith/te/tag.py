"""Tags: words attached to the operations made inside of a ``with`` block."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["TagScope", "tag_scope"]

_scopes = threading.local()


class TagScope:
    """Gives its tag to the operations made inside; serves as a decorator too."""

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

    @staticmethod
    def current_tag() -> str:
        """The tag of the innermost scope, or an empty text."""
        return getattr(_scopes, "tag", "")


def tag_scope(tag: str) -> TagScope:
    """A scope in which operations get a tag."""
    return TagScope(tag)

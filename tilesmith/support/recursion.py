"""Raises the recursion limit: public entry points that walk the IR run inside `deep_recursion()`.

Since Python 3.11 a call from Python to Python uses no C stack, so that a raised limit is enough as
long as walkers call methods directly (no `map`, no generators into `tuple`, no `functools.cache`).
Do not decorate the methods that recurse, only the entry point: a decorated call does use C stack.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar, overload

RECURSION_LIMIT = 100_000

Function = TypeVar("Function", bound=Callable[..., Any])

_lock = threading.Lock()
_depth = 0
_saved_limit = 0


def _enter() -> None:
    global _depth, _saved_limit
    with _lock:
        if _depth == 0:
            _saved_limit = sys.getrecursionlimit()
            if _saved_limit < RECURSION_LIMIT:
                sys.setrecursionlimit(RECURSION_LIMIT)
        _depth += 1


def _leave() -> None:
    global _depth
    with _lock:
        _depth -= 1
        # The limit belongs to the process: the last scope of all threads restores it, unless
        # other code has changed it meanwhile.
        if _depth == 0 and _saved_limit < RECURSION_LIMIT:
            if sys.getrecursionlimit() == RECURSION_LIMIT:
                sys.setrecursionlimit(_saved_limit)


class _DeepRecursion:
    """The scope. It has no state of its own, so one object serves all uses."""

    __slots__ = ()

    def __enter__(self) -> None:
        _enter()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _leave()

    def __call__(self, function: Function) -> Function:
        @functools.wraps(function)
        def entry(*arguments: Any, **named: Any) -> Any:
            _enter()
            try:
                return function(*arguments, **named)
            finally:
                _leave()

        return entry  # type: ignore[return-value]


_SCOPE = _DeepRecursion()


@overload
def deep_recursion(function: None = None) -> _DeepRecursion: ...


@overload
def deep_recursion(function: Function) -> Function: ...


def deep_recursion(function: Any = None) -> Any:
    """Raise the recursion limit to 100 000 within a `with` block or a decorated function.

    `with deep_recursion(): …`, `@deep_recursion` and `@deep_recursion()` all work; nesting is
    cheap, and the outermost scope restores the limit.
    """
    return _SCOPE if function is None else _SCOPE(function)

"""Settings that hold inside of a ``with`` block, in the thread that entered it."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Scoped"]


class _Scopes(threading.local):
    def __init__(self) -> None:
        self.entered: list[Any] = []


class Scoped:
    """Base of settings that are entered with ``with``; each direct subclass has a stack per thread,
    which its own subclasses share.
    """

    _scopes: ClassVar[_Scopes]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if Scoped in cls.__bases__:
            cls._scopes = _Scopes()

    def __enter__(self) -> Self:
        self._scopes.entered.append(self)
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._scopes.entered.pop()

    @classmethod
    def innermost(cls) -> Self | None:
        """Return what this thread entered last and has not left, None if there is nothing."""
        entered = cls._scopes.entered
        return entered[-1] if entered else None

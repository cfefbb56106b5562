"""The context of the statement that is being compiled: launches, reductions, attributes."""

from __future__ import annotations

from tilesmith.ir import Node, Var
from tilesmith.ir.span import Span

__all__ = ["Scope"]


class Scope:
    """The launches, reductions and attributes around the current statement.

    ``threads``: iterators over threads whose loops run one after the other.
    ``launched``: by axis, whether the threads of the current group differ in it.
    ``axis_of``: the axis that a launch variable iterates over.
    ``reducers``: the reducers of the attributes ``reduce_scope``, the innermost last.
    ``local_pointers``: memory of single threads that is allocated around.
    ``is_async``: stores begin copies in the background (``async_scope``).
    ``span``: where the current statement was written.
    ``waits``: threads may wait for others at barriers in shared memory (see ``strands``).
    """

    def __init__(self) -> None:
        self.threads: set[Var] = set()
        self.launched: dict[str, bool] = {}
        self.axis_of: dict[Var, str] = {}
        self.reducers: list[Node] = []
        self.local_pointers: list[Var] = []
        self.is_async = False
        self.span: Span | None = None
        self.waits = False

    @property
    def in_threads(self) -> bool:
        """Return whether the statement is inside of a launch."""
        return bool(self.threads) or any(self.launched.values())

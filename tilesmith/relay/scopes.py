"""The scopes of a program: bodies of functions, branches, results of clauses.

A node that several others share belongs to the innermost scope that holds all its users.
"""

from __future__ import annotations

from typing import Any

from tilesmith.relay.adt import Match
from tilesmith.relay.expr import If
from tilesmith.relay.function import Function
from tilesmith.relay.walks import parts, post_order

__all__ = ["Scopes", "opens_scope"]


def opens_scope(node: Any, place: int) -> bool:
    """Return whether a part of a node, by its place, is the root of a scope of its own."""
    if isinstance(node, Function):
        return True
    return place > 0 and isinstance(node, (If, Match))


class Scopes:
    """The scope of each node below an expression, by the node's ``id``; 0 is the outermost one.

    ``inner`` gives the scope that a part opens, by the ``id`` of its user and its place.
    ``shared`` are the nodes with a user in a scope below their own, ``users`` the numbers of users.
    """

    def __init__(self, expr: Any) -> None:
        self.of: dict[int, int] = {id(expr): 0}
        self.inner: dict[tuple[int, int], int] = {}
        self.shared: set[int] = set()
        self._above: list[int] = [-1]
        self._depth: list[int] = [0]
        self.order = list(post_order(expr))
        self.users: dict[int, int] = {}
        uses: list[tuple[Any, int]] = []
        for node in reversed(self.order):  # users before parts
            scope = self.of[id(node)]
            for place, part in enumerate(parts(node)):
                used_in = self._open(node, place, scope) if opens_scope(node, place) else scope
                known = self.of.get(id(part))
                self.of[id(part)] = used_in if known is None else self._common(known, used_in)
                uses.append((part, used_in))
                self.users[id(part)] = self.users.get(id(part), 0) + 1
        self.shared = {id(part) for part, used_in in uses if self.of[id(part)] != used_in}

    def _open(self, node: Any, place: int, outer: int) -> int:
        self._above.append(outer)
        self._depth.append(self._depth[outer] + 1)
        self.inner[id(node), place] = len(self._above) - 1
        return len(self._above) - 1

    def _common(self, a: int, b: int) -> int:
        while a != b:
            if self._depth[a] < self._depth[b]:
                a, b = b, a
            a = self._above[a]
        return a

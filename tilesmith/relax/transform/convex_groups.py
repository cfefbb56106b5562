"""Puts neighbours into groups such that no path between two members of a group leaves it.

    groups = ConvexGroups()
    for node in order:                       # what a node reads comes before it
        groups.add(node, kind, reads)        # kind None: it belongs to no group
    groups.of(node)

A node joins the groups of its kind that it reads, where this makes no circle: then each group can
be one function.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

__all__ = ["ConvexGroups"]


class ConvexGroups:
    """Groups of nodes. Sets of groups are integers with one bit for each group."""

    def __init__(self) -> None:
        self._kinds: list[Hashable] = []
        self._into: list[int] = []  # the group that a group was merged into, or itself
        self._names: list[int] = []  # all groups that were merged into one, as bits
        self._needs: list[int] = []  # the groups that a group depends on, directly or not
        self._is_used: list[bool] = []  # whether a group depends on it
        self._group: dict[Hashable, int] = {}
        self._behind: dict[Hashable, int] = {}  # the groups that a node without group depends on

    def of(self, node: Hashable) -> int | None:
        """Return the number of a node's group, None for a node without one."""
        number = self._group.get(node)
        return None if number is None else self._find(number)

    def add(self, node: Hashable, kind: Hashable | None, reads: Iterable[Hashable]) -> None:
        """Add a node after all that it reads; what was not added counts for nothing."""
        known = [one for one in reads if one in self._group or one in self._behind]
        if kind is None:
            self._behind[node] = self._all_behind(known)
            return
        near = dict.fromkeys([self._find(self._group[one]) for one in known if one in self._group])
        joined: list[int] = []
        for number in near:
            if self._kinds[number] == kind and not self._is_blocked(number, known):
                joined.append(number)
        group = joined[0] if joined else self._new(kind)
        for other in joined[1:]:
            self._merge(group, other)
        self._group[node] = group
        self._depend(group, self._all_behind(known))

    # Sets of groups

    def _find(self, number: int) -> int:
        while self._into[number] != number:
            number = self._into[number]
        return number

    def _all_behind(self, nodes: Iterable[Hashable]) -> int:
        found = 0
        for node in nodes:
            number = self._group.get(node)
            found |= self._behind[node] if number is None else self._names[self._find(number)]
        return found

    def _is_blocked(self, number: int, reads: Iterable[Hashable]) -> bool:
        """Return whether one of the values that a node reads depends on a group from outside."""
        if not self._is_used[number]:
            names = self._names[number]
            return any(self._behind[node] & names for node in reads if node not in self._group)
        for node in reads:
            own = self._group.get(node)
            if own is None:
                if self._closed(self._behind[node]) & self._names[number]:
                    return True
            elif self._find(own) != number:
                if self._needs[self._find(own)] & self._names[number]:
                    return True
        return False

    def _new(self, kind: Hashable) -> int:
        number = len(self._kinds)
        self._kinds.append(kind)
        self._into.append(number)
        self._names.append(1 << number)
        self._needs.append(0)
        self._is_used.append(False)
        return number

    def _merge(self, group: int, other: int) -> None:
        self._into[other] = group
        self._names[group] |= self._names[other]
        self._is_used[group] |= self._is_used[other]
        needs = self._needs[group] | self._needs[other]
        self._needs[group] = 0
        self._depend(group, needs)
        for number in self._users(group):
            self._needs[number] |= self._names[group] | self._needs[group]

    def _depend(self, group: int, on: int) -> None:
        """Note that a group depends on others, and so does all that depends on it."""
        new = self._closed(on, True) & ~(self._needs[group] | self._names[group])
        if not new:
            return
        self._needs[group] |= new
        for number in self._users(group):
            self._needs[number] |= new

    def _closed(self, bits: int, is_use: bool = False) -> int:
        """Return groups with all that they depend on. Later groups depend on earlier ones, mostly:
        one that comes late covers the others, which are not looked at.
        """
        left = bits
        while left:
            number = self._find(left.bit_length() - 1)
            covered = self._names[number] | self._needs[number]
            if is_use:
                self._is_used[number] = True
            bits |= covered
            left &= ~covered
        return bits

    def _users(self, group: int) -> list[int]:
        """Return the groups that depend on a group."""
        if not self._is_used[group]:
            return []
        names = self._names[group]
        return [
            number
            for number, needs in enumerate(self._needs)
            if needs & names and self._into[number] == number and number != group
        ]

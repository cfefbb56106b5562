"""Sums up the accesses of statements, as ThreadSync compares them."""

from __future__ import annotations

from tilesmith.tir.transform.threads.thread_conflicts import Access

__all__ = ["AccessSummary", "merged"]


class AccessSummary:
    """The accesses of a statement before its first barrier and after its last one."""

    __slots__ = ("head", "synced", "tail")

    def __init__(self) -> None:
        self.head: list[Access] = []
        self.tail: list[Access] = []
        self.synced = False

    def then(self, later: AccessSummary) -> None:
        """Become the summary of this statement followed by another."""
        if not self.synced:
            self.head = merged(self.head, later.head)
        if later.synced:
            self.tail, self.synced = list(later.tail), True
        else:
            self.tail = merged(self.tail, later.tail)


def merged(some: list[Access], more: list[Access]) -> list[Access]:
    """Return all accesses, each once."""
    return [*some, *[access for access in more if not _known(access, some)]]


def _known(access: Access, among: list[Access]) -> bool:
    for other in among:
        if (
            other.pointer is access.pointer
            and other.place is access.place
            and other.writes == access.writes
            and other.loops is access.loops
            and other[6:] == access[6:]
        ):
            return True
    return False

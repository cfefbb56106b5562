"""What a lockstep run tells about its memory: one event per access of a group of threads.

An observer is any object with the methods of ``Observer`` that it wants; the counters of
``counters`` are one, simulations of caches and pictures of tiles can be others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy

__all__ = ["BlockAccess", "Launch", "Observer", "Site"]


@dataclass(frozen=True, eq=False)
class Site:
    """A place in the program that accesses memory, branches or waits.

    ``kind`` is "read", "write", "branch", "barrier" or "copy"; ``space`` "global", "shared",
    "warp" or "local"; ``statement`` what stands there; ``loops`` the loops around, outermost first.
    """

    number: int
    kind: str
    name: str
    space: str
    statement: str
    loops: tuple[str, ...]
    span: Any

    @property
    def place(self) -> str:
        """Return the user's line; where there is none, the loops and the statement."""
        line = getattr(self.span, "line", None)
        if line is not None:
            return f"{self.span.source_name}:{line}"
        around = ", ".join(self.loops)
        return f"`{self.statement}`" + (f" in the loops {around}" if around else "")


@dataclass(frozen=True, eq=False)
class Launch:
    """A kernel that starts: its name, its grid and block (x, y, z), and the blocks that are run."""

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    blocks_run: tuple[tuple[int, int, int], ...]
    warp_size: int


@dataclass(frozen=True, eq=False)
class BlockAccess:
    """One access instruction, carried out by the active threads of a block.

    ``threads``: numbers within the block, ascending; ``addresses``: the byte within the memory at
    which each of them begins; ``nbytes``: how many contiguous bytes each moves. ``weight``: how
    many executions this one stands for. ``memory`` is equal for accesses of the same allocation;
    ``base``: where it begins (a multiple of 256 for global memory).
    """

    site: Site
    memory: Any
    space: str
    writes: bool
    threads: numpy.ndarray
    addresses: numpy.ndarray
    nbytes: int
    block: tuple[int, int, int]
    weight: float
    is_async: bool = False


class Observer:
    """The events of a run; each method does nothing unless a subclass says what."""

    def launched(self, launch: Launch) -> None:
        """Handle the start of a kernel."""

    def block_started(self, block: tuple[int, int, int]) -> None:
        """Handle the start of a block of threads."""

    def allocated(self, name: str, scope: str, nbytes: int, place: int) -> None:
        """Handle an allocation: so many bytes for each thread, warp or block that owns one;
        ``place`` is equal when it is the same one again."""

    def accessed(self, access: BlockAccess) -> None:
        """Handle an access of shared or global memory."""

    def branched(
        self, site: Site, taken: numpy.ndarray, warps: numpy.ndarray, weight: float
    ) -> None:
        """Handle a branch on a value that differs between threads."""

    def waited(self, site: Site, weight: float) -> None:
        """Handle a barrier of a block."""

    def computed(self, operations: float, kind: str) -> None:
        """Handle arithmetic: so many operations of all active threads; ``kind`` is a dtype, or
        "tensor" for those of matrix units."""

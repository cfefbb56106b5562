"""Describes the surroundings of the statement that is being written."""

from __future__ import annotations

from tilesmith.ir import Var

__all__ = ["Scope"]


class Scope:
    """The loops, masks and attributes around the current statement, and facts about its body.

    ``loop_vars``: variables of the loops around.
    ``wrapping``: those that are reduced modulo a power of two somewhere inside.
    ``uses_vectors``: vectors were loaded or stored; loops around such code are not vectorised.
    ``copies_rows``: a loop copies vectors, so few at a time that a call of memcpy would cost more.
    ``mask``: the lanes that are on and their number, inside a choice by lane.
    ``in_parallel``: other threads run the same code.
    ``tasks``, ``barrier``: inside of a parallel region the number of its tasks, and the arguments
    of a barrier over them.
    ``device``: device type and number of tensors that are made here, as DLPack counts.
    ``operator``: the operators of a graph that the called kernel computes, for its errors.
    ``prefetch_bytes``: how far ahead of loads of vectors their lines are fetched; 0: not at all.
    ``unrolls_on_request``: the schedule says which loops are unrolled; LLVM unrolls no other.
    ``location``: the place of the statement, where debug information is written.
    """

    def __init__(self) -> None:
        self.loop_vars: list[Var] = []
        self.wrapping: set[Var] = set()
        self.uses_vectors = False
        self.copies_rows = False
        self.mask: tuple[str, int] | None = None
        self.in_parallel = False
        self.tasks = "1"
        self.barrier = ""
        self.device: tuple[int, int | str] = (1, 0)
        self.operator = ""
        self.prefetch_bytes = 0
        self.unrolls_on_request = False
        self.location = ""

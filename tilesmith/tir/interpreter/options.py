"""Options of a run of the interpreter: checks that it makes in addition to computing the result."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DEFAULT_OPTIONS", "Options"]


@dataclass(frozen=True)
class Options:
    """The options of a run.

    ``check_races``: two threads that touch the same element of shared or global memory, one of them
    writing, with no barrier between, are an error. Threads that write the same value are not, at
    once or by copies in the background.

    ``check_undefined``: a read of allocated memory that was never written is an error; without it
    such a read gives NaN, or 0x5A in each byte. So it does in lanes of a vector, which a mask of
    what follows may take out, and where an element is only copied: the copy counts as not written.

    ``vscale``: the length of scalable vectors as a multiple of their smallest size.
    ``warp_size``: threads of a warp where the target of the function does not tell.
    """

    check_races: bool = False
    check_undefined: bool = False
    vscale: int = 1
    warp_size: int = 32

    @property
    def watched(self) -> bool:
        """Return whether each access has to be checked."""
        return self.check_races or self.check_undefined


DEFAULT_OPTIONS = Options()

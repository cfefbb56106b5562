"""When the passes of a backend run."""

from __future__ import annotations

from enum import Enum

__all__ = ["PassPhase", "uma_available"]


class PassPhase(Enum):
    """The phases: before and after the program is divided, and on the loops of its parts."""

    PRE_PARTITIONING = 0
    POST_PARTITIONING_0 = 1
    POST_PARTITIONING_1 = 2
    TIR_PHASE_0 = 3
    TIR_PHASE_1 = 4
    TIR_PHASE_2 = 5

    @property
    def is_tir(self) -> bool:
        """Whether passes of the phase get PrimFuncs."""
        return self.value >= PassPhase.TIR_PHASE_0.value


def uma_available() -> bool:
    """Return True: such backends can be registered here."""
    return True

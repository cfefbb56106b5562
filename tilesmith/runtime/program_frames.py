"""Frames of calls in programs of steps (`runtime.program`), and the loop that carries them out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.support.errors import ExecutionError, ShapeError

__all__ = ["Evaluate", "Frame", "Instruction", "UnknownSizeError", "execute"]

_DEEPEST = 400_000
"""So many calls may be open at a time; more of them have no end, most likely."""


class Frame:
    """The values and sizes of one call."""

    __slots__ = ("code", "later", "place", "put", "registers", "result", "saved", "sizes")

    def __init__(self, registers: int, code: list[Instruction]) -> None:
        self.code = code
        self.place = 0
        self.registers: list[Any] = [None] * registers
        self.result: Any = None
        self.put: Callable[[Frame, Any], None] = _ignore
        """Receives the result of the call that the frame waits for."""
        self.saved: list[dict[str, int]] = []
        """The sizes that were known before the choices that are being carried out."""
        self.sizes: dict[str, int] = {}
        self.later: list[Callable[[], None]] | None = []
        """Comparisons with sizes that a later parameter tells; None after the parameters."""

    def compare(self, size: Evaluate, value: int, where: str) -> None:
        """Raise a ShapeError unless a size has a value."""
        try:
            wanted = size(self)
        except UnknownSizeError:
            if self.later is None:
                raise
            self.later.append(lambda: self.compare(size, value, where))
            return
        if wanted != value:
            raise ShapeError(f"{where}, expected {wanted}")

    def end_parameters(self) -> None:
        """Make the comparisons that were left open."""
        later, self.later = self.later or [], None
        for one in later:
            one()


class UnknownSizeError(ShapeError):
    """A size is needed that nothing has told."""


Evaluate = Callable[[Frame], Any]

Instruction = Callable[[Frame], "Frame | bool | None"]
"""Does one thing. It returns the frame of a function that is to be carried out next, True at the
end of its own function, else None."""


def _ignore(frame: Frame, value: Any) -> None:
    """Receive nothing."""


def execute(frame: Frame) -> Any:
    """Carry out the instructions of a frame and of all that it calls; return its result."""
    waiting: list[Frame] = []
    while True:
        instruction = frame.code[frame.place]
        frame.place += 1
        entered = instruction(frame)
        if entered is None:
            continue
        if entered is True:
            if not waiting:
                return frame.result
            result, frame = frame.result, waiting.pop()
            frame.put(frame, result)
            continue
        waiting.append(frame)
        frame = entered  # type: ignore[assignment]
        if len(waiting) > _DEEPEST:
            raise ExecutionError(
                f"the program has {_DEEPEST} calls open: does it call itself without an end?",
                notes=("a loop of tensors becomes native code when its last step is the call",),
            )

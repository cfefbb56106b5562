"""Lets work that is ended by a signal still say what it did.

with interruptible() as interruption:
    work()
...                                  # show what was done
if interruption.signal is not None:
    context.exit(interruption.exit_code)
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

__all__ = ["Interruption", "interruptible"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass
class Interruption:
    """The signal that ended a block; None if it ran to its end."""

    signal: signal.Signals | None = None

    @property
    def exit_code(self) -> int:
        """The code with which shells report that signal, 0 without one."""
        return 0 if self.signal is None else 128 + self.signal


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """End a block, with KeyboardInterrupt raised in it, at the first SIGINT or SIGTERM.

    Later ones are ignored until the block has ended: what sends a signal to a process and to its
    group, as ``timeout`` does, sends it twice, and must not disturb the block's own end.
    """
    interruption = Interruption()

    def interrupt(number: int, frame: FrameType | None) -> None:
        if interruption.signal is None:
            interruption.signal = signal.Signals(number)
            raise KeyboardInterrupt

    is_main = threading.current_thread() is threading.main_thread()  # only it handles signals
    before = {one: signal.signal(one, interrupt) for one in _SIGNALS} if is_main else {}
    try:
        yield interruption
    except KeyboardInterrupt:
        if interruption.signal is None:
            raise
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)

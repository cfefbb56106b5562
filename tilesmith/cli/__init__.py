"""The `tilesmith` command: compiles, runs, measures and inspects models from a shell."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType


def main() -> None:
    """Run the command and end the process with its exit code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        from tilesmith.cli.main import tilesmith

        tilesmith(prog_name="tilesmith")
    except KeyboardInterrupt:  # while modules are imported, or at the very end
        print("interrupted", file=sys.stderr)
        sys.exit(130)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt; inside an import, end the process at once.

    Some extension modules crash when their import is interrupted, and nothing is written there.
    """
    while frame is not None:
        if frame.f_globals.get("__name__") == "importlib._bootstrap":
            os.write(2, b"interrupted\n")
            os._exit(130)
        frame = frame.f_back
    raise KeyboardInterrupt

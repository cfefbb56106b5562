"""Runs cases in a process started as ``python -m``, which receives them through its pipe.

``--place FILE``: where it notes the step it is at, for the parent to read after a crash.
``--patch MODULE:FUNCTION``: called once before the first case; tests break the compiler with it.
"""

from __future__ import annotations

import argparse
import importlib
import mmap
import os
from pathlib import Path
from typing import Any

from tilesmith.support.workers import serve
from tilesmith.testing.fuzz import checks
from tilesmith.testing.fuzz.cases import make_case, run_case

__all__ = ["PLACE_SIZE", "handle"]

PLACE_SIZE = 256


def _note_places(path: Path) -> None:
    file = os.open(path, os.O_RDWR)
    memory = mmap.mmap(file, PLACE_SIZE)

    def note(phase: str, name: str) -> None:
        memory[:] = f"{phase}: {name}".encode()[:PLACE_SIZE].ljust(PLACE_SIZE, b"\0")

    checks.note_place = note


def handle(request: dict[str, Any], blobs: list[bytes]) -> tuple[Any, list[bytes]]:
    """Handle a message: run a case, given whole or by its seed."""
    if "ready" in request:
        return {}, []
    if "replay" in request:
        from tilesmith.testing.fuzz.replay import run_file

        return {"failed": run_file(Path(request["replay"]))}, []
    case = request.get("case")
    if case is None:
        case = make_case(request["seed"], request["only"], request.get("field"))
    return run_case(case), []


def main() -> None:
    """Read the options and serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--place", type=Path)
    parser.add_argument("--patch")
    options = parser.parse_args()

    def start() -> None:
        if options.place is not None:
            _note_places(options.place)
        if options.patch:
            module, _, function = options.patch.partition(":")
            getattr(importlib.import_module(module), function)()

    serve(handle, start)


if __name__ == "__main__":
    main()

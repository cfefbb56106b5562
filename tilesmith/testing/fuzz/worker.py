"""Runs cases in a process started as ``python -m``, which receives them through its pipe.

``--folder FOLDER``: where it works. In `place` it notes the step it is at, for the parent to read
after a crash; what libraries print goes into `errors`.
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


def _work_in(folder: Path) -> None:
    _note_places(folder / "place")
    errors = os.open(folder / "errors", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(errors, 1)
    os.dup2(errors, 2)
    os.chdir(folder)


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
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--patch")
    options = parser.parse_args()

    def start() -> None:
        if options.folder is not None:
            _work_in(options.folder)
        if options.patch:
            module, _, function = options.patch.partition(":")
            getattr(importlib.import_module(module), function)()

    serve(handle, start)


if __name__ == "__main__":
    main()

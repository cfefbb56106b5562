"""Says what the compiler makes of some programs, to tell whether a mutant changes anything.

    python tools/mutation_probe.py --programs 40 [--lines FILE]

prints a line for each program: a digest of the texts of all modules on its way from the program to
code, or of the error. ``--lines``: also writes which lines of the package ran, as JSON.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path
from types import FrameType
from typing import Any

FIELDS = (
    "blocks", "chains", "statements", "conditions", "tensors", "loops", "narrow", "threads",
    "pipelines", "blocks",
)  # fmt: skip
FIRST_SEED = 77_000_000
"""Programs of the probe are not those that the fuzzer draws in a run."""


def prober() -> Any:
    """Return a checker that collects texts instead of comparing results."""
    from tilesmith.testing.fuzz.checks import Checker

    class Prober(Checker):
        def __init__(self, *args: Any) -> None:
            self.texts: list[str] = []
            super().__init__(*args)

        def _outputs(self, *args: Any) -> list[Any]:
            return []

        def compare(self, program: Any, entry: Any = None, rounded: bool = False) -> None:
            self.texts.append(program.script())

        def compare_orders(self, module: Any) -> None:
            """Leave the order of parallel loops alone."""

        def check_script(self, program: Any) -> None:
            """Leave printing and parsing alone: others do that."""

        def check_trace(self, result: Any) -> None:
            """Leave traces alone."""

        def check_code(self, lowered: Any, target: Any) -> None:
            from tilesmith.codegen import build

            self.texts.append(build(lowered, target, None).get_source())

    return Prober


def digest(number: int) -> str:
    """Return the digest of a program's way through the compiler."""
    from tilesmith.testing.fuzz import cases, checks

    case = cases.make_case(FIRST_SEED + number, None, FIELDS[number % len(FIELDS)])
    made: list[Any] = []

    def checker(*args: Any) -> Any:
        made.append(prober()(*args))
        return made[-1]

    cases.Checker = checker  # type: ignore[misc]
    try:
        result = cases.run_case(case)
        end = "" if result["finding"] is None else result["finding"]["signature"]
        refused = {k: v for k, v in result["counts"].items() if k.startswith(("refused", "unsup"))}
        end += json.dumps(refused, sort_keys=True)
    except Exception as error:
        end = f"{type(error).__name__}"
    finally:
        cases.Checker = checks.Checker  # type: ignore[misc]
    texts = made[-1].texts if made else []
    return hashlib.blake2b("\n".join([*texts, end]).encode(), digest_size=12).hexdigest()


class LineRecorder:
    """Records which lines of the package run."""

    def __init__(self, root: Path) -> None:
        self.root = str(root) + "/tilesmith/"
        self.lines: dict[str, set[int]] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        if not name.startswith(self.root):
            return None
        lines = self.lines.setdefault(name, set())
        lines.add(frame.f_lineno)

        def local(inner: FrameType, event: str, argument: Any) -> Any:
            lines.add(inner.f_lineno)
            return local

        return local

    def as_json(self, root: Path) -> dict[str, list[int]]:
        """Return the lines by the path of their file."""
        cut = len(str(root)) + 1
        return {name[cut:]: sorted(lines) for name, lines in sorted(self.lines.items())}


def main() -> None:
    """Read the options and print the digests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=40)
    parser.add_argument("--lines", type=Path)
    options = parser.parse_args()
    root = Path.cwd()
    sys.path.insert(0, str(root))
    recorder = LineRecorder(root)
    if options.lines is not None:
        sys.settrace(recorder)
    for number in range(options.programs):
        print(digest(number), flush=True)
    sys.settrace(None)
    if options.lines is not None:
        options.lines.write_text(json.dumps(recorder.as_json(root)))


if __name__ == "__main__":
    main()

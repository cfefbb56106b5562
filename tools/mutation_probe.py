"""Says what the compiler makes of some programs, to tell whether a mutant changes anything.

    python tools/mutation_probe.py --programs 40 [--reach FILE --package tilesmith/te]

prints a line for each program: a digest of the texts of all modules on its way from the program to
code, or of the error. Each program runs in a process of its own, so that its digest does not depend
on others. ``--reach``: also writes which blocks of the packages each one ran, as a JSON list
(``mutation_reach.py``). ``--expected FILE``: only the programs that this JSON object gives a digest
for run, up to the first with another digest.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import json
import os
import pkgutil
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from mutation_reach import Blocks, Instrument

FIELDS = (
    "blocks", "chains", "statements", "conditions", "tensors", "loops", "narrow", "threads",
    "pipelines", "blocks",
)  # fmt: skip
FIRST_SEED = 77_000_000
"""Programs of the probe are not those that the fuzzer draws in a run."""

LATER = (
    "numpy.random", "llvmlite.binding", "llvmlite.ir", "tilesmith.codegen",
    "tilesmith.tir.transform", "tilesmith.script.tir_parser", "tilesmith.target.requirements",
)  # fmt: skip
"""What most programs would import for themselves."""


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


def import_later() -> None:
    """Import once what most programs would import for themselves, with all that is inside."""
    for name in LATER:
        with contextlib.suppress(Exception):  # a mutant may fail here; then programs meet it, too
            package = importlib.import_module(name)
            inside = pkgutil.walk_packages(getattr(package, "__path__", ()), f"{name}.")
            for module in inside if name.startswith("tilesmith") else ():
                importlib.import_module(module.name)


def digest_apart(number: int, instrument: Instrument | None) -> tuple[str, str]:
    """Return a program's digest, and the blocks that it ran, from a process of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        made = [digest(number), "" if instrument is None else instrument.reached()]
        with os.fdopen(writing, "w") as file:
            json.dump(made, file)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        text = file.read()
    _, status = os.waitpid(child, 0)
    if status != 0 or not text:
        return f"ends with {status}", ""
    made = json.loads(text)
    return made[0], made[1]


def main() -> None:
    """Read the options and print the digests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=40)
    parser.add_argument("--reach", type=Path)
    parser.add_argument("--package", action="append", default=[])
    parser.add_argument("--expected", type=Path)
    options = parser.parse_args()
    root = Path.cwd()
    sys.path.insert(0, str(root))
    instrument = None
    if options.reach is not None:
        instrument = Instrument(root, Blocks(root, options.package))
        instrument.install()
    expected = dict.fromkeys(map(str, range(options.programs)))
    if options.expected is not None:
        expected = json.loads(options.expected.read_text())
    from tilesmith.testing.fuzz import worker  # noqa: F401 - imported once, for all programs

    import_later()
    reached = []
    for number, usual in expected.items():
        made, blocks = digest_apart(int(number), instrument)
        print(made, flush=True)
        reached.append(blocks)
        if usual is not None and made != usual:
            break
    if options.reach is not None:
        options.reach.write_text(json.dumps(reached))


if __name__ == "__main__":
    main()

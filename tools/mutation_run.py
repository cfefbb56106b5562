"""Measures tests and fuzzing: breaks the compiler in many small ways, and counts who notices.

    python tools/mutation_run.py --count 200 --seed 1 --fuzz-seconds 600 --output build/mutation

A mutant is one small change of one file (``mutants.py``). It is applied to a copy of the tree,
never to the tree itself. Then, in this order:

1. *Does it count?* Only a mutant whose line some program of the probe runs, and which changes what
   the compiler makes of at least one of these programs (``mutation_probe.py``: any text on the way
   to code, or a refusal). Others are left out as "not reached" or "no change".
2. *Tests*: those named like the file, then those of its folder, then of its package, each with a
   limit of time; the first failure ends it.
3. *Fuzzing* for ``--fuzz-seconds``, up to the first finding that the unchanged tree does not have.

What counts and is not noticed is a *survivor*. Some survivors change only how fast or long code is,
never a result: who reads one says so in ``--verdicts`` (a JSON file: name of the mutant → reason),
and it no longer counts. Each mutant's record is a file of its own, so that a run that was stopped
goes on where it was; ``report.md`` and ``report.json`` sum up all records. Tests that fail without
the mutant, too, do not count; ``failing.json`` in the output folder names them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from mutants import Mutant, compiles, mutants_of

PACKAGES = (
    "tilesmith/tir/schedule", "tilesmith/tir/transform", "tilesmith/arith", "tilesmith/codegen",
    "tilesmith/te",
)  # fmt: skip
COPIED = (
    "tilesmith", "tests", "tools", "examples", "benchmarks", "docs", "pyproject.toml",
    "CONTRIBUTING.md", "README.md",
)  # fmt: skip
_FUZZ = """
import json, sys
from tilesmith.testing.fuzz.campaign import Options, fuzz
seconds, seed = float(sys.argv[1]), int(sys.argv[2])
options = Options(seconds, seed, stop_at_first=True, shrink_seconds=0)
found = fuzz(options)
case = [(text, one["case"]) for text, one in found.findings.items()]
print(json.dumps({"programs": found.counts["programs"], "found": case, "seconds": found.seconds}))
"""
_AGAIN = """
import json, sys
from tilesmith.testing.fuzz.isolated import IsolatedRunner
runner = IsolatedRunner()
found = runner.run(json.load(sys.stdin))["finding"]
runner.close()
print(json.dumps(None if found is None else found["signature"]))
"""


@dataclass
class Settings:
    """What a run does; ``tree`` is left as it is."""

    tree: Path
    output: Path
    packages: tuple[str, ...] = PACKAGES
    count: int = 20
    seed: int = 1
    probe_programs: int = 40
    probe_seconds: float = 600.0
    test_seconds: float = 600.0
    fuzz_seconds: float = 600.0
    workers: str = "1"
    python: str = sys.executable


@dataclass
class Record:
    """What became of one mutant."""

    mutant: dict[str, Any]
    name: str
    status: str = ""  # "not reached", "no change", "counts", "breaks the import"
    tests: str = ""  # which tests noticed, "survived", or "" where they did not run
    fuzzing: str = ""  # the signature, "survived", or ""
    programs: int = 0
    seconds: dict[str, float] = field(default_factory=dict)


class Tree:
    """A copy of the tree in which one mutant at a time is applied.

    A second copy, of the packages that are broken, stays as it is: a run measures the tree as it
    was when the run began, also if it is edited meanwhile.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.place, self.unchanged = settings.output / "tree", settings.output / "unchanged"
        for package in settings.packages:
            if not (self.unchanged / package).exists():
                shutil.copytree(settings.tree / package, self.unchanged / package)
        for name in COPIED:
            source, target = settings.tree / name, self.place / name
            if source.is_dir() and not target.exists():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            elif source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)
        for package in settings.packages:  # a run that was stopped may have left a mutant
            for path in sorted((self.unchanged / package).rglob("*.py")):
                name = path.relative_to(self.unchanged)
                if (self.place / name).read_bytes() != path.read_bytes():
                    self._write(str(name), path.read_text(encoding="utf-8"))

    def _write(self, path: str, text: str) -> None:
        """Write a file such that no compiled form of another text is taken for it."""
        target = self.place / path
        target.write_text(text, encoding="utf-8")
        for compiled in target.parent.glob(f"__pycache__/{target.stem}.*.pyc"):
            compiled.unlink()

    def text(self, path: str) -> str:
        """Return a file of the unchanged tree."""
        return (self.unchanged / path).read_text(encoding="utf-8")

    def apply(self, mutant: Mutant) -> None:
        """Put a mutant into the copy."""
        self._write(mutant.path, mutant.applied(self.text(mutant.path)))

    def restore(self, mutant: Mutant) -> None:
        """Take a mutant out of the copy."""
        self._write(mutant.path, self.text(mutant.path))

    def run(
        self, arguments: list[str], seconds: float, given: str | None = None
    ) -> tuple[int | None, str]:
        """Run Python in the copy; return its exit code (None: it took too long) and its output."""
        environment = {**os.environ, "PYTHONPATH": str(self.place), "TILESMITH_CACHE": "0"}
        process = subprocess.Popen(
            [self.settings.python, *arguments], cwd=self.place, env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        try:
            output, _ = process.communicate(given, timeout=seconds)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)  # with the workers that it has started
            output, _ = process.communicate()
            return None, output


class Stages:
    """The steps for each mutant: probe, tests, fuzzing. Tests of this script replace them."""

    def __init__(self, settings: Settings, tree: Tree) -> None:
        self.settings, self.tree = settings, tree
        self.lines: dict[str, set[int]] = {}
        self.digests: list[str] = []

    def prepare(self) -> None:
        """Look at what the unchanged tree does: the digests of the probe, and which lines run."""
        kept = self.settings.output / "probe.json"
        if not kept.exists():
            lines = self.settings.output / "lines.json"
            programs = ["--programs", str(self.settings.probe_programs)]
            seconds = self.settings.probe_seconds
            script = ["tools/mutation_probe.py", *programs]
            code, output = self.tree.run(script, seconds)
            traced, _ = self.tree.run([*script, "--lines", str(lines.resolve())], 10 * seconds)
            if code != 0 or traced != 0:
                raise SystemExit(f"the probe fails without a mutant:\n{output[-2000:]}")
            found = {"digests": output.split(), "lines": json.loads(lines.read_text())}
            kept.write_text(json.dumps(found))
        known = json.loads(kept.read_text())
        self.digests = known["digests"]
        self.lines = {path: set(lines) for path, lines in known["lines"].items()}

    def is_reached(self, mutant: Mutant) -> bool:
        """Return whether a program of the probe runs the mutant's line."""
        end = mutant.line + mutant.before.count("\n")
        return not self.lines.get(mutant.path, set()).isdisjoint(range(mutant.line, end + 1))

    def probe(self, mutant: Mutant) -> str:
        """Return "counts" if the mutant changes what becomes of a program of the probe."""
        script = ["tools/mutation_probe.py", "--programs", str(len(self.digests))]
        code, output = self.tree.run(script, self.settings.probe_seconds)
        if code is not None and code != 0:
            return "breaks the import"
        return "no change" if output.split() == self.digests else "counts"

    def tests(self, mutant: Mutant) -> str:
        """Return which tests notice the mutant, or "survived"."""
        for places in nearest_tests(self.tree.place, mutant.path):
            failed = self._failed(places)
            while failed and self._fails_anyway(mutant, failed):
                failed = self._failed(places)
            if failed:
                return failed
        return "survived"

    def _failed(self, places: list[str]) -> str:
        """Return the first test that fails now, of those that pass without a mutant; or ""."""
        arguments = ["-m", "pytest", "-q", "-x", "--no-header", "-p", "no:cacheprovider"]
        arguments += ["-n", self.settings.workers] if self.settings.workers != "1" else []
        arguments += [f"--deselect={name}" for name in self.failing()]
        code, output = self.tree.run([*arguments, *places], self.settings.test_seconds)
        if code in (0, 5):  # passed, or nothing to run
            return ""
        if code is None:
            return f"time limit in {places[0]}"
        found = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", output, re.MULTILINE)
        return found[1] if found else f"{places[0]} cannot run"

    def _fails_anyway(self, mutant: Mutant, failed: str) -> bool:
        """Return whether a test fails without the mutant too; it is left out from then on."""
        if failed.startswith("time limit") or failed in self.failing():
            return False
        self.tree.restore(mutant)
        again = self._failed([failed])
        self.tree.apply(mutant)
        if again:
            listed = self.settings.output / "failing.json"
            listed.write_text(json.dumps([*self.failing(), failed], indent=1))
        return bool(again)

    def failing(self) -> list[str]:
        """Return the tests that fail without a mutant, as far as they were seen."""
        listed = self.settings.output / "failing.json"
        return json.loads(listed.read_text()) if listed.exists() else []

    def fuzzing(self, mutant: Mutant, record: Record) -> str:
        """Return what the fuzzer finds that the unchanged tree does not have, or "survived"."""
        left, seed = self.settings.fuzz_seconds, self.settings.seed * 1_000_000
        while left > 1:
            code, output = self.tree.run(["-c", _FUZZ, str(left), str(seed)], 2 * left + 120)
            if code != 0:
                return "the fuzzer fails" if code is not None else "the fuzzer does not end"
            made = json.loads(output.splitlines()[-1])
            left -= made["seconds"]
            seed += made["programs"]
            record.programs += made["programs"]
            for signature, case in made["found"]:
                self.tree.restore(mutant)
                _, again = self.tree.run(["-c", _AGAIN], 120, json.dumps(case))
                self.tree.apply(mutant)
                if again.splitlines()[-1:] != [json.dumps(signature)]:
                    return str(signature)
        return "survived"


def nearest_tests(place: Path, path: str) -> Iterator[list[str]]:
    """Yield groups of tests for a file of the package, the nearest first."""
    parts = Path(path).with_suffix("").parts[1:]
    name, folders = parts[-1].strip("_"), list(parts[:-1])
    seen: set[Path] = set()
    for count in range(len(folders), 0, -1):
        folder = place / "tests" / Path(*folders[:count])
        near = [one for one in sorted(folder.glob(f"test_*{name}*.py")) if one not in seen]
        if near:
            seen.update(near)
            yield [str(one.relative_to(place)) for one in near]
    for count in range(len(folders), 0, -1):
        folder = place / "tests" / Path(*folders[:count])
        if folder.is_dir():
            yield [str(folder.relative_to(place))]


def chosen(settings: Settings, root: Path) -> Iterator[Mutant]:
    """Yield all mutants of the packages in the random order of the seed."""
    every: list[Mutant] = []
    for package in settings.packages:
        for path in sorted((root / package).rglob("*.py")):
            name = str(path.relative_to(root))
            every += mutants_of(name, path.read_text(encoding="utf-8"))
    random.Random(settings.seed).shuffle(every)
    yield from every


def examine(mutant: Mutant, stages: Any, tree: Any) -> Record:
    """Return what becomes of one mutant."""
    record = Record(asdict(mutant), mutant.name)
    if not compiles(mutant, tree.text(mutant.path)) or not stages.is_reached(mutant):
        record.status = "not reached"
        return record

    def timed(name: str, step: Callable[[], str]) -> str:
        start = time.monotonic()
        made = step()
        record.seconds[name] = round(time.monotonic() - start, 1)
        return made

    tree.apply(mutant)
    try:
        record.status = timed("probe", lambda: stages.probe(mutant))
        if record.status == "counts":
            record.tests = timed("tests", lambda: stages.tests(mutant))
            record.fuzzing = timed("fuzzing", lambda: stages.fuzzing(mutant, record))
    finally:
        tree.restore(mutant)
    return record


def run(settings: Settings, stages: Any, tree: Any, say: Callable[[str], None] = print) -> None:
    """Examine mutants until ``count`` of them count; records that exist are taken as they are."""
    folder = settings.output / "records"
    folder.mkdir(parents=True, exist_ok=True)
    stages.prepare()
    counted = 0
    for mutant in chosen(settings, tree.unchanged):
        if counted >= settings.count:
            break
        kept = folder / f"{mutant.name}.json"
        if kept.exists():
            record = Record(**json.loads(kept.read_text()))
        else:
            record = examine(mutant, stages, tree)
            if record.status != "not reached":
                kept.write_text(json.dumps(asdict(record), indent=1))
        if record.status != "counts":
            continue
        counted += 1
        say(f"{counted}/{settings.count} {mutant.path}:{mutant.line} {mutant.kind}: "
            f"tests: {record.tests[:60]}; fuzzing: {record.fuzzing[:60]}")  # fmt: skip


def report(output: Path, verdicts: dict[str, str]) -> dict[str, Any]:
    """Write and return the table of all records of a folder."""
    records = [json.loads(one.read_text()) for one in sorted((output / "records").glob("*.json"))]
    counts = [one for one in records if one["status"] == "counts"]
    effective = [one for one in counts if one["name"] not in verdicts]
    by_tests = [one for one in effective if one["tests"] != "survived"]
    by_fuzzing = [one for one in effective if one["fuzzing"] != "survived"]
    survivors = [one for one in effective if one not in by_tests or one not in by_fuzzing]
    made = {
        "examined": len(records),
        "without effect": sum(one["status"] == "no change" for one in records),
        "equivalent by verdict": len(counts) - len(effective),
        "counted": len(effective),
        "found by tests": len(by_tests),
        "found by fuzzing": len(by_fuzzing),
        "survivors": survivors,
    }
    (output / "report.json").write_text(json.dumps(made, indent=1))
    lines = [
        f"{made['examined']} mutants ran, {made['without effect']} without effect on the probe, "
        f"{made['equivalent by verdict']} equivalent by verdict. Of {made['counted']} that count, "
        f"tests find {made['found by tests']}, fuzzing finds {made['found by fuzzing']}.",
        "",
        "| mutant | place | change | tests | fuzzing |",
        "|---|---|---|---|---|",
    ]
    for one in survivors:
        what = one["mutant"]
        change = f"{what['kind']}: `{_short(what['before'])}` → `{_short(what['after'])}`"
        place = f"{what['path']}:{what['line']}"
        cells = (one["name"], place, change, _short(one["tests"]), _short(one["fuzzing"]))
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    (output / "report.md").write_text("\n".join(lines) + "\n")
    return made


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 80 else flat[:77] + "..."


def main() -> None:
    """Read the options, run, write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--count", type=int, default=20, help="how many mutants that count")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("build/mutation"))
    parser.add_argument("--package", action="append", help="a folder to break, again for more")
    parser.add_argument("--probe-programs", type=int, default=40)
    parser.add_argument("--probe-seconds", type=float, default=600)
    parser.add_argument("--test-seconds", type=float, default=600)
    parser.add_argument("--fuzz-seconds", type=float, default=600)
    parser.add_argument("--workers", default="1", help="processes of pytest")
    parser.add_argument("--verdicts", type=Path, help="JSON: survivors that change no result, why")
    parser.add_argument("--report-only", action="store_true")
    given = parser.parse_args()
    settings = Settings(
        Path(__file__).resolve().parents[1], given.output.resolve(),
        tuple(given.package or PACKAGES), given.count, given.seed, given.probe_programs,
        given.probe_seconds, given.test_seconds, given.fuzz_seconds, given.workers,
    )  # fmt: skip
    settings.output.mkdir(parents=True, exist_ok=True)
    if not given.report_only:
        tree = Tree(settings)
        run(settings, Stages(settings, tree), tree)
    verdicts = json.loads(given.verdicts.read_text()) if given.verdicts else {}
    report(settings.output, verdicts)
    print((settings.output / "report.md").read_text())


if __name__ == "__main__":
    main()

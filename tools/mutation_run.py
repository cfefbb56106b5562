"""Measures tests and fuzzing: breaks the compiler in many small ways, and counts who notices.

    python tools/mutation_run.py --count 200 --seed 1 --fuzz-seconds 600 --output build/mutation

A mutant is one small change of one file (``mutants.py``). It is applied to a copy of the tree,
never to the tree itself. Then, in this order:

1. *Does it count?* Only a mutant that some program of the probe runs, and which changes what the
   compiler makes of at least one of these programs (``mutation_probe.py``: any text on the way to
   code, or a refusal). Others are left out as "not reached" or "no change".
2. *Tests*: those named like the file, then those of its folder, then of its package, within a limit
   of time; the first failure ends it. Only tests that reach the mutant's block of statements run
   (``mutation_reach.py``, ``mutation_tests.py``): others cannot notice it.
3. *Fuzzing*, up to the first finding that the unchanged tree does not have: the programs that one
   core runs in ``--fuzz-seconds`` without a mutant (processor time, with the little that recording
   costs). Of these, too, only those run that reach the mutant's block. A mutant that survived a
   shorter time in an earlier run is fuzzed for the rest.

Which programs and tests reach what is recorded before the first mutant; a stopped run goes on there
as well.

What counts and is not noticed is a *survivor*. Some survivors change only how fast or long code is,
never a result: who reads one says so in ``--verdicts`` (a JSON file: name of the mutant → reason),
and it no longer counts. Each mutant's record is a file of its own, so that a run that was stopped
goes on where it was; ``report.md`` and ``report.json`` sum up all records. Tests that fail without
the mutant, too, do not count; ``failing.json`` in the output folder names them.
"""

from __future__ import annotations

import argparse
import json
import queue
import random
import re
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from mutants import Mutant, compiles, mutants_of
from mutation_records import Reach, files_of, nearest_tests, recorded
from mutation_tree import PACKAGES, TOOLS, Settings, Tree

_FUZZ = """
import json, sys, time
from tilesmith.testing.fuzz.isolated import IsolatedRunner
given = json.load(sys.stdin)
end, runner, found, programs = time.monotonic() + given["seconds"], IsolatedRunner(), None, 0
for seed in given["seeds"]:
    if time.monotonic() > end:
        break
    programs += 1
    found = runner.run_seed(seed, None)["finding"]
    if found is not None and found["signature"] != given["known"].get(str(seed)):
        break
    found = None
runner.close()
print(json.dumps({"programs": programs, "found": found and [found["signature"], found["case"]]}))
"""
_AGAIN = """
import json, sys
from tilesmith.testing.fuzz.isolated import IsolatedRunner
runner = IsolatedRunner()
found = runner.run(json.load(sys.stdin))["finding"]
runner.close()
print(json.dumps(None if found is None else found["signature"]))
"""
_FIRST_FILES = 2
"""How many files of tests run first."""
_LISTING = threading.Lock()
_PATIENCE = 5
"""How many times longer fuzzing may take than without a mutant, on a busy machine."""
_FILES = 6
"""How many files of tests one process records."""


@dataclass
class Record:
    """What became of one mutant."""

    mutant: dict[str, Any]
    name: str
    status: str = ""  # "not reached", "no change", "counts", "breaks the import"
    tests: str = ""  # which tests noticed, "survived", or "" where they did not run
    fuzzing: str = ""  # the signature, "survived", or ""
    programs: int = 0  # those that fuzzing ran
    fuzz_seconds: float = 0.0  # the time whose programs it did not notice
    seconds: dict[str, float] = field(default_factory=dict)


class Stages:
    """The steps for each mutant: probe, tests, fuzzing. Tests of this script replace them."""

    def __init__(self, settings: Settings, tree: Tree, reach: Reach) -> None:
        self.settings, self.tree, self.reach = settings, tree, reach

    def block(self, mutant: Mutant) -> int:
        """Return the number of the block that a mutant changes."""
        return self.reach.blocks.at(mutant.path, mutant.line)

    def is_reached(self, mutant: Mutant) -> bool:
        """Return whether a program of the probe runs the mutant's block."""
        return bool(self.reach.of_probe(self.block(mutant)))

    def probe(self, mutant: Mutant) -> str:
        """Return "counts" if the mutant changes what becomes of a program of the probe."""
        expected = self.reach.of_probe(self.block(mutant))
        given = self.tree.place / "expected.json"
        given.write_text(json.dumps(expected))
        script = [str(TOOLS / "mutation_probe.py"), "--expected", str(given)]
        code, output = self.tree.run(script, self.settings.probe_seconds)
        if code is not None and code != 0:
            return "breaks the import"
        return "no change" if output.split() == list(expected.values()) else "counts"

    def tests(self, mutant: Mutant) -> str:
        """Return which tests notice the mutant, or "survived"."""
        places: list[str] = []
        for group in nearest_tests(self.tree.place, mutant.path):
            files = files_of(self.tree.place, group)
            places += [name for name in files if name not in places]
        wanted = self.reach.of_tests(self.block(mutant), places)
        inside = {name.partition("::")[0] for name in wanted}
        places = [name for name in places if name in inside]
        count = _FIRST_FILES
        while places:  # more and more at once: starting takes long, and so does importing tests
            now, places, count = places[:count], places[count:], 4 * count
            here = [name for name in wanted if name.partition("::")[0] in now]
            while failed := self._failed(now, here):
                if not self._fails_anyway(mutant, failed):
                    return failed
        return "survived"

    def _failed(self, places: list[str], wanted: list[str]) -> str:
        """Return the first test that fails now, of those that pass without a mutant; or ""."""
        left = set(wanted).difference(self.failing())
        if not left:
            return ""
        listed = self.tree.place / "wanted.json"
        listed.write_text(json.dumps(sorted(left)))
        arguments = ["-m", "pytest", "-q", "-x", "--no-header", "-p", "no:cacheprovider"]
        arguments += ["-n", self.settings.workers] if self.settings.workers != "1" else []
        arguments += ["-p", "mutation_tests", "--only-tests", str(listed)]
        code, output = self.tree.run([*arguments, *places], self.settings.test_seconds)
        if code in (0, 5):  # passed, or nothing to run
            return ""
        if code is None:
            return f"time limit in {places[0]}"
        found = re.search(r"^(?:FAILED|ERROR) (.*)$", output, re.MULTILINE)
        if found is None:
            return f"{places[0]} cannot run"
        named = [name for name in left if found[1].startswith(name)]
        return max(named, key=len) if named else found[1]

    def _fails_anyway(self, mutant: Mutant, failed: str) -> bool:
        """Return whether a test fails without the mutant too; it is left out from then on."""
        if failed not in self.reach.tests or failed in self.failing():
            return False
        self.tree.restore(mutant)
        again = self._failed([failed.partition("::")[0]], [failed])
        self.tree.apply(mutant)
        if again:
            with _LISTING:
                listed = self.settings.output / "failing.json"
                listed.write_text(json.dumps([*self.failing(), failed], indent=1))
        return bool(again)

    def failing(self) -> list[str]:
        """Return the tests that fail without a mutant, as far as they were seen."""
        listed = self.settings.output / "failing.json"
        return json.loads(listed.read_text()) if listed.exists() else []

    def fuzzing(self, mutant: Mutant, record: Record) -> str:
        """Return what the fuzzer finds that the unchanged tree does not have, or "survived"."""
        start, limit = time.monotonic(), _PATIENCE * self.settings.fuzz_seconds
        known = {str(line["seed"]): line["finding"] for line in self.reach.fuzzing}
        until = self.settings.fuzz_seconds
        seeds = self.reach.seeds(self.block(mutant), until, record.fuzz_seconds)
        while seeds and (left := limit - (time.monotonic() - start)) > 1:
            given = json.dumps({"seeds": seeds, "known": known, "seconds": left})
            code, output = self.tree.run(["-c", _FUZZ], 2 * left + 300, given)
            if code != 0:
                return "the fuzzer fails" if code is not None else "the fuzzer does not end"
            made = json.loads(output.splitlines()[-1])
            record.programs += made["programs"]
            if made["found"] is None:
                break
            signature, case = made["found"]
            self.tree.restore(mutant)
            _, again = self.tree.run(["-c", _AGAIN], 300, json.dumps(case))
            self.tree.apply(mutant)
            if again.splitlines()[-1:] != [json.dumps(signature)]:
                return str(signature)
            seeds = seeds[made["programs"] :]
        record.fuzz_seconds = until
        return "survived"


def chosen(settings: Settings, root: Path) -> Iterator[Mutant]:
    """Yield all mutants of the packages in the random order of the seed."""
    every: list[Mutant] = []
    for package in settings.packages:
        for path in sorted((root / package).rglob("*.py")):
            name = str(path.relative_to(root))
            every += mutants_of(name, path.read_text(encoding="utf-8"))
    random.Random(settings.seed).shuffle(every)
    yield from every


def examine(mutant: Mutant, stages: Any, record: Record | None = None) -> Record:
    """Return what becomes of one mutant; of one with a record, what further fuzzing finds."""
    is_new, tree = record is None, stages.tree
    record = record or Record(asdict(mutant), mutant.name)
    if is_new and not (compiles(mutant, tree.text(mutant.path)) and stages.is_reached(mutant)):
        record.status = "not reached"
        return record

    def timed(name: str, step: Callable[[], str]) -> str:
        start = time.monotonic()
        made = step()
        record.seconds[name] = round(time.monotonic() - start, 1)
        return made

    tree.apply(mutant)
    try:
        if is_new:
            record.status = timed("probe", lambda: stages.probe(mutant))
            if record.status == "counts":
                record.tests = timed("tests", lambda: stages.tests(mutant))
        if record.status == "counts":
            record.fuzzing = timed("fuzzing", lambda: stages.fuzzing(mutant, record))
    finally:
        tree.restore(mutant)
    return record


def run(
    settings: Settings,
    stages: Sequence[Any],
    say: Callable[[str], None] = print,
    verdicts: Collection[str] = (),
) -> None:
    """Examine mutants until ``count`` of them count, as many at once as there are stages; records
    that exist are taken as they are, but who survived a shorter time is fuzzed for the rest, unless
    there is a verdict.
    """
    folder = settings.output / "records"
    folder.mkdir(parents=True, exist_ok=True)
    idle: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for one in stages:
        idle.put(one)

    def look(mutant: Mutant) -> Record:
        kept = folder / f"{mutant.name}.json"
        known = Record(**json.loads(kept.read_text())) if kept.exists() else None
        if known is not None and (
            known.fuzzing != "survived"
            or known.fuzz_seconds >= settings.fuzz_seconds
            or mutant.name in verdicts
        ):
            return known
        mine = idle.get()
        try:
            record = examine(mutant, mine, known)
        finally:
            idle.put(mine)
        if record.status != "not reached":
            kept.write_text(json.dumps(asdict(record), indent=1))
        return record

    pending: deque[Future[Record]] = deque()
    counted = 0
    with ThreadPoolExecutor(len(stages)) as pool:
        try:
            for mutant in chosen(settings, stages[0].tree.unchanged):
                pending.append(pool.submit(look, mutant))
                while pending and (pending[0].done() or len(pending) >= _AHEAD * len(stages)):
                    counted += _told(pending.popleft().result(), counted, settings.count, say)
                if counted >= settings.count:
                    break
            while pending and counted < settings.count:  # there are no more mutants
                counted += _told(pending.popleft().result(), counted, settings.count, say)
            for future in pending:
                future.cancel()
        except BaseException:
            for one in stages:
                one.tree.stop()
            for future in pending:
                future.cancel()
            raise


_AHEAD = 5
"""How many mutants a process may be ahead of the first that is not examined."""


def _told(record: Record, before: int, count: int, say: Callable[[str], None]) -> bool:
    """Say what became of a mutant; return whether it counts."""
    if record.status != "counts":
        return False
    mutant = record.mutant
    say(f"{before + 1}/{count} {mutant['path']}:{mutant['line']} {mutant['kind']}: "
        f"tests: {record.tests[:60]}; fuzzing: {record.fuzzing[:60]}")  # fmt: skip
    return True


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
    parser.add_argument("--processes", type=int, default=1, help="mutants examined at once")
    parser.add_argument("--verdicts", type=Path, help="JSON: survivors that change no result, why")
    parser.add_argument("--report-only", action="store_true")
    given = parser.parse_args()
    settings = Settings(
        Path(__file__).resolve().parents[1], given.output.resolve(),
        tuple(given.package or PACKAGES), given.count, given.seed, given.probe_programs,
        given.probe_seconds, given.test_seconds, given.fuzz_seconds, given.workers, given.processes,
    )  # fmt: skip
    settings.output.mkdir(parents=True, exist_ok=True)
    verdicts = json.loads(given.verdicts.read_text()) if given.verdicts else {}
    if not given.report_only:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
        trees = [Tree(settings, number) for number in range(settings.processes)]
        reach = recorded(settings, trees)
        run(settings, [Stages(settings, tree, reach) for tree in trees], print, verdicts)
    report(settings.output, verdicts)
    print((settings.output / "report.md").read_text())


if __name__ == "__main__":
    main()

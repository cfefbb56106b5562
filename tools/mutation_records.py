"""Records, before a mutation run, what the programs of probe and fuzzer and the tests reach."""

from __future__ import annotations

import json
import queue
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from mutation_reach import Blocks
from mutation_tree import TOOLS, Settings, Tree

__all__ = ["Reach", "files_of", "nearest_tests", "recorded"]

_PIECE = 100
"""How many programs one process records."""
_FILES = 6
"""How many files of tests one process records."""


@dataclass
class Reach:
    """Which blocks the programs of the probe and of the fuzzer reach without a mutant."""

    blocks: Blocks
    digests: list[str]
    probe: list[int]
    """The blocks of each program, as bits of a number."""
    fuzzing: list[dict[str, Any]]
    tests: dict[str, int]

    def of_tests(self, block: int, places: list[str]) -> list[str]:
        """Return the tests of some files that reach a block."""
        return [
            name
            for name, bits in self.tests.items()
            if bits >> block & 1 and name.partition("::")[0] in places
        ]

    def of_probe(self, block: int) -> dict[str, str]:
        """Return the programs of the probe that reach a block, with their digests."""
        pairs = zip(self.digests, self.probe, strict=True)
        return {str(n): digest for n, (digest, bits) in enumerate(pairs) if bits >> block & 1}

    def seeds(self, block: int, seconds: float, after: float = 0.0) -> list[int]:
        """Return the seeds that reach a block, of those that fuzzing comes to between two times."""
        made, end = [], 0.0
        for one in self.fuzzing:
            end += one["seconds"]
            if after < end <= seconds and one["reached"] >> block & 1:
                made.append(one["seed"])
        return made


def recorded(settings: Settings, trees: Sequence[Tree]) -> Reach:
    """Return what the unchanged tree does; it is recorded unless a run before has done so."""
    packages = [word for package in settings.packages for word in ("--package", package)]
    kept = settings.output / "probe.json"
    if not kept.exists():
        script = [str(TOOLS / "mutation_probe.py"), "--programs", str(settings.probe_programs)]
        code, output = trees[0].run(script, settings.probe_seconds)
        lists = settings.output / "probe-reach.json"
        reaching = [*script, *packages, "--reach", str(lists)]
        again, same = trees[0].run(reaching, 10 * settings.probe_seconds)
        if code != 0 or again != 0 or same != output:
            raise SystemExit(f"the probe fails without a mutant:\n{output[-2000:]}\n{same[-2000:]}")
        kept.write_text(
            json.dumps({"digests": output.split(), "reached": json.loads(lists.read_text())})
        )
    probe = json.loads(kept.read_text())
    blocks = Blocks(trees[0].unchanged, settings.packages)
    bits = [int(text, 16) for text in probe["reached"]]
    fuzzing = recorded_fuzzing(settings, trees, packages)
    return Reach(blocks, probe["digests"], bits, fuzzing, recorded_tests(settings, trees))


def recorded_fuzzing(
    settings: Settings, trees: Sequence[Tree], packages: list[str]
) -> list[dict[str, Any]]:
    """Return what each of the fuzzer's programs reaches, for at least ``fuzz_seconds``."""
    folder = settings.output / "reach"
    folder.mkdir(exist_ok=True)
    lines: list[dict[str, Any]] = []
    pieces = 0

    def piece(tree: Tree, number: int) -> list[dict[str, Any]]:
        return _piece(folder, tree, number, packages)

    with ThreadPoolExecutor(len(trees)) as pool:
        while sum(line["seconds"] for line in lines) < settings.fuzz_seconds:
            for made in pool.map(piece, trees, range(pieces, pieces + len(trees))):
                lines += made
            pieces += len(trees)
    return lines


def recorded_tests(settings: Settings, trees: Sequence[Tree]) -> dict[str, int]:
    """Return which blocks each test of the packages reaches."""
    folder = settings.output / "reach-tests"
    folder.mkdir(exist_ok=True)
    files: list[str] = []
    for package in settings.packages:
        for group in nearest_tests(trees[0].place, f"{package}/any.py"):
            files += [name for name in files_of(trees[0].place, group) if name not in files]
    pieces = [files[start : start + _FILES] for start in range(0, len(files), _FILES)]
    idle: queue.SimpleQueue[Tree] = queue.SimpleQueue()
    for tree in trees:
        idle.put(tree)

    def one(number: int) -> None:
        kept, growing = folder / f"{number:04}.jsonl", folder / f"{number:04}.part"
        if kept.exists():
            return
        tree = idle.get()
        try:
            growing.write_text("")
            asked = {"packages": settings.packages, "output": str(growing.resolve())}
            words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "mutation_tests"]
            more = {"TILESMITH_REACH": json.dumps(asked)}
            limit = 10 * settings.test_seconds
            code, output = tree.run([*words, *pieces[number]], limit, more=more)
            if code not in (0, 1, 5):
                raise SystemExit(f"tests cannot be recorded:\n{output[-2000:]}")
            growing.rename(kept)
        finally:
            idle.put(tree)

    with ThreadPoolExecutor(len(trees)) as pool:
        list(pool.map(one, range(len(pieces))))
    made: dict[str, int] = {}
    for number in range(len(pieces)):
        for text in (folder / f"{number:04}.jsonl").read_text().splitlines():
            line = json.loads(text)
            made[line["test"]] = -1 if line["reached"] is None else int(line["reached"], 16)
    return made


def files_of(root: Path, places: list[str]) -> list[str]:
    """Return the files of tests among some files and in some folders."""
    made = []
    for place in [root / name for name in places]:
        made += sorted(place.rglob("test_*.py")) if place.is_dir() else [place]
    return [str(one.relative_to(root)) for one in made]


def _piece(folder: Path, tree: Tree, number: int, packages: list[str]) -> list[dict[str, Any]]:
    """Return the recorded lines of a piece of the fuzzer's programs."""
    kept, growing = folder / f"{number:04}.jsonl", folder / f"{number:04}.jsonl.part"
    first = tree.settings.seed * 1_000_000 + number * _PIECE
    while not kept.exists():
        done = len(growing.read_text().splitlines()) if growing.exists() else 0
        if done == _PIECE:
            growing.rename(kept)
            break
        words = ["--first", str(first + done), "--count", str(_PIECE - done)]
        script = [str(TOOLS / "mutation_reach.py"), *packages, *words, "--output", str(growing)]
        code, output = tree.run(script, 100 + 20 * _PIECE)
        if code != 0:  # a program that ends the process: taken to reach everything
            now = len(growing.read_text().splitlines()) if growing.exists() else 0
            if now == done == 0:
                raise SystemExit(f"the fuzzer's programs cannot be recorded:\n{output[-2000:]}")
            line = {"seed": first + now, "seconds": 60, "finding": None, "reached": None}
            with growing.open("a") as file:
                file.write(json.dumps(line) + "\n")
    lines = [json.loads(line) for line in kept.read_text().splitlines()]
    for line in lines:
        line["reached"] = -1 if line["reached"] is None else int(line["reached"], 16)
    return lines


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

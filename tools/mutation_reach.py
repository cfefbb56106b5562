"""Records which pieces of the compiler a program runs: only those programs can notice a mutant.

    python tools/mutation_reach.py --package tilesmith/te --first 5000000 --count 50 --output FILE

runs programs of the fuzzer and writes a line of JSON for each: its seed, the processor time that it
took, the signature of what is found already without a mutant, and the blocks that ran.

A block is a run of statements of a function that are executed one after another: it ends where a
branch or a loop has its own statements, and after a statement that may leave the function or loop.
The sources are changed while they are imported, so that each block sets a byte; that is exact, and
much quicker than tracing lines. Block 0 is everything outside of functions, which always runs.
"""

from __future__ import annotations

import argparse
import ast
import importlib.abc
import importlib.machinery
import json
import resource
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Blocks", "Instrument", "block_lines"]

_NAME = "__tilesmith_blocks__"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_EXITS = (ast.Return, ast.Break, ast.Continue, ast.Raise)


def _leaves(statement: ast.stmt) -> bool:
    """Return whether a statement holds another one that may end the block around it."""
    if isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
        return False
    return any(
        isinstance(part, _EXITS) or (isinstance(part, ast.stmt) and _leaves(part))
        for part in _parts(statement)
    )


def _parts(statement: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements directly inside a statement, also those of handlers and cases."""
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.stmt):
            yield child
        elif isinstance(child, (ast.ExceptHandler, ast.match_case)):
            yield from _parts(child)


def _lists(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield the lists of statements directly inside a node."""
    for name in ("body", "orelse", "finalbody"):
        inside = getattr(node, name, None)
        if isinstance(inside, list) and inside:
            yield inside
    for child in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield child.body


class _Marker:
    """Finds the blocks of a file and, where asked, puts a mark at the start of each."""

    def __init__(self, first: int, marks: bool) -> None:
        self.first, self.marks = first, marks
        self.blocks: list[tuple[int, int]] = []

    def outside(self, node: ast.AST) -> None:
        """Look for functions in a module or class, or in a function's nested parts."""
        for statement in [part for part in _parts(node) if isinstance(part, ast.stmt)]:
            if isinstance(statement, _FUNCTIONS):
                self.statements(statement.body, statement.lineno)
            else:
                self.outside(statement)

    def statements(self, body: list[ast.stmt], header: int) -> None:
        """Mark the blocks of a list of statements of a function."""
        made: list[ast.stmt] = []
        starts = body[0].lineno > header  # else it is on the header's line: part of its block
        for number, statement in enumerate(body):
            is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            if starts and not (is_text and number == 0):
                made.append(self.mark(statement, body[-1]))
                starts = False
            made.append(statement)
            starts = starts or (number + 1 < len(body) and _leaves(statement))
            self.inside(statement)
        if self.marks:
            body[:] = made

    def inside(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.ClassDef):
            self.outside(statement)
            return
        for inner in _lists(statement):
            self.statements(inner, statement.lineno)

    def mark(self, statement: ast.stmt, last: ast.stmt) -> ast.stmt:
        number = self.first + len(self.blocks)
        self.blocks.append((statement.lineno, last.end_lineno or last.lineno))
        made = ast.parse(f"{_NAME}[{number}] = 1").body[0]
        for node in ast.walk(made):
            ast.copy_location(node, statement)
        return made


def block_lines(text: str) -> list[tuple[int, int]]:
    """Return the first and the last line of the blocks of a file. A block may lie inside another:
    a line belongs to the one that begins last.
    """
    marker = _Marker(0, marks=False)
    marker.outside(ast.parse(text))
    return marker.blocks


class Blocks:
    """The numbers of all blocks of some packages under ``root``."""

    def __init__(self, root: Path, packages: Sequence[str]) -> None:
        self.first: dict[str, int] = {}
        self.lines: dict[str, list[tuple[int, int]]] = {}
        self.count = 1
        for package in packages:
            for path in sorted((root / package).rglob("*.py")):
                name = str(path.relative_to(root))
                if name in self.first:
                    continue
                self.first[name] = self.count
                self.lines[name] = block_lines(path.read_text(encoding="utf-8"))
                self.count += len(self.lines[name])

    def at(self, path: str, line: int) -> int:
        """Return the number of the block that a line belongs to."""
        around = [
            (first, -last, number)
            for number, (first, last) in enumerate(self.lines[path])
            if first <= line <= last
        ]
        return self.first[path] + max(around)[2] if around else 0


@dataclass
class Instrument(importlib.abc.MetaPathFinder):
    """Imports the packages such that their blocks say that they ran."""

    root: Path
    blocks: Blocks

    def __post_init__(self) -> None:
        self.hits = bytearray(self.blocks.count)
        self.hits[0] = 1

    def install(self) -> None:
        """Instrument what is imported from now on."""
        import builtins

        setattr(builtins, _NAME, self.hits)
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        """Return the usual place of a module, with a loader that marks blocks."""
        if not name.startswith("tilesmith."):
            return None
        found = importlib.machinery.PathFinder.find_spec(name, path)
        if found is None or found.origin is None:
            return found
        place = Path(found.origin)
        inside = place.is_relative_to(self.root) and str(place.relative_to(self.root))
        if inside and inside in self.blocks.first:
            found.loader = _Loader(name, str(place), self.blocks.first[inside])
        return found

    def reached(self) -> str:
        """Return which blocks ran, as the hexadecimal digits of a number with a bit for each."""
        digits = bytes(self.hits[::-1]).translate(bytes.maketrans(b"\0\1", b"01"))
        return f"{int(digits, 2):x}"


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, first: int) -> None:
        super().__init__(name, path)
        self.first_block = first

    def get_code(self, fullname: str) -> Any:
        """Compile the marked text; no compiled form of it is kept."""
        text = Path(self.path).read_text(encoding="utf-8")
        tree = ast.parse(text)
        _Marker(self.first_block, marks=True).outside(tree)
        return compile(tree, self.path, "exec", dont_inherit=True)


def processor_seconds() -> float:
    """Return the processor time of this process and of those it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def record(instrument: Instrument, seeds: range, output: Path) -> None:
    """Run programs of the fuzzer, and append what each reached to a file."""
    from tilesmith.support.errors import TilesmithError
    from tilesmith.testing.fuzz import intrinsics, worker

    intrinsics.register()
    before = bytes(instrument.hits)  # what importing runs is run in front of every program
    with output.open("a") as file:
        for seed in seeds:
            instrument.hits[:] = before
            start = processor_seconds()
            try:
                result, _ = worker.handle({"seed": seed, "only": None}, [])
                found = result["finding"]
            except TilesmithError:
                found = None
            line = {
                "seed": seed, "seconds": round(processor_seconds() - start, 4),
                "finding": None if found is None else found["signature"],
                "reached": instrument.reached(),
            }  # fmt: skip
            file.write(json.dumps(line) + "\n")
            file.flush()


def main() -> None:
    """Read the options and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--package", action="append", required=True)
    parser.add_argument("--first", type=int, required=True, help="the first seed")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    root = Path.cwd()
    sys.path.insert(0, str(root))
    instrument = Instrument(root, Blocks(root, given.package))
    instrument.install()
    record(instrument, range(given.first, given.first + given.count), given.output)


if __name__ == "__main__":
    main()

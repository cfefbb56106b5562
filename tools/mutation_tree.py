"""Settings of a mutation run, and the copies of the tree that it breaks."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from mutants import Mutant

__all__ = ["PACKAGES", "TOOLS", "Settings", "Stopped", "Tree"]

PACKAGES = (
    "tilesmith/tir/schedule", "tilesmith/tir/transform", "tilesmith/arith", "tilesmith/codegen",
    "tilesmith/te",
)  # fmt: skip
TOOLS = Path(__file__).resolve().parent
COPIED = (
    "tilesmith", "tests", "tools", "examples", "benchmarks", "docs", "pyproject.toml",
    "CONTRIBUTING.md", "README.md",
)  # fmt: skip


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
    processes: int = 1
    python: str = sys.executable


class Stopped(Exception):
    """The run was stopped: nothing can be said about the mutant under way."""


class Tree:
    """A copy of the tree in which one mutant at a time is applied; a run may have several.

    A further copy, of the packages that are broken, stays as it is: a run measures the tree as it
    was when the run began, also if it is edited meanwhile.
    """

    def __init__(self, settings: Settings, number: int = 0) -> None:
        self.settings = settings
        self.place, self.unchanged = settings.output / "tree", settings.output / "unchanged"
        self._process: subprocess.Popen[str] | None = None
        self._lock, self._is_stopped = threading.Lock(), False
        origin = settings.tree
        if number:
            origin, self.place = self.place, settings.output / f"tree-{number}"
        for package in settings.packages:
            if not (self.unchanged / package).exists():
                shutil.copytree(settings.tree / package, self.unchanged / package)
        for name in COPIED:
            source, target = origin / name, self.place / name
            if target.exists():
                continue
            if source.is_dir():
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
        self,
        arguments: list[str],
        seconds: float,
        given: str | None = None,
        more: dict[str, str] | None = None,
    ) -> tuple[int | None, str]:
        """Run Python in the copy, with text as its input and more in its environment; return its
        exit code (None: it took too long) and its output.
        """
        path = os.pathsep.join([str(self.place), str(TOOLS)])
        environment = {**os.environ, "PYTHONPATH": path, "TILESMITH_CACHE": "0", **(more or {})}
        with self._lock:
            if self._is_stopped:
                raise Stopped
            process = self._process = subprocess.Popen(
                [self.settings.python, *arguments], cwd=self.place, env=environment, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        code: int | None = None
        try:
            output, _ = process.communicate(given, timeout=seconds)
            code = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # with the workers that it has started
            output, _ = process.communicate()
        with self._lock:
            self._process = None
            if self._is_stopped:
                raise Stopped
        return code, output

    def stop(self) -> None:
        """End what runs in the copy, from another thread; ``run`` then raises Stopped."""
        with self._lock:
            self._is_stopped = True
            if self._process is not None and self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)

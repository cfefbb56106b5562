"""A plugin of pytest for the mutation run: says which blocks each test reaches, or runs only some.

    TILESMITH_REACH='{"packages": ["tilesmith/te"], "output": "FILE"}' pytest -p mutation_tests …
    pytest -p mutation_tests --only-tests FILE …

The first form appends a line of JSON for each test to a file: its name, and the blocks that ran
(``mutation_reach.py``), or null for a test that starts Python processes, which are not looked into.
What runs while modules are imported counts for every test, what a fixture of a module or session
runs for all tests that ask for it. The second form runs the tests that a JSON list names.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from mutation_reach import Blocks, Instrument


class Recording:
    """Records what each test reaches."""

    def __init__(self, packages: list[str], output: Path) -> None:
        root = Path.cwd()
        self.instrument = Instrument(root, Blocks(root, packages))
        self.instrument.install()
        self.output = output
        self.before: int | None = None
        self.shared: dict[str, int] = {}
        self.starts_python = False
        sys.addaudithook(self.audit)

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Notice that a process begins that may run the packages."""
        if event == "subprocess.Popen":
            words = arguments[1] if isinstance(arguments[1], (list, tuple)) else [arguments[1]]
            names = [str(word) for word in words]
            is_compiler = any(name.endswith("machine_code.py") for name in names)
            if any("python" in name for name in names) and not is_compiler:
                self.starts_python = True
        elif event in ("os.fork", "os.posix_spawn", "os.exec"):
            self.starts_python = True

    def take(self) -> int:
        """Return which blocks ran since the last call."""
        reached = int(self.instrument.reached(), 16)
        self.instrument.hits[:] = bytes(len(self.instrument.hits))
        self.instrument.hits[0] = 1
        return reached

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Iterator[None]:
        """Keep what a fixture that several tests share runs."""
        if fixturedef.scope == "function":
            yield
            return
        own = self.take()
        yield
        inside = self.take()
        self.shared[fixturedef.argname] = self.shared.get(fixturedef.argname, 0) | inside
        self.instrument.hits[:] = _bytes(own | inside, len(self.instrument.hits))

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: Any, nextitem: Any) -> Iterator[None]:
        """Write what a test reaches."""
        if self.before is None:
            self.before = self.take()
        self.starts_python = False
        yield
        reached = self.take() | self.before
        for name in item.fixturenames:
            reached |= self.shared.get(name, 0)
        line = {"test": item.nodeid, "reached": None if self.starts_python else f"{reached:x}"}
        with self.output.open("a") as file:
            file.write(json.dumps(line) + "\n")


def _bytes(bits: int, count: int) -> bytes:
    """Return the bits of a number as bytes 0 and 1, the lowest first."""
    return f"{bits:0{count}b}".encode()[::-1].translate(bytes.maketrans(b"01", b"\0\1"))


def pytest_addoption(parser: Any) -> None:
    """Add the option."""
    parser.addoption("--only-tests", help="a JSON list of the tests to run")


def pytest_configure(config: Any) -> None:
    """Begin to record, where asked."""
    if RECORDING is not None:
        config.pluginmanager.register(RECORDING)


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Leave out the tests that were not asked for."""
    given = config.getoption("--only-tests")
    if given is not None:
        wanted = set(json.loads(Path(given).read_text()))
        config.hook.pytest_deselected(items=[one for one in items if one.nodeid not in wanted])
        items[:] = [one for one in items if one.nodeid in wanted]


def _recording() -> Recording | None:
    """Begin before anything is imported that is to be looked into."""
    asked = os.environ.pop("TILESMITH_REACH", None)
    if asked is None:
        return None
    given = json.loads(asked)
    return Recording(given["packages"], Path(given["output"]))


RECORDING = _recording()

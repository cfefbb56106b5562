"""Defines instruments: objects that observe the passes that run.

    with PassContext(instruments=[PassTimingInstrument(), PrintAfterAll()]):
        mod = seq(mod)

An instrument is a class with some of the methods of ``PassInstrument``; ``@pass_instrument`` turns
any class into one.
"""

from __future__ import annotations

import difflib
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tilesmith.ir.module import IRModule
from tilesmith.support.errors import TilesmithError, VerifyError
from tilesmith.support.registry import Registry

__all__ = [
    "DumpIR", "PassInstrument", "PassPrintingInstrument", "PassTimingInstrument", "PrintAfterAll",
    "PrintBeforeAll", "PrintChanged", "Verify", "instruments_of_thread", "pass_instrument",
    "register_module_check", "watched",
]  # fmt: skip


class PassInstrument:
    """Base of instruments; each method may be overridden, none has to be."""

    def enter_pass_ctx(self) -> None:
        """Called when the context with this instrument is entered."""

    def exit_pass_ctx(self) -> None:
        """Called when the context with this instrument is left."""

    def should_run(self, mod: IRModule, info: Any) -> bool:
        """True if a pass may run; a pass that the context requires runs anyway."""
        return True

    def run_before_pass(self, mod: IRModule, info: Any) -> None:
        """Called before a pass runs."""

    def run_after_pass(self, mod: IRModule, info: Any) -> None:
        """Called after a pass has run; ``mod`` is its result."""


class _Watching(threading.local):
    instruments: tuple[PassInstrument, ...] = ()


_watching = _Watching()


def instruments_of_thread() -> tuple[PassInstrument, ...]:
    """Return the instruments of this thread besides those of the context."""
    return _watching.instruments


@contextmanager
def watched(instrument: PassInstrument) -> Iterator[None]:
    """Let an instrument observe the passes inside the ``with`` block, whatever the context says."""
    before = _watching.instruments
    _watching.instruments = (*before, instrument)
    try:
        yield
    finally:
        _watching.instruments = before


def pass_instrument(pi_cls: type | None = None) -> Any:
    """Turn a class that has some of the methods into an instrument class."""

    def make(cls: type) -> type:
        if issubclass(cls, PassInstrument):
            return cls
        names = {"__doc__": cls.__doc__, "__module__": cls.__module__}
        return type(cls.__name__, (cls, PassInstrument), names)

    return make if pi_cls is None else make(pi_cls)


class _Profile:
    """The time of one run of a pass, with the passes that ran inside it."""

    __slots__ = ("children", "name", "seconds", "start")

    def __init__(self, name: str) -> None:
        self.name = name
        self.children: list[_Profile] = []
        self.seconds = 0.0
        self.start = time.perf_counter()

    def stop(self) -> None:
        self.seconds = time.perf_counter() - self.start

    def lines(self, whole: float, depth: int = 0) -> list[str]:
        inside = sum(child.seconds for child in self.children)
        share = 100 * self.seconds / whole if whole else 0.0
        own = f" (itself {1e3 * (self.seconds - inside):.2f})" if self.children else ""
        text = f"{'  ' * depth}{self.name}: {1e3 * self.seconds:.2f} ms{own} {share:.1f} %"
        return [text, *[line for child in self.children for line in child.lines(whole, depth + 1)]]


@pass_instrument
class PassTimingInstrument(PassInstrument):
    """Measures passes; ``render()`` returns the times as a tree and must be called inside the
    context.
    """

    def __init__(self) -> None:
        self.roots: list[_Profile] = []
        self.stack: list[_Profile] = []

    def enter_pass_ctx(self) -> None:
        self.roots, self.stack = [], []

    def run_before_pass(self, mod: IRModule, info: Any) -> None:
        profile = _Profile(info.name)
        (self.stack[-1].children if self.stack else self.roots).append(profile)
        self.stack.append(profile)

    def run_after_pass(self, mod: IRModule, info: Any) -> None:
        # A pass that raised has left its entry behind.
        while self.stack:
            profile = self.stack.pop()
            profile.stop()
            if profile.name == info.name:
                break

    def render(self) -> str:
        """Return one line per run of a pass: name, milliseconds, share of the whole."""
        whole = sum(root.seconds for root in self.roots)
        lines = [line for root in self.roots for line in root.lines(whole)]
        return "\n".join([*lines, f"all passes: {1e3 * whole:.2f} ms"])

    def totals(self) -> dict[str, float]:
        """Return seconds by name of pass, without nested passes, largest first."""
        found: dict[str, float] = {}

        def add(profile: _Profile) -> None:
            inside = sum(child.seconds for child in profile.children)
            found[profile.name] = found.get(profile.name, 0.0) + profile.seconds - inside
            for child in profile.children:
                add(child)

        for root in self.roots:
            add(root)
        return dict(sorted(found.items(), key=lambda item: -item[1]))


def _print_module(mod: IRModule, title: str) -> None:
    print(f"# {title}\n{mod.script()}\n")


class PassPrintingInstrument(PassInstrument):
    """Prints the module before and after the passes with given names."""

    def __init__(
        self, print_before_pass_names: Iterable[str], print_after_pass_names: Iterable[str]
    ) -> None:
        self.before = set(print_before_pass_names)
        self.after = set(print_after_pass_names)

    def run_before_pass(self, mod: IRModule, pass_info: Any) -> None:
        if pass_info.name in self.before:
            _print_module(mod, f"before {pass_info.name}")

    def run_after_pass(self, mod: IRModule, pass_info: Any) -> None:
        if pass_info.name in self.after:
            _print_module(mod, f"after {pass_info.name}")


class PrintBeforeAll(PassInstrument):
    """Prints the module before each pass."""

    def run_before_pass(self, mod: IRModule, info: Any) -> None:
        _print_module(mod, f"before {info.name}")


class PrintAfterAll(PassInstrument):
    """Prints the module after each pass."""

    def run_after_pass(self, mod: IRModule, info: Any) -> None:
        _print_module(mod, f"after {info.name}")


class PrintChanged(PassInstrument):
    """Prints what each pass changed, as a unified difference of the scripts."""

    def __init__(self, write: Callable[[str], Any] | None = None) -> None:
        self.write = write or (lambda text: print(text, file=sys.stderr))
        self.texts: list[list[str]] = []

    def run_before_pass(self, mod: IRModule, info: Any) -> None:
        self.texts.append(str(mod).splitlines())

    def run_after_pass(self, mod: IRModule, info: Any) -> None:
        before, after = self.texts.pop(), str(mod).splitlines()
        if before == after:
            self.write(f"# {info.name}: unchanged")
            return
        lines = difflib.unified_diff(before, after, "before", "after", lineterm="")
        self.write("\n".join([f"# {info.name}", *lines]))


class DumpIR(PassInstrument):
    """Writes the module after each pass to a folder: ``017_FlattenBuffer.py``."""

    def __init__(self, dump_dir: str | Path, refresh: bool = False) -> None:
        self.folder = Path(dump_dir)
        self.folder.mkdir(parents=True, exist_ok=True)
        if refresh:
            for old in self.folder.glob("[0-9][0-9][0-9]_*.py"):
                old.unlink()
        self.counter = len(list(self.folder.glob("[0-9][0-9][0-9]_*.py")))

    def run_after_pass(self, mod: IRModule, info: Any) -> None:
        name = re.sub(r"[^\w.-]+", "_", info.name)
        path = self.folder / f"{self.counter:03d}_{name}.py"
        path.write_text(mod.script() + "\n", encoding="utf-8")
        self.counter += 1


_CHECKS: Registry[Callable[[IRModule], Any]] = Registry(
    "module check", providers={"tir.": "tilesmith.tir.analysis"}
)


def register_module_check(name: str, check: Callable[[IRModule], Any] | None = None) -> Any:
    """Add a check, a function that raises errors, to those that ``Verify`` runs; a decorator
    without ``check``.

    The packages of the levels register their own (``tir.analysis``: well-formed functions).
    """

    return _CHECKS.register(name, check, override=True)


class Verify(PassInstrument):
    """Checks the module after each pass; the error names the pass that broke it."""

    def __init__(self, *checks: Callable[[IRModule], Any]) -> None:
        self.checks = checks

    def run_after_pass(self, mod: IRModule, info: Any) -> None:
        for check in self.checks or [_CHECKS[name] for name in _CHECKS.names(load=True)]:
            try:
                check(mod)
            except TilesmithError as error:
                raise VerifyError(
                    f"the pass '{info.name}' broke the module: {error.message}",
                    span=error.span,
                    notes=error.notes,
                ) from error

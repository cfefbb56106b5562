"""Records fallbacks: what the compiler did not do, or did in a slower way, and why.

    record_fallback("schedule", "block 'T_matmul'", error)       # where an error is not raised

    with collect_fallbacks() as report:
        tilesmith.compile("model.onnx")
    for fallback, count in report.rows():
        print(fallback.kind, fallback.subject, fallback.reason, count)

Each record is counted by its kind in the whole process (`fallback_counts`), goes to the reports
that this thread collects, and with ``TILESMITH_DEBUG=1`` (or more) to standard error. Work whose
caller records the fallbacks again under better names (a kernel that a worker compiles) runs inside
`capture_fallbacks`.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tilesmith.support.errors import InternalError, TilesmithError
from tilesmith.support.knobs import knobs

__all__ = [
    "KINDS", "Fallback", "FallbackReport", "capture_fallbacks", "collect_fallbacks",
    "fallback_counts", "fallbacks_within", "record_fallback",
]  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """A kind of fallback: its meaning, and whether it is about the code (and is stored in artifacts
    and caches) or only about how the code was made on this machine.
    """

    meaning: str
    is_about_code: bool = True


KINDS: dict[str, Kind] = {
    "recognition": Kind("a group of operators looks like one known operator, but is not it"),
    "folding": Kind("constants, or a constant factor, are not folded at compile time"),
    "packing": Kind("a convolution or matrix product keeps its layout and its weights unpacked"),
    "layout": Kind("an operator does not support the chosen layout; values keep their old one"),
    "legalization": Kind("an operator has no tensor program; its call is left as it is"),
    "fusion": Kind("calls that could share a kernel are not fused"),
    "inlining": Kind("a cheap block is not inlined; its result is stored in memory"),
    "schedule": Kind("a default schedule does not apply; the block keeps simpler loops"),
    "vectorization": Kind("a loop is not vectorized here: LLVM may do it, or it runs lane by lane"),
    "bounds": Kind("an access is not proven to be in bounds; it is checked when the program runs"),
    "precision": Kind("low precision was asked for; the model, or a part of it, keeps float32"),
    "code": Kind("only source code was generated; it cannot run on this machine"),
    "threads": Kind("parallel loops run on one thread", is_about_code=False),
    "specialisation": Kind("a model is compiled for the structure or the values of its inputs"),
    "measuring": Kind("a kernel is measured without what it computes", is_about_code=False),
    "library": Kind("a part for a library is compiled instead, because the library is missing"),
    "check": Kind("a kernel is checked in a slower way, or not at all", is_about_code=False),
    "machine": Kind("the machine model keeps its class's figures", is_about_code=False),
    "memory": Kind(
        "memory of a device is taken without a pool; each time waits", is_about_code=False
    ),
    "streams": Kind("after an error, streams of a device are not waited for", is_about_code=False),
    "device code": Kind(
        "kernels are compiled where they are loaded, not where they are built", is_about_code=False
    ),
    "copies": Kind("a kernel waits for all copies in the background, not only for the oldest"),
    "products": Kind("products of four warps (wgmma) wait where the program does not ask for it"),
    "cache": Kind("a result is computed again, or without the workers", is_about_code=False),
}


@dataclass(frozen=True)
class Fallback:
    """One optimisation or step that was not done."""

    kind: str
    """One of `KINDS`."""
    function: str
    """The function or kernel in which it was; "" outside of functions."""
    place: str
    """The operator, block or loop."""
    reason: str

    @property
    def subject(self) -> str:
        """Function and place as one text."""
        return ": ".join([part for part in (self.function, self.place) if part])


class FallbackReport:
    """Fallbacks with the number of times that each happened."""

    def __init__(self) -> None:
        self._counts: Counter[Fallback] = Counter()

    def add(self, fallback: Fallback, count: int = 1) -> None:
        """Count a fallback."""
        self._counts[fallback] += count

    def rows(self) -> list[tuple[Fallback, int]]:
        """Return each fallback with its count: by kind in the order of `KINDS`, then by its
        texts.
        """
        order = {kind: number for number, kind in enumerate(KINDS)}

        def place(row: tuple[Fallback, int]) -> tuple[int, str, str, str]:
            fallback = row[0]
            return order[fallback.kind], fallback.function, fallback.place, fallback.reason

        return sorted(self._counts.items(), key=place)

    def about_code(self) -> FallbackReport:
        """Return the fallbacks that are about the code and are stored with it."""
        kept = FallbackReport()
        for fallback, count in self._counts.items():
            if KINDS[fallback.kind].is_about_code:
                kept.add(fallback, count)
        return kept

    def renamed(self, names: Mapping[str, str]) -> FallbackReport:
        """Return the report with functions renamed in all texts."""
        longest_first = sorted(names.items(), key=lambda item: -len(item[0]))

        def renamed(text: str) -> str:
            for old, new in longest_first:
                text = text.replace(old, new)
            return text

        changed = FallbackReport()
        for one, count in self._counts.items():
            texts = (renamed(one.function), renamed(one.place), renamed(one.reason))
            changed.add(Fallback(one.kind, *texts), count)
        return changed

    def record(self) -> None:
        """Record all fallbacks of the report, which were found elsewhere (in a worker, when a cache
        was filled).
        """
        for fallback, count in self.rows():
            _record(fallback, count)

    def to_json(self) -> list[dict[str, Any]]:
        """Return the rows as JSON data."""
        return [
            {
                "kind": fallback.kind,
                "function": fallback.function,
                "place": fallback.place,
                "reason": fallback.reason,
                "count": count,
            }
            for fallback, count in self.rows()
        ]

    @staticmethod
    def from_json(rows: Iterable[Mapping[str, Any]]) -> FallbackReport:
        """Return the report from rows of `to_json`; unknown kinds are left out."""
        report = FallbackReport()
        for row in rows:
            if row["kind"] in KINDS:
                texts = (row["kind"], row["function"], row["place"], row["reason"])
                report.add(Fallback(*texts), row["count"])
        return report

    def __len__(self) -> int:
        return len(self._counts)


class _Listeners(threading.local):
    """The reports that collect in this thread, outermost first, and the current function."""

    def __init__(self) -> None:
        self.reports: list[tuple[FallbackReport, bool]] = []
        self.function = ""


_listeners = _Listeners()
_counts: Counter[str] = Counter()
_lock = threading.Lock()


def record_fallback(kind: str, place: str, reason: str | TilesmithError) -> None:
    """Record a fallback at a place of the current function.

    ``reason`` may be the error that is not raised: its first line is taken.
    """
    if kind not in KINDS:
        raise InternalError(f"'{kind}' is not a kind of fallback", notes=(", ".join(KINDS),))
    if isinstance(reason, TilesmithError):
        reason = reason.message
    _record(Fallback(kind, _listeners.function, place, reason.strip().partition("\n")[0]), 1)


def _record(fallback: Fallback, count: int) -> None:
    for report, is_apart in reversed(_listeners.reports):
        report.add(fallback, count)
        if is_apart:
            return
    with _lock:
        _counts[fallback.kind] += count
    if knobs.debug_level >= 1:
        times = f" ({count} times)" if count > 1 else ""
        line = f"# fallback ({fallback.kind}) {fallback.subject}: {fallback.reason}{times}"
        print(line, file=sys.stderr)


def fallback_counts() -> dict[str, int]:
    """Return how many fallbacks of each kind this process has recorded."""
    with _lock:
        return {kind: _counts[kind] for kind in KINDS}


@contextmanager
def _listening(is_apart: bool) -> Iterator[FallbackReport]:
    report = FallbackReport()
    _listeners.reports.append((report, is_apart))
    try:
        yield report
    finally:
        _listeners.reports.pop()


@contextmanager
def collect_fallbacks() -> Iterator[FallbackReport]:
    """Collect what this thread records within a `with` block; scopes may be nested."""
    with _listening(False) as report:
        yield report


@contextmanager
def capture_fallbacks() -> Iterator[FallbackReport]:
    """Collect as `collect_fallbacks` does, and hide the fallbacks from all other reports."""
    with _listening(True) as report:
        yield report


@contextmanager
def fallbacks_within(function: str) -> Iterator[None]:
    """Attribute the fallbacks of the `with` block to the function of that name."""
    before, _listeners.function = _listeners.function, function
    try:
        yield
    finally:
        _listeners.function = before

"""Runs the fuzzer: sends seeds to workers, shrinks and saves findings, counts everything."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilesmith.testing.fuzz.cases import Case
from tilesmith.testing.fuzz.isolated import HANGS, IsolatedRunner
from tilesmith.testing.fuzz.replay import save
from tilesmith.testing.fuzz.seeds import Findings, Seeds, Stopped
from tilesmith.testing.fuzz.shrink import shrink

__all__ = ["Options", "Summary", "fuzz"]

_OFTEN = 100
"""After this many refusals of a primitive that never applies, something is wrong with it."""

_HANGS_TRIED = 15
"""How many attempts that do not end there is time for when such a program is shrunk."""


@dataclass
class Options:
    """The settings of a run. It ends after ``seconds``, after ``most_cases`` programs, or at the
    first finding where ``stop_at_first``.
    """

    seconds: float
    seed: int = 0
    workers: int = 1
    only: str | None = None
    field: str | None = None
    output: Path | None = None
    patch: str | None = None
    most_cases: int | None = None
    stop_at_first: bool = False
    shrink_seconds: float = 30.0
    case_seconds: float = 60.0
    hang_seconds: float = 10.0
    """After this time an attempt to shrink a program that does not end counts as not ending."""


@dataclass
class Summary(Findings):
    """The counts and findings of a run."""

    counts: Counter[str] = dataclasses.field(default_factory=Counter)
    broken: list[str] = dataclasses.field(default_factory=list)

    def table(self, word: str) -> dict[str, int]:
        """Return the counts whose names begin with a word, without that word."""
        return {
            name[len(word) + 1 :]: count
            for name, count in sorted(self.counts.items())
            if name.startswith(word + " ")
        }

    def never_applied(self) -> list[str]:
        """Return the primitives that were drawn often and always refused: that nothing could be
        done is the only sign of a condition that is too strict.
        """
        refused = self.table("refused")
        return [
            kind for kind, count in refused.items()
            if count >= _OFTEN and not self.counts[f"applied {kind}"]
        ]  # fmt: skip

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain data."""
        applied, refused = self.table("applied"), self.table("refused")
        return {
            "seconds": round(self.seconds, 1),
            "programs": self.counts["programs"],
            "programs_per_minute": round(60 * self.counts["programs"] / max(self.seconds, 1e-9)),
            "primitives": {
                kind: {"applied": applied.get(kind, 0), "refused": refused.get(kind, 0)}
                for kind in sorted({*applied, *refused})
            },
            "never_applied": self.never_applied(),
            "fields": self.table("field"),
            "forms": self.table("form"),
            "fallbacks": self.table("fallback"),
            "passes": self.table("pass"),
            "code": self.table("code"),
            "devices": self.table("device"),
            "too_large": self.counts["too large"],
            "unsupported": self.table("unsupported"),
            "scripts": self.counts["script"], "traces": self.counts["trace"],
            "broken_cases": self.broken,
            "findings": [
                {
                    "signature": signature, "count": 1 + self.again[signature],
                    "seed": finding["case"]["seed"], "file": finding.get("file"),
                    "detail": finding["detail"][-2000:],
                }
                for signature, finding in sorted(self.findings.items())
            ],
        }  # fmt: skip


class _Campaign:
    def __init__(self, options: Options, report: Callable[[Summary], None]) -> None:
        self.options = options
        self.report = report
        self.summary = Summary()
        self.seeds = Seeds(options.seed, options.seconds, options.most_cases)

    def runner(self) -> IsolatedRunner:
        return IsolatedRunner(self.options.patch, self.options.case_seconds)

    def one(self, runner: IsolatedRunner, seed: int) -> None:
        result = runner.run_seed(seed, self.options.only, self.options.field)
        finding = result["finding"]
        with self.seeds.lock:
            self.summary.counts.update(result["counts"])
            self.summary.counts["programs"] += 1
            self.summary.seconds = self.seeds.elapsed
            if "error" in result:
                self.summary.broken.append(f"seed {seed}: {result['error'][:300]}")
            self.report(self.summary)
            if finding is None:
                return
            signature = finding["signature"]
            if not self.summary.is_new(signature, finding):
                return
            if self.options.stop_at_first:
                self.seeds.end()
        finding = self.smaller(runner, finding)
        if self.options.output is not None:
            finding["file"] = str(save(finding, self.options.output))
        with self.seeds.lock:
            self.summary.findings[signature] = finding

    def smaller(self, runner: IsolatedRunner, finding: dict[str, Any]) -> dict[str, Any]:
        """Return the finding of the smallest case that fails in the same way."""

        def again(case: Case) -> dict[str, Any] | None:
            try:
                found = runner.run(case)["finding"]
            except Stopped:  # what is found so far is saved
                return None
            alike = found is not None and found["signature"] == finding["signature"]
            return found if alike else None

        seconds, timeout = self.options.shrink_seconds, runner.timeout
        if seconds <= 0:
            return finding
        if finding["failure"] != HANGS:
            return shrink(finding, again, seconds)
        # Each attempt that succeeds takes as long as it may: short attempts, and time for many.
        try:
            runner.timeout = min(self.options.hang_seconds, timeout)
            small = shrink(finding, again, max(seconds, _HANGS_TRIED * runner.timeout))
        finally:
            runner.timeout = timeout
        return again(small["case"]) or finding


def fuzz(options: Options, report: Callable[[Summary], None] = lambda summary: None) -> Summary:
    """Run the fuzzer; ``report`` is called at the start, after each program and at the end, also
    where a signal raises an exception, such as KeyboardInterrupt.
    """
    campaign = _Campaign(options, report)
    report(campaign.summary)
    try:
        campaign.seeds.work(options.workers, campaign.runner, campaign.one)
    finally:
        campaign.summary.seconds = campaign.seeds.elapsed
        report(campaign.summary)
    return campaign.summary

"""Runs the fuzzer of inputs: sends seeds to servers, counts what came of them, keeps findings."""

from __future__ import annotations

import dataclasses
import os
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tilesmith.support.errors import CodegenError, InternalError
from tilesmith.support.workers import Worker
from tilesmith.testing.fuzz.models.finding import load_finding, save_finding
from tilesmith.testing.fuzz.models.verdict import OUTCOMES
from tilesmith.testing.fuzz.seeds import Findings, Seeds, Stopped

__all__ = [
    "Options", "Runner", "Summary", "fuzz_models", "replay_finding", "environment",
]  # fmt: skip

_MODULE = "tilesmith.testing.fuzz.models.server"


@dataclass
class Options:
    """The settings of a run. It ends after so many cases or seconds, whichever comes first. With
    ``own_models`` it leaves those of onnx and graphs in torch out, and its servers start sooner;
    ``command`` names the command line ("module:name"), through which some cases go.
    """

    cases: int | None = None
    seconds: float | None = None
    seed: int = 0
    jobs: int = 1
    kind: str | None = None
    level: str | None = None
    output: Path | None = None
    patch: str | None = None
    own_models: bool = False
    command: str | None = None
    case_seconds: float = 60.0
    case_memory: int = 3 << 30

    @property
    def has_torch(self) -> bool:
        """Whether graphs in torch are drawn: asked for, or where torch is installed."""
        is_drawn = self.kind is None and not self.own_models
        return self.kind == "torch" or is_drawn and find_spec("torch") is not None


@dataclass
class Summary(Findings):
    """The counts and findings of a run."""

    counts: Counter[tuple[str, str]] = dataclasses.field(default_factory=Counter)
    """Number of cases by kind and outcome."""
    phases: Counter[tuple[str, str]] = dataclasses.field(default_factory=Counter)
    """Number of cases by outcome and the phase in which it came."""

    @property
    def cases(self) -> int:
        """Number of cases that were run."""
        return sum(self.counts.values())

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain data."""
        kinds = sorted({kind for kind, _ in self.counts})
        outcomes = {
            outcome: sum(self.counts[kind, outcome] for kind in kinds) for outcome in OUTCOMES
        }
        return {
            "seconds": round(self.seconds, 1),
            "cases": self.cases,
            "cases_per_minute": round(60 * self.cases / max(self.seconds, 1e-9)),
            "outcomes": outcomes,
            "kinds": {
                kind: {name: self.counts[kind, name] for name in OUTCOMES} for kind in kinds
            },
            "phases": {f"{name} at {phase}": n for (name, phase), n in sorted(self.phases.items())},
            "findings": [
                {
                    "signature": signature, "outcome": finding["outcome"],
                    "count": 1 + self.again[signature], "case": finding["case"],
                    "file": finding.get("file"), "detail": finding["detail"][-2000:],
                }
                for signature, finding in sorted(self.findings.items())
            ],
        }  # fmt: skip


class Runner:
    """Sends requests to one server, which it starts again when it should die."""

    def __init__(self, options: Options, saved: Path) -> None:
        self._arguments = [
            "--saved", str(saved), "--seconds", str(options.case_seconds),
            "--memory", str(options.case_memory),
        ]  # fmt: skip
        if options.own_models:
            self._arguments.append("--own-models")
        if options.has_torch:
            self._arguments.append("--torch")
        if options.command:
            self._arguments += ["--command", options.command]
        if options.patch:
            self._arguments += ["--patch", options.patch]
        self._worker: Worker | None = None
        self._lock = threading.Lock()
        self._is_stopped = False

    def ask(self, request: dict[str, Any], files: list[bytes] | None = None) -> Any:
        """Return the record of a case and its files. Raises Stopped after ``stop``."""
        with self._lock:
            if self._is_stopped:
                raise Stopped
            if self._worker is None or not self._worker.alive:
                self._worker = Worker(_MODULE, self._arguments)
            worker = self._worker
        try:
            return worker.request(request, files or [])
        except CodegenError as error:
            if self._is_stopped:
                raise Stopped from error
            raise

    def stop(self) -> None:
        """End the server and its child at once, from another thread."""
        with self._lock:
            self._is_stopped = True
        if self._worker is not None:
            self._worker.stop()

    def close(self) -> None:
        """End the server."""
        if self._worker is not None:
            self._worker.close()


class _Campaign:
    def __init__(self, options: Options, saved: Path, report: Callable[[Summary], None]) -> None:
        self.options = options
        self.saved = saved
        self.report = report
        self.summary = Summary()
        self.seeds = Seeds(options.seed, options.seconds, options.cases)

    def runner(self) -> Runner:
        return Runner(self.options, self.saved)

    def one(self, runner: Runner, seed: int) -> None:
        options = self.options
        request = {"seed": seed, "kind": options.kind, "level": options.level}
        record, files = runner.ask(request)
        with self.seeds.lock:
            summary = self.summary
            summary.counts[record["case"]["kind"], record["outcome"]] += 1
            summary.phases[record["outcome"], record["phase"]] += 1
            summary.seconds = self.seeds.elapsed
            self.report(summary)
            signature = record.get("signature")
            if signature is None or not summary.is_new(signature, record):
                return
        record, files = self.smaller(runner, record, files)
        if options.output is not None:
            record["file"] = str(save_finding(record, files, options.output))
        with self.seeds.lock:
            summary.findings[signature] = record

    def smaller(
        self, runner: Runner, record: dict[str, Any], files: list[bytes]
    ) -> tuple[dict[str, Any], list[bytes]]:
        """Return the finding with the fewest mutations that fails in the same way."""
        place = len(record["case"]["mutations"]) - 1
        while place >= 0:
            case = record["case"]
            kept = [step for index, step in enumerate(case["mutations"]) if index != place]
            try:
                found, found_files = runner.ask({"case": {**case, "mutations": kept}})
            except Stopped:  # what is found so far is saved
                break
            if found.get("signature") == record["signature"]:
                record, files = found, found_files
            place -= 1
        return record, files


def fuzz_models(
    options: Options, report: Callable[[Summary], None] = lambda summary: None
) -> Summary:
    """Run the fuzzer; ``report`` is called at the start of the cases, after each one, and at the
    end, also where a signal raises an exception, such as KeyboardInterrupt.
    """
    with (
        tempfile.TemporaryDirectory(prefix="tilesmith-fuzz-") as folder,
        environment(folder),
    ):
        saved = _saved(options, Path(folder))
        campaign = _Campaign(options, saved, report)
        report(campaign.summary)
        try:
            campaign.seeds.work(options.jobs, campaign.runner, campaign.one)
        finally:
            campaign.summary.seconds = campaign.seeds.elapsed
            report(campaign.summary)
    return campaign.summary


def replay_finding(path: Path, command: str | None = None) -> str | None:
    """Run a saved finding again, in a process of its own; return the failure, or None."""
    finding, files = load_finding(path)
    with (
        tempfile.TemporaryDirectory(prefix="tilesmith-fuzz-") as folder,
        environment(folder),
    ):
        options = Options(command=command, own_models=True)
        runner = Runner(options, _saved(options, Path(folder)))
        try:
            request = {"case": finding["case"], "names": list(files)}
            record, _ = runner.ask(request, list(files.values()))
        finally:
            runner.close()
    if "signature" not in record:
        return None
    return f"{record['signature']}\n{record['detail']}"


class environment:
    """Sets the environment of servers: no workers, one thread, a cache of kernels of their own."""

    def __init__(self, folder: str) -> None:
        self.settings = {
            "TILESMITH_WORKERS": "0", "TILESMITH_NUM_THREADS": "1",
            "TILESMITH_CACHE_DIR": os.path.join(folder, "cache"), "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore",
        }  # fmt: skip
        self.before: dict[str, str | None] = {}

    def __enter__(self) -> None:
        self.before = {name: os.environ.get(name) for name in self.settings}
        os.environ.update(self.settings)

    def __exit__(self, *details: object) -> None:
        for name, value in self.before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _saved(options: Options, folder: Path) -> Path:
    """Compile the models whose artifacts are changed, in a server's child; return their folder."""
    saved = folder / "saved"
    saved.mkdir()
    runner = Runner(
        dataclasses.replace(options, patch=None, own_models=True, kind=None, case_memory=8 << 30),
        saved,
    )
    try:
        record, _ = runner.ask({"save": True})
    except CodegenError as error:
        raise InternalError(f"the server of the fuzzer does not start: {error}") from error
    finally:
        runner.stop()  # also a child that compiles, if this is interrupted
    if record["outcome"] != "ok":
        raise InternalError("the fuzzer's models cannot be compiled", notes=(str(record),))
    return saved

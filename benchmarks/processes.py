"""Keeps contestants in processes of their own, stopped while it is not their turn, and times them
in turns.

    with Team(["tilesmith", "torch"], threads=2) as team:
        contest = team.contest(files, rounds=20)
    contest.timings["torch"].median, contest.failures

In one process the idle threads of one library (OpenMP's spin for 12 ms, onnxruntime's for 40) take
the processors from the next; a stopped process takes none. A contestant that raises, dies or does
not answer in time is a result: it stands in `failures`, and is started afresh for the next job.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import onnx

from benchmarks.contestants import CONTESTANTS, JobOptions, environment, largest_error
from tilesmith.inspect.timing import Timing

PREFERRED_REFERENCES = ("onnxruntime", "torch", "numpy")
SAMPLE_SECONDS = 0.02
_LARGEST_ERRORS = {"f32": 1e-2, "bf16": 0.5, "int8": 1.0}
_ROOT = Path(__file__).parent.parent


class ContestantFailure(Exception):
    """Why a contestant gives no figure."""

    def __init__(self, reason: str, is_over: bool = True, not_offered: bool = False) -> None:
        super().__init__(reason)
        self.is_over = is_over
        """Whether the process is gone."""
        self.not_offered = not_offered


@dataclass(frozen=True)
class JobFiles(JobOptions):
    """A job as files, which every contestant reads for itself."""

    model: Path
    feed: Path

    @staticmethod
    def write(
        folder: Path, model: onnx.ModelProto, feed: dict[str, np.ndarray], **rest: Any
    ) -> JobFiles:
        """Write a model and its inputs below `folder`."""
        path, arrays = folder / "model.onnx", folder / "feed.npz"
        onnx.save(model, path)
        np.savez(arrays, **feed)  # type: ignore[arg-type]
        return JobFiles(path, arrays, **rest)

    def as_command(self, threads: int) -> dict[str, Any]:
        """Return what a contestant is told."""
        values = {key: str(value) if isinstance(value, Path) else value
                  for key, value in asdict(self).items()}  # fmt: skip
        return {"do": "prepare", **values, "threads": threads}


@dataclass
class Contest:
    """What one contest found, by contestant."""

    timings: dict[str, Timing] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    """Of preparing: compiling, reading weights."""
    errors: dict[str, float] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    not_offered: dict[str, str] = field(default_factory=dict)
    peak: float = 0.0
    """Multiplications and additions per second of all threads, measured in between."""


def default_command(name: str) -> list[str]:
    """Return the command line of a contestant."""
    return [sys.executable, "-m", "benchmarks.contestant", name]


class ContestantProcess:
    """One contestant, which is asked questions and stopped in between."""

    def __init__(self, name: str, command: Sequence[str], threads: int) -> None:
        self.name = name
        self._errors = tempfile.TemporaryFile()
        paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
            env={**os.environ, **environment(threads), "PYTHONPATH": os.pathsep.join(paths)},
            start_new_session=True,
        )  # fmt: skip
        record = CONTESTANTS.get(name)
        if record is not None and record.is_pinned and hasattr(os, "sched_setaffinity"):
            with contextlib.suppress(OSError):  # it has ended: the first question says so
                few = sorted(os.sched_getaffinity(0))[:threads]
                os.sched_setaffinity(self._process.pid, few)
        assert self._process.stdout is not None
        self._pending = b""
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._process.stdout, selectors.EVENT_READ)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def pause(self) -> None:
        """Stop it and its own processes, spinning threads and all."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        """End it."""
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._selector.close()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()

    def ask(self, timeout: float, **command: Any) -> dict[str, Any]:
        """Return the answer to a command; ContestantFailure if there is none in time."""
        self.resume()
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise ContestantFailure(self._why_it_ended()) from None
        line = self._line(time.monotonic() + timeout, timeout)
        try:
            answer = json.loads(line)
        except ValueError:
            raise ContestantFailure(f"answered {line[:80]!r}") from None
        if "error" in answer:
            offered = not answer.get("not_offered", False)
            raise ContestantFailure(answer["error"], is_over=False, not_offered=not offered)
        return dict(answer)

    def _line(self, end: float, timeout: float) -> bytes:
        assert self._process.stdout is not None
        while b"\n" not in self._pending:
            if not self._selector.select(max(0.0, end - time.monotonic())):
                raise ContestantFailure(f"no answer within {timeout:.0f} s")
            part = os.read(self._process.stdout.fileno(), 1 << 16)
            if not part:
                raise ContestantFailure(self._why_it_ended())
            self._pending += part
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def _why_it_ended(self) -> str:
        try:
            code = self._process.wait(5)
        except subprocess.TimeoutExpired:
            return "closed its output"
        self._errors.seek(0)
        text = self._errors.read().decode(errors="replace").strip()
        last = f": {text.splitlines()[-1]}" if text else ""
        if code < 0:
            return f"died of {signal.Signals(-code).name}{last}"
        return f"ended with exit code {code}{last}"


class Team:
    """The contestants of a run, which stay from job to job unless they fail or are renewed."""

    def __init__(
        self,
        names: Sequence[str],
        threads: int,
        command: Callable[[str], list[str]] = default_command,
        prepare_timeout: float = 900.0,
        run_timeout: float = 120.0,
    ) -> None:
        self.names = sorted(names, key=_rank)  # the reference comes first
        self.threads = threads
        self._command = command
        self._prepare_timeout, self._run_timeout = prepare_timeout, run_timeout
        self._processes: dict[str, ContestantProcess] = {}

    def __enter__(self) -> Team:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.renew()

    def renew(self) -> None:
        """End all processes; the next contest starts new ones."""
        for process in self._processes.values():
            process.close()
        self._processes.clear()

    def _start(self, names: Sequence[str]) -> None:
        for name in names:
            if name not in self._processes:
                self._processes[name] = ContestantProcess(name, self._command(name), self.threads)

    def _fail(self, contest: Contest, name: str, failure: ContestantFailure) -> None:
        table = contest.not_offered if failure.not_offered else contest.failures
        table[name] = str(failure)
        contest.timings.pop(name, None)
        if failure.is_over:
            self._processes.pop(name).close()
        else:
            self._processes[name].pause()

    def contest(
        self,
        files: JobFiles,
        rounds: int,
        names: Sequence[str] | None = None,
        peak: Callable[[], float] | None = None,
        progress: Callable[[str], None] = lambda text: None,
    ) -> Contest:
        """Prepare the contestants, compare their results, and time them in turns. `peak` measures
        the machine while all are stopped.
        """
        chosen = [name for name in self.names if names is None or name in names]
        contest = Contest()
        self._start(chosen)
        ready = self._prepare(contest, chosen, files, progress)
        calls = self._calls(contest, ready)
        samples: dict[str, list[float]] = {name: [] for name in calls}
        peaks = [peak()] if peak is not None else []
        progress("timing")
        for index in range(rounds):
            order = list(calls) if index % 2 == 0 else list(reversed(calls))
            for name in order:
                sample = self._sample(contest, name, calls[name])
                if sample is None:
                    del calls[name], samples[name]
                else:
                    samples[name].append(sample)
        peaks += [peak()] if peak is not None else []
        contest.peak = max(peaks, default=0.0) * self.threads
        for name in chosen:
            if name in samples:
                contest.timings[name] = Timing(name, tuple(samples[name]))
        return contest

    def _prepare(
        self, contest: Contest, names: Sequence[str], files: JobFiles, progress: Callable[..., None]
    ) -> list[str]:
        ready: list[str] = []
        reference = self._reference(files) if files.precision == "bf16" else None
        for name in names:
            progress(f"preparing {name}")
            process = self._processes[name]
            try:
                made = process.ask(self._prepare_timeout, **files.as_command(self.threads))
                outputs = self._outputs(process)
                error = _compared(outputs, reference, files.precision)
            except ContestantFailure as failure:
                self._fail(contest, name, failure)
                continue
            process.pause()
            reference = outputs if reference is None else reference
            contest.errors[name], contest.seconds[name] = error, float(made["seconds"])
            ready.append(name)
        return ready

    def _reference(self, files: JobFiles) -> list[np.ndarray] | None:
        """Return what is computed in f32, where there is a contestant that can tell."""
        process = self._processes.get(PREFERRED_REFERENCES[0])
        if process is None:
            return None
        exact = replace(files, precision="f32")
        try:
            process.ask(self._prepare_timeout, **exact.as_command(self.threads))
            return self._outputs(process)
        except ContestantFailure:
            return None  # its own turn to be prepared tells why
        finally:
            process.pause()

    def _outputs(self, process: ContestantProcess) -> list[np.ndarray]:
        with tempfile.TemporaryDirectory() as folder:
            # the first run may compile, as torch's does
            answer = process.ask(self._prepare_timeout, do="outputs", folder=folder)
            paths = [Path(folder) / f"output{place}.npy" for place in range(answer["count"])]
            try:
                return [np.load(path, allow_pickle=False) for path in paths]
            except (OSError, ValueError) as error:
                raise ContestantFailure(f"unreadable output: {error}", is_over=False) from error

    def _calls(self, contest: Contest, names: Sequence[str]) -> dict[str, int]:
        calls = {}
        for name in names:
            process = self._processes[name]
            try:
                answer = process.ask(self._run_timeout, do="measure", sample_seconds=SAMPLE_SECONDS)
                calls[name] = int(answer["calls"])
            except ContestantFailure as failure:
                self._fail(contest, name, failure)
            else:
                process.pause()
        return calls

    def _sample(self, contest: Contest, name: str, calls: int) -> float | None:
        process = self._processes[name]
        try:
            answer = process.ask(self._run_timeout, do="run", calls=calls)
        except ContestantFailure as failure:
            self._fail(contest, name, failure)
            return None
        process.pause()
        return float(answer["seconds"]) / calls


def _rank(name: str) -> int:
    return PREFERRED_REFERENCES.index(name) if name in PREFERRED_REFERENCES else 99


def _compared(
    outputs: list[np.ndarray], reference: list[np.ndarray] | None, precision: str
) -> float:
    """Return the largest error; ContestantFailure for a result that is plainly another one."""
    if reference is None:
        reference = outputs
    if len(outputs) != len(reference):
        reason = f"wrong output: {len(outputs)} tensors, the reference has {len(reference)}"
        raise ContestantFailure(reason, is_over=False)
    shapes = [[one.shape for one in each] for each in (outputs, reference)]
    if shapes[0] != shapes[1]:
        reason = f"wrong output: shapes {shapes[0]}, the reference has {shapes[1]}"
        raise ContestantFailure(reason, is_over=False)
    error = largest_error(outputs, reference)
    if not error <= _LARGEST_ERRORS[precision]:  # also for NaN
        raise ContestantFailure(f"wrong output: largest error {error:.2g}", is_over=False)
    return error

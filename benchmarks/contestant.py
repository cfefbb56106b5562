"""Runs one contestant: `python -m benchmarks.contestant NAME`, a process that obeys its parent.

Commands come as lines of JSON on the standard input, each is answered by one line:

    {"do": "prepare", "model": path, "feed": path, …}    {"seconds": 1.2}
    {"do": "outputs", "folder": path}                    {"count": 1}      output0.npy, …
    {"do": "measure", "sample_seconds": 0.02}            {"calls": 17}
    {"do": "run", "calls": 17}                           {"seconds": 0.021}

or by `{"error": text}`, after which the process goes on. What libraries print goes to the standard
error. The process ends when its parent does.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import sys
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks.contestants import CONTESTANTS, Job, JobOptions, NotOffered, Run

_PR_SET_PDEATHSIG = 1
_WARM_UP_CALLS, _WARM_UP_SECONDS = 4, 0.004


def die_with_parent() -> None:
    """Let Linux kill this process, which may be stopped at that time, when its parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def read_job(command: dict[str, Any]) -> Job:
    """Return the job that a command describes by files."""
    with np.load(command["feed"], allow_pickle=False) as arrays:
        feed = {name: arrays[name] for name in arrays.files}
    options = {one.name: command[one.name] for one in fields(JobOptions)}
    return Job(onnx.load(command["model"]), feed, command["threads"], **options)


class Server:
    """Answers the commands, one function each."""

    def __init__(self, name: str) -> None:
        self.contestant = CONTESTANTS[name]
        self.run: Run | None = None

    def _prepared(self) -> Run:
        if self.run is None:
            raise RuntimeError("nothing was prepared")
        return self.run

    def prepare(self, command: dict[str, Any]) -> dict[str, Any]:
        """Make a job ready to run, instead of the one before."""
        self.run = None
        gc.collect()
        job = read_job(command)
        start = time.perf_counter()
        self.run = self.contestant.prepare(job)
        return {"seconds": time.perf_counter() - start}

    def outputs(self, command: dict[str, Any]) -> dict[str, Any]:
        """Run once, and write what comes out."""
        results = self._prepared()()
        for place, array in enumerate(results):
            plain = np.asarray(array)
            np.save(Path(command["folder"]) / f"output{place}.npy", plain, allow_pickle=False)
        return {"count": len(results)}

    def measure(self, command: dict[str, Any]) -> dict[str, Any]:
        """Find how many calls fit into a sample."""
        run, fastest, end = self._prepared(), float("inf"), time.perf_counter() + 0.2
        tries = 0
        while tries < 2 or (tries < 20 and time.perf_counter() < end):
            start = time.perf_counter()
            run()
            fastest = min(fastest, time.perf_counter() - start)
            tries += 1
        return {"calls": max(1, min(10_000, round(command["sample_seconds"] / fastest)))}

    def time(self, command: dict[str, Any]) -> dict[str, Any]:
        """Run some calls without, then some with a clock: after it was stopped, its threads have to
        wake up, and its data to come back to the caches.
        """
        run, calls = self._prepared(), int(command["calls"])
        tries, end = 0, time.perf_counter() + _WARM_UP_SECONDS
        while tries < calls and (tries < _WARM_UP_CALLS or time.perf_counter() < end):
            run()
            tries += 1
        gc.disable()
        start = time.perf_counter()
        for _ in range(calls):
            run()
        seconds = time.perf_counter() - start
        gc.enable()
        return {"seconds": seconds}


def main() -> None:
    """Obey until the standard input ends."""
    die_with_parent()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # libraries that print must not disturb the answers
    server = Server(sys.argv[1])
    functions = {"prepare": server.prepare, "outputs": server.outputs,
                 "measure": server.measure, "run": server.time}  # fmt: skip
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = functions[command["do"]](command)
        except NotOffered as error:
            answer = {"error": str(error), "not_offered": True}
        except Exception as error:  # a failure is a result, which the parent reports
            answer = {"error": f"{type(error).__name__}: {error}"[:2000]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()

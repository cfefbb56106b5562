"""Runs cases in one worker process that may crash."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from tilesmith.support.errors import CodegenError, TilesmithError, WorkerStartError
from tilesmith.support.workers import Worker
from tilesmith.testing.fuzz.cases import Case, make_case
from tilesmith.testing.fuzz.seeds import Stopped

__all__ = ["HANGS", "IsolatedRunner"]

HANGS = "does not end"
"""The failure of a case that exceeds its time."""

_MODULE = "tilesmith.testing.fuzz.worker"
_PLACE_SIZE = 256
_START_SECONDS = 120.0
_MORE_TIME = 3
"""How much longer a case may take that is tried again: the machine may have been busy."""

_OF_POCL = ("pocl_llvm_generate_workgroup_function", "Could not find a dominating alternative")
"""What PoCL 3.0 says when a pass of its own compiler fails an assertion or reads foreign memory:
its passes miscount loops around barriers where LLVM has joined conditions before and behind."""


class IsolatedRunner:
    """Runs cases in a separate process; a crash or a hang is a finding about the case.

    A hang is a case that twice exceeds its time: ``timeout`` seconds, then three times as many.
    Raises WorkerStartError if the process cannot start, and Stopped after ``stop``: neither says
    anything about the case. Where the compiler of an OpenCL driver kills the process, the case runs
    again without OpenCL and its result counts that.
    """

    def __init__(self, patch: str | None = None, timeout: float = 60.0) -> None:
        self.timeout = timeout
        self._folder = Path(tempfile.mkdtemp(prefix="tilesmith-fuzz-"))
        self._place, self._errors = self._folder / "place", self._folder / "errors"
        self._place.write_bytes(b"\0" * _PLACE_SIZE)
        self._arguments = ["--folder", str(self._folder)] + (["--patch", patch] if patch else [])
        self._worker: Worker | None = None
        self._lock = threading.Lock()
        self._is_stopped = False

    def _request(self, request: dict[str, Any]) -> Any:
        try:
            return self._request_within(self.timeout, request)
        except CodegenError as error:
            if not _hung(error):
                raise
            return self._request_within(_MORE_TIME * self.timeout, request)

    def _request_within(self, seconds: float, request: dict[str, Any]) -> Any:
        worker = self._started()
        try:
            return worker.request(request, timeout=seconds)[0]
        except CodegenError:
            self._check_not_stopped()
            raise

    def _started(self) -> Worker:
        """Return the process, after it has been started if there is none."""
        if self._worker is not None and self._worker.alive:
            return self._worker
        with self._lock:
            self._check_not_stopped()
            worker = self._worker = Worker(_MODULE, self._arguments)
        try:
            # starting takes a while, which is not the case's time
            worker.request({"ready": True}, timeout=_START_SECONDS)
        except CodegenError as error:
            self._check_not_stopped()
            raise WorkerStartError(f"the worker cannot start: {error.message}") from error
        return worker

    def _check_not_stopped(self) -> None:
        if self._is_stopped:
            raise Stopped

    def run(self, case: Case) -> dict[str, Any]:
        """Return the result of ``run_case``, or a finding about a crash."""
        return self._guarded({"case": case}, lambda: case)

    def run_seed(self, seed: int, only: str | None, field: str | None = None) -> dict[str, Any]:
        """Do the same for the case of a seed."""
        request = {"seed": seed, "only": only, "field": field}
        return self._guarded(request, lambda: make_case(seed, only, field))

    def _guarded(self, request: dict[str, Any], case: Any) -> dict[str, Any]:
        try:
            return self._request(request)
        except WorkerStartError:
            raise
        except CodegenError as error:
            if "worker" not in error.message:
                raise
            found = self._crash(error, case())
            is_foreign = self._died_in_pocl() and found["name"] == "opencl"
            if is_foreign and "opencl" not in found["case"].get("without", ()):
                result = self.run({**found["case"], "without": ["opencl"]})
                count = {"unsupported opencl: PoCL's compiler kills the process": 1}
                return {**result, "counts": {**result["counts"], **count}}
            return {"counts": {}, "finding": found}
        except TilesmithError as error:
            return {"counts": {"broken cases": 1}, "finding": None, "error": str(error)}

    def _crash(self, error: CodegenError, case: Case) -> dict[str, Any]:
        place = self._place.read_bytes().rstrip(b"\0").decode(errors="replace")
        phase, _, name = place.partition(": ")
        failure = HANGS if _hung(error) else f"kills the process ({_reason(error.message)})"
        return {
            "signature": f"{place}: {failure}", "phase": phase, "name": name, "failure": failure,
            "detail": error.message, "case": case, "script": "", "schedule": [],
            "arguments": [], "after": "", "choices": [],
        }  # fmt: skip

    def _died_in_pocl(self) -> bool:
        """Return whether what the process said at its end came from PoCL's compiler; pass anything
        else on.
        """
        if not self._errors.exists():  # the process did not even start
            return False
        text = self._errors.read_text(encoding="utf-8", errors="replace")
        os.truncate(self._errors, 0)
        if any(word in text for word in _OF_POCL):
            return True
        sys.stderr.write(text)
        return False

    def replay(self, path: Path) -> str | None:
        """Run the test of a replay file; return the failure, or None."""
        try:
            failed: str | None = self._request({"replay": str(path.resolve())})["failed"]
            return failed
        except CodegenError as error:
            if "worker" not in error.message:
                raise
            return error.message

    def stop(self) -> None:
        """End the process at once, from another thread: requests under way and later ones raise
        Stopped.
        """
        with self._lock:
            self._is_stopped = True
        if self._worker is not None:
            self._worker.stop()

    def close(self) -> None:
        """End the process."""
        if self._worker is not None:
            self._worker.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _hung(error: CodegenError) -> bool:
    return "did not finish" in error.message


def _reason(message: str) -> str:
    return message.partition("(")[2].partition(")")[0]

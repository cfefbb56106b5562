"""Calls functions in processes of their own, with a limit on their time.

    pool = PopenPoolExecutor(max_workers=2, timeout=10)
    future = pool.submit(math.sqrt, 2.0)         # raises TimeoutError when the time is over

Functions and values travel as pickles; `cloudpickle`, where it is installed, takes functions of the
main program and lambdas as well. A process that dies or runs out of its time is replaced.
"""

from __future__ import annotations

import importlib
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

from tilesmith.support.errors import CodegenError, TypeMismatchError, UnsupportedError
from tilesmith.support.workers import Worker

__all__ = ["MapResult", "PopenPoolExecutor", "PopenWorker", "StatusKind", "kill_child_processes"]

_MODULE = "tilesmith.contrib.popen_worker"
_PROCESSES = Path("/proc/self/task")


class StatusKind(IntEnum):
    """What became of a call."""

    RUNNING = 0
    COMPLETE = 1
    EXCEPTION = 2
    TIMEOUT = 3


class MapResult(NamedTuple):
    """One result of `map_with_error_catching`: what became of the call, and its value or
    exception.
    """

    status: StatusKind
    value: Any


def kill_child_processes(pid: int) -> None:
    """End the children of a process, with theirs."""
    if not _PROCESSES.exists():
        raise UnsupportedError("kill_child_processes needs /proc, which Linux has")
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            kill_child_processes(int(child))
            with suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)


def _pickled(function: Callable[..., Any], args: Sequence[Any], kwargs: Any) -> bytes:
    call = (function, tuple(args), dict(kwargs or {}))
    with suppress(ImportError):
        content: bytes = importlib.import_module("cloudpickle").dumps(call)
        return content
    try:
        return pickle.dumps(call)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TypeMismatchError(
            f"{function!r} cannot be sent to another process: {error}",
            notes=("pip install cloudpickle, or put the function into a module",),
        ) from None


class PopenWorker:
    """One process that calls functions, one after the other: `send` one, then `recv` its result.

    ``initializer(*initargs)`` is called whenever a process has started; after ``maximum_uses``
    calls a new process takes over. What the functions print goes to standard error.
    """

    def __init__(
        self,
        initializer: Callable[..., Any] | None = None,
        initargs: Sequence[Any] = (),
        maximum_uses: int | None = None,
        stdout: Any = None,
        stderr: Any = None,
    ) -> None:
        if stdout not in (None, sys.stdout, sys.stderr) or stderr not in (None, sys.stderr):
            raise UnsupportedError(
                "the output of a worker goes to this program's standard error",
                notes=("let the function itself write to another file",),
            )
        self._initial = None if initializer is None else (initializer, tuple(initargs))
        self._maximum = maximum_uses
        self._uses = 0
        self._worker: Worker | None = None
        self._call: Future[Any] | None = None

    def kill(self) -> None:
        """End the process at once; the next `send` starts another one."""
        if self._worker is not None:
            if _PROCESSES.exists():
                kill_child_processes(self._worker.process.pid)
            self._worker.kill()
            self._worker.close()
            self._worker = None

    def join(self, timeout: float | None = None) -> None:
        """Wait for the call that runs, at most ``timeout`` seconds, then end the process."""
        if self._call is not None:
            with suppress(Exception):  # `recv` tells what went wrong
                self._call.exception(timeout)
        self.kill()

    def is_alive(self) -> bool:
        """True if the process runs."""
        return self._worker is not None and self._worker.alive

    def send(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Any = None,
        timeout: float | None = None,
    ) -> None:
        """Start a call; `recv` waits for it. It may take ``timeout`` seconds."""
        content = _pickled(fn, args, kwargs)
        if self._maximum is not None and self._uses >= self._maximum:
            self.kill()
        future: Future[Any] = Future()
        self._call = future
        threading.Thread(target=self._run, args=(future, content, timeout), daemon=True).start()

    def recv(self) -> Any:
        """Return what the function of the last `send` gave, or raise what it raised.

        Raises TimeoutError when its time was over, ChildProcessError when the process died.
        """
        if self._call is None:
            raise TypeMismatchError("recv before send", notes=("send a function first",))
        return self._call.result()

    def _run(self, future: Future[Any], content: bytes, timeout: float | None) -> None:
        try:
            future.set_result(self._answer(content, timeout))
        except BaseException as error:  # `recv` raises it
            future.set_exception(error)

    def _answer(self, content: bytes, timeout: float | None) -> Any:
        if self._worker is None or not self._worker.alive:
            self._worker, self._uses = Worker(_MODULE), 0
            if self._initial is not None:
                self._request(_pickled(*self._initial, {}), timeout)
        self._uses += 1
        return self._request(content, timeout)

    def _request(self, content: bytes, timeout: float | None) -> Any:
        assert self._worker is not None
        started = time.monotonic()
        try:
            _, blobs = self._worker.request(None, [content], timeout)
        except CodegenError as error:
            if timeout is not None and time.monotonic() - started >= timeout:
                raise TimeoutError(f"the call took more than {timeout} seconds") from None
            raise ChildProcessError(error.message) from None
        has_returned, value = pickle.loads(blobs[0])
        if has_returned:
            return value
        raise value

    def __del__(self) -> None:
        worker = getattr(self, "_worker", None)
        if worker is not None:
            worker.kill()


class PopenPoolExecutor:
    """Several processes that call functions; parameters as of `PopenWorker`, and ``timeout``: the
    seconds that one call may take.
    """

    def __init__(
        self,
        max_workers: int | None = None,
        timeout: float | None = None,
        initializer: Callable[..., Any] | None = None,
        initargs: Sequence[Any] = (),
        maximum_process_uses: int | None = None,
        stdout: Any = None,
        stderr: Any = None,
    ) -> None:
        self._timeout = timeout
        self._settings = (initializer, initargs, maximum_process_uses, stdout, stderr)
        self._own = threading.local()
        self._workers: list[PopenWorker] = []
        self._threads = ThreadPoolExecutor(max_workers or os.cpu_count() or 1)

    def submit(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
        """Call a function in one of the processes; return the future of its result."""
        return self._threads.submit(self._call, fn, args, kwargs)

    def _call(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Any) -> Any:
        worker = getattr(self._own, "worker", None)
        if worker is None:
            worker = self._own.worker = PopenWorker(*self._settings)
            self._workers.append(worker)
        worker.send(fn, args, kwargs, self._timeout)
        return worker.recv()

    def map_with_error_catching(
        self, fn: Callable[[Any], Any], iterator: Iterable[Any]
    ) -> Iterable[MapResult]:
        """Call a function with each value; give the results in order, errors among them."""
        futures = [self.submit(fn, value) for value in iterator]
        return map(_result_of, futures)

    def shutdown(self) -> None:
        """Wait for all calls, then end the processes."""
        self._threads.shutdown()
        for worker in self._workers:
            worker.kill()

    def __enter__(self) -> PopenPoolExecutor:
        return self

    def __exit__(self, *details: object) -> None:
        self.shutdown()

    def __del__(self) -> None:
        for worker in getattr(self, "_workers", ()):
            worker.kill()


def _result_of(future: Future[Any]) -> MapResult:
    try:
        return MapResult(StatusKind.COMPLETE, future.result())
    except TimeoutError as error:
        return MapResult(StatusKind.TIMEOUT, error)
    except Exception as error:  # it is the result
        return MapResult(StatusKind.EXCEPTION, error)

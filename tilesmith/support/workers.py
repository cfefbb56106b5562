"""Runs worker processes that receive jobs through pipes.

    pool = WorkerPool("tilesmith.driver.worker", count=2)      # starts `python -m MODULE` twice
    future = pool.submit({"job": "compile"}, blobs=[text])     # a concurrent.futures.Future
    reply, blobs = future.result()

and in the module of the worker:

    if __name__ == "__main__":
        serve(lambda request, blobs: ({"size": len(blobs[0])}, [compile(blobs[0])]))

A worker runs as a module with the parent's `sys.path`: neither fork (threads and LLVM do not
survive it) nor multiprocessing (which runs the user's unguarded script again). It ends with the
parent's pipe; one that crashes or exceeds its time is replaced, and only its own job fails.

A message is a frame: the size of a JSON text, the text {"data": …, "sizes": […]}, the blobs.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import queue
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import IO, Any

from tilesmith.support import errors
from tilesmith.support.errors import (
    CodegenError,
    InternalError,
    TilesmithError,
    WorkerStartError,
)

Blobs = Sequence[bytes | memoryview]
Reply = tuple[Any, Blobs]
_MAX_TEXT = 1 << 30


def write_message(stream: IO[bytes], data: Any, blobs: Blobs = ()) -> None:
    """Write one frame."""
    text = json.dumps({"data": data, "sizes": [len(blob) for blob in blobs]}).encode()
    stream.write(len(text).to_bytes(8, "little"))
    stream.write(text)
    for blob in blobs:
        stream.write(blob)
    stream.flush()


def read_message(stream: IO[bytes]) -> tuple[Any, list[bytes]] | None:
    """Read one frame. Return None at the end of the stream; raise InternalError if it ends within a
    frame.
    """
    head = stream.read(8)
    if not head:
        return None
    size = int.from_bytes(head, "little")
    if len(head) < 8 or size > _MAX_TEXT:
        raise InternalError("a pipe to a worker carries something that is not a message")
    message = json.loads(_read(stream, size))
    return message["data"], [_read(stream, length) for length in message["sizes"]]


def _read(stream: IO[bytes], size: int) -> bytes:
    content = stream.read(size)
    if len(content) < size:
        raise InternalError("a pipe to a worker ended within a message")
    return content


def serve(
    handle: Callable[[Any, list[bytes]], Reply], start: Callable[[], object] | None = None
) -> None:
    """Answer requests from the parent until its pipe closes; the worker's main program calls this.

    ``start`` is called first. If it fails, the first request is answered with a WorkerStartError
    that says why, and the worker ends.

    Output that code prints goes to standard error, so that it cannot disturb the messages.
    """
    # Ctrl-C reaches the whole group of processes; the parent decides what becomes of the workers
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    try:
        if start is not None:
            start()
    except Exception as error:
        failed = _describe(_start_error(error))
        if read_message(requests) is not None:
            with contextlib.suppress(BrokenPipeError):
                write_message(replies, {"error": failed})
        sys.exit(1)
    while True:
        message = read_message(requests)
        if message is None:
            return
        try:
            data, blobs = handle(*message)
            reply: dict[str, Any] = {"ok": data}
        except Exception as error:  # every error is sent to the parent
            reply, blobs = {"error": _describe(error)}, ()
        try:
            write_message(replies, reply, blobs)
        except BrokenPipeError:
            return


def _start_error(error: Exception) -> WorkerStartError:
    words = error.message if isinstance(error, TilesmithError) else str(error)
    return WorkerStartError(
        f"the worker cannot start: {type(error).__name__}: {words}",
        notes=("".join(traceback.format_exception(error)),),
    )


def _describe(error: Exception) -> dict[str, Any]:
    described: dict[str, Any] = {"kind": type(error).__name__, "message": str(error)}
    if isinstance(error, TilesmithError):
        described.update(message=error.message, notes=list(error.notes))
        described["span"] = errors.format_span(error.span) or None
    else:
        described["traceback"] = traceback.format_exc()
    return described


def _rebuild(described: dict[str, Any]) -> Exception:
    kind = getattr(errors, described["kind"], None)
    if isinstance(kind, type) and issubclass(kind, TilesmithError):
        error = kind.__new__(kind)
        notes = described.get("notes", ())
        TilesmithError.__init__(error, described["message"], described.get("span"), notes)
        return error
    return InternalError(
        f"a worker failed: {described['kind']}: {described['message']}",
        notes=(described.get("traceback", ""),),
    )


class Worker:
    """One worker process. Call `request` from one thread at a time; `kill` from any."""

    def __init__(
        self, module: str, arguments: Sequence[str] = (), more: Mapping[str, str] | None = None
    ) -> None:
        """Start ``python -m MODULE ARGUMENTS…`` with ``more`` variables in its environment."""
        environment = dict(os.environ)
        environment["PYTHONPATH"] = os.pathsep.join([os.path.abspath(path) for path in sys.path])
        environment.update(more or {})
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            process_group=0,  # Ctrl-C reaches only the parent, also while the worker starts
        )

    def request(
        self, data: Any, blobs: Blobs = (), timeout: float | None = None
    ) -> tuple[Any, list[bytes]]:
        """Send a request and wait for the reply.

        Raises what the worker raised, or CodegenError when it died or exceeded `timeout` seconds
        (it is killed then).
        """
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            self.kill()

        timer = threading.Timer(timeout, expire) if timeout is not None else None
        if timer is not None:
            timer.daemon = True
            timer.start()
        try:
            assert self.process.stdin is not None and self.process.stdout is not None
            write_message(self.process.stdin, data, blobs)
            message = read_message(self.process.stdout)
        except (OSError, ValueError, InternalError):
            message = None
        finally:
            if timer is not None:
                timer.cancel()
        if message is None:
            self.kill()
            raise CodegenError(self._death(expired.is_set(), timeout))
        reply, received = message
        if "error" in reply:
            raise _rebuild(reply["error"])
        return reply["ok"], received

    def _death(self, expired: bool, timeout: float | None) -> str:
        if expired:
            return f"a worker did not finish within {timeout} seconds and was stopped"
        code = self.process.wait()
        reason = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"a worker process died ({reason}) while it did a job"

    @property
    def alive(self) -> bool:
        """True if the process is running."""
        return self.process.poll() is None

    def stop(self, seconds: float = 5.0) -> None:
        """Ask the process to end at once, with the processes that it started; kill it if it does
        not within some seconds.
        """
        with contextlib.suppress(OSError):
            self.process.terminate()
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End the process at once."""
        with contextlib.suppress(OSError):
            self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """Close the pipe, so that the process ends by itself."""
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.kill()


class WorkerPool:
    """Processes that take jobs in the order in which they are submitted, urgent ones first.

    All processes start at once, before there are jobs. The pool ends with `close`, as a context
    manager, or with the program.
    """

    def __init__(
        self,
        module: str,
        count: int,
        arguments: Sequence[str] = (),
        more: Mapping[str, str] | None = None,
    ) -> None:
        self._start = partial(Worker, module, tuple(arguments), more)
        self._jobs: queue.PriorityQueue[tuple[float, int, Any]] = queue.PriorityQueue()
        self._numbers = itertools.count()
        self._closed = False
        self._threads = []
        for _ in range(max(1, count)):
            worker = self._start()
            thread = threading.Thread(target=self._run, args=(worker,), daemon=True)
            thread.start()
            self._threads.append(thread)

    @property
    def count(self) -> int:
        """Number of processes."""
        return len(self._threads)

    def submit(
        self, data: Any, blobs: Blobs = (), timeout: float | None = None, urgency: float = 0
    ) -> Future[Any]:
        """Give a job to the next idle worker; of the jobs that wait, the most urgent is the first.
        The future's result is (data, blobs); its exception what the worker raised, or CodegenError
        when the worker died or exceeded `timeout`."""
        if self._closed:
            raise InternalError("the pool of workers is closed")
        future: Future[Any] = Future()
        self._jobs.put((-urgency, next(self._numbers), (future, data, blobs, timeout)))
        return future

    def _run(self, worker: Worker) -> None:
        while True:
            _, _, job = self._jobs.get()
            if job is None:
                worker.close()
                return
            future, data, blobs, timeout = job
            if not future.set_running_or_notify_cancel():
                continue
            if not worker.alive:
                worker = self._start()
            try:
                future.set_result(worker.request(data, blobs, timeout))
            except BaseException as error:  # whoever waits for the result must see the error
                future.set_exception(error)

    def close(self) -> None:
        """Finish the jobs that are submitted, then end all processes."""
        if not self._closed:
            self._closed = True
            for _ in self._threads:
                self._jobs.put((math.inf, next(self._numbers), None))
            for thread in self._threads:
                thread.join()

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

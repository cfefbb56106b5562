"""Defines `SessionWorker`: a process that serves one session, so that code which crashes or does
not end takes nothing else with it.

The process gets its settings and the session's socket through a pair of sockets. It ends with the
session, or when that pair is closed, as it is when its owner ends.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from typing import Any

from tilesmith.rpc.channel import Channel, Deadline
from tilesmith.rpc.faults import rebuild_fault
from tilesmith.rpc.protocol import Frame, Kind, Operation, decode, encode
from tilesmith.support.errors import UnsupportedError, WorkerStartError

START_SECONDS = 120.0
"""How long a process may take until it is ready for a session."""


class SessionWorker:
    """One process for one session. `settings` are those of `session_process.serve`."""

    def __init__(self, settings: dict[str, Any], silent: bool = False) -> None:
        if not hasattr(socket, "send_fds"):
            raise UnsupportedError(
                "this system cannot hand a connection to another process",
                notes=("serve in the process itself: Server(no_fork=True)",),
            )
        self._folder = tempfile.TemporaryDirectory(prefix="tilesmith-session-")
        ours, theirs = socket.socketpair()
        environment = dict(os.environ)
        environment["PYTHONPATH"] = os.pathsep.join([os.path.abspath(path) for path in sys.path])
        output = subprocess.DEVNULL if silent else None
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tilesmith.rpc.session_process", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                pass_fds=[theirs.fileno()],
                process_group=0,  # Ctrl-C is for the owner, who ends the process
            )
        self._control = Channel(ours, f"process {self.process.pid}")
        body = encode({**settings, "folder": self._folder.name})
        self._control.send(Frame(Kind.REQUEST, Operation.HELLO, 0, body))
        self._is_ready = False

    def wait_until_ready(self) -> None:
        """Wait until the process can take a session. Raises the error that keeps it from that."""
        if self._is_ready:
            return
        try:
            answer = self._control.receive(Deadline(START_SECONDS))
        except TimeoutError:
            self.end()
            raise WorkerStartError(
                f"a process for sessions was not ready within {START_SECONDS:g} seconds"
            ) from None
        if answer is None or answer.kind is not Kind.RESULT:
            self.end()
            if answer is None:
                raise WorkerStartError("a process for sessions ended while it started")
            raise rebuild_fault(decode(answer.body), "the process for sessions")
        self._is_ready = True

    def start(self, connection: socket.socket) -> None:
        """Let the process serve a session over a connected socket."""
        self.wait_until_ready()
        try:
            socket.send_fds(self._control.socket, [b"S"], [connection.fileno()])
        except OSError as error:
            self.end()
            raise WorkerStartError(f"a process for sessions is gone: {error}") from None

    @property
    def is_alive(self) -> bool:
        """True if the process runs."""
        return self.process.poll() is None

    def wait(self, seconds: float | None) -> bool:
        """Wait for the end of the session; true if it came within some seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        return not self.is_alive

    def end(self) -> None:
        """End the process at once, and remove the session's files."""
        self._control.close()
        if self.is_alive:
            self.process.kill()
            self.process.wait()
        with contextlib.suppress(OSError):  # it lies in the folder of temporary files
            self._folder.cleanup()

    def __del__(self) -> None:
        if hasattr(self, "_control"):
            self._control.close()
            # closing the pair ends it; a process that is busy does not see that
            deadline = time.monotonic() + 1.0
            while self.is_alive and time.monotonic() < deadline:
                time.sleep(0.01)
            self.end()

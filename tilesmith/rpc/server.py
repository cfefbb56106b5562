"""Defines `Server`, which lets other programs open sessions on this machine.

A session may load code and call every registered function: whoever can open one may do what the
server's user may. The server therefore listens to this machine only, unless it is given another
host, and clients have to know its key. The key is no encryption: across networks that others use,
reach the server through a tunnel (``ssh -L``).
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import threading
from collections.abc import Callable
from typing import Any

from tilesmith.rpc.channel import Channel, welcome
from tilesmith.rpc.listener import Listener
from tilesmith.rpc.service import Service
from tilesmith.rpc.session_process import load_libraries, serve_channel
from tilesmith.rpc.tracker_client import TrackerLink
from tilesmith.rpc.worker import SessionWorker
from tilesmith.support.errors import TilesmithError, TypeMismatchError, UnsupportedError

__all__ = ["Server"]


class Server:
    """Serves sessions, each in a process of its own, until `terminate` is called or this program
    ends.

    It listens at the first free port from `port` on, before `port_end` (`port` tells which). With
    `tracker_addr`, (host, port), it offers itself to a tracker under its key, for one session at a
    time; `custom_addr` is the host that clients are told then. `load_library` names shared
    libraries to load first, separated as in PATH; `server_init_callback`, a function of a module,
    is called in each process of a session, to register functions for instance. `no_fork` serves
    the sessions in threads of this process: its registered functions are there, but a crash ends
    all of it. `silent` keeps the output of sessions to itself. `timeout` limits the life of
    sessions whose clients set no limit.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 9091,
        port_end: int = 9199,
        is_proxy: bool = False,
        tracker_addr: tuple[str, int] | None = None,
        key: str = "",
        load_library: str | None = None,
        custom_addr: str | None = None,
        silent: bool = False,
        no_fork: bool = False,
        server_init_callback: Callable[[], object] | None = None,
        reuse_addr: bool = True,
        timeout: float | None = None,
    ) -> None:
        if is_proxy:
            raise UnsupportedError(
                "servers are not reached through a proxy",
                notes=("let the clients connect directly, or through ssh -L",),
            )
        self.host = host
        self.custom_addr = custom_addr
        self._key = str(key)
        self._silent = silent
        self._timeout = timeout
        self._in_process = no_fork
        self._settings: dict[str, Any] = {"load_library": load_library}
        self.workers: set[SessionWorker] = set()
        self._spare: SessionWorker | None = None
        self._lock = threading.Lock()
        self._is_ended = False
        self._link: TrackerLink | None = None
        self._listener: Listener | None = None
        if no_fork:
            load_libraries(load_library)
            if server_init_callback is not None:
                server_init_callback()
        else:
            self._settings["callback"] = _name_of(server_init_callback)
            self._spare = self._start_worker()
            self._spare.wait_until_ready()
        try:
            self._listener = Listener(host, port, port_end, self._welcome, reuse_addr)
            self.port = self._listener.port
            if tracker_addr is not None:
                self._link = TrackerLink(tuple(tracker_addr), self._key, custom_addr, self.port)
                self._link.start(silent)
        except BaseException:
            self.terminate()
            raise
        self._listener.start()
        self._say(f"listening at {host}:{self.port}")

    def _say(self, text: str) -> None:
        if not self._silent:
            print(f"rpc.Server: {text}", file=sys.stderr, flush=True)

    # -- sessions -------------------------------------------------------------------------------

    def _welcome(self, channel: Channel) -> None:
        """Serve a client that has connected; runs in a thread of its own."""
        link = self._link
        keys = (self._key,) if link is None else link.tokens()
        advice = (
            "give the key of the server: connect(…, key=…)"
            if link is None
            else "this server is lent by its tracker: connect_tracker(…).request(key)"
        )
        wishes = welcome(channel, keys, advice, {"server": self._key})
        if wishes is None:
            return
        if link is not None:
            link.begin()
        self._say(f"a session with {channel.where} begins")
        try:
            self._serve(channel, self._limit(wishes))
        except TilesmithError as error:  # of the connection, or of the process that should serve it
            self._say(f"the session with {channel.where} failed: {error.message}")
        finally:
            self._say(f"the session with {channel.where} has ended")
            if link is not None:
                link.offer()

    def _limit(self, wishes: dict[str, Any]) -> float | None:
        wanted = wishes.get("session_timeout")
        if isinstance(wanted, (int, float)) and wanted > 0:
            return float(wanted)
        return self._timeout or None

    def _serve(self, channel: Channel, seconds: float | None) -> None:
        if self._in_process:
            self._serve_here(channel, seconds)
            return
        worker = self._take_worker()
        try:
            worker.start(channel.socket)
            with contextlib.suppress(OSError):  # it may have been closed meanwhile
                channel.socket.close()  # the process has it
            if not worker.wait(seconds):
                self._say(f"the session with {channel.where} is over after {seconds:g} seconds")
        finally:
            self._end_worker(worker)

    def _serve_here(self, channel: Channel, seconds: float | None) -> None:
        timer = threading.Timer(seconds or 0, channel.close)
        timer.daemon = True
        if seconds:
            timer.start()
        with tempfile.TemporaryDirectory(prefix="tilesmith-session-") as folder:
            try:
                serve_channel(channel, Service(folder))
            finally:
                timer.cancel()

    def _start_worker(self) -> SessionWorker:
        worker = SessionWorker(self._settings, self._silent)
        with self._lock:
            self.workers.add(worker)
            is_late = self._is_ended
        if is_late:
            worker.end()
        return worker

    def _take_worker(self) -> SessionWorker:
        """Return a process for a session, and start the one for the next session."""
        with self._lock:
            worker, self._spare = self._spare, None
        if worker is not None and not worker.is_alive:
            self._end_worker(worker)
            worker = None
        if worker is None:
            worker = self._start_worker()
        spare = self._start_worker()
        with self._lock:
            unused, self._spare = self._spare, spare
        if unused is not None:  # of a session that began at the same time
            self._end_worker(unused)
        return worker

    def _end_worker(self, worker: SessionWorker) -> None:
        worker.end()
        with self._lock:
            self.workers.discard(worker)

    def _end_workers(self) -> None:
        with self._lock:
            workers, self._spare, self._is_ended = list(self.workers), None, True
        for worker in workers:
            worker.end()

    # -- the end --------------------------------------------------------------------------------

    def terminate(self) -> None:
        """End the server and all its sessions. Calling it again does nothing."""
        if self._link is not None:
            self._link.end()
        if self._listener is not None:
            self._listener.end()
        self._end_workers()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the server is terminated (at most some seconds); true if it is."""
        return self._listener is None or self._listener.wait(seconds)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *details: object) -> None:
        self.terminate()

    def __repr__(self) -> str:
        return f"Server({self.host}:{self.port}, key={self._key!r})"


def _name_of(callback: Callable[[], object] | None) -> str | None:
    """Return the name under which another process can import a function."""
    if callback is None:
        return None
    module = getattr(callback, "__module__", None)
    name = getattr(callback, "__qualname__", "")
    if not module or module == "__main__" or "<" in name or not name:
        raise TypeMismatchError(
            "server_init_callback has to be a function that another process can import",
            notes=(
                "put it into a module of its own",
                "or serve the sessions in this process: Server(no_fork=True)",
            ),
        )
    return f"{module}:{name}"

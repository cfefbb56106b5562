"""Speaks with a tracker: for a client that wants a server, and for a server that offers itself."""

from __future__ import annotations

import itertools
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from tilesmith.rpc.channel import Deadline, connect_channel, introduce
from tilesmith.rpc.faults import rebuild_fault
from tilesmith.rpc.protocol import Frame, Kind, Operation, decode, encode
from tilesmith.support.errors import RPCError, RPCSessionTimeoutError

ANSWER_SECONDS = 30.0
"""How long a tracker may take to answer."""
WAIT_SECONDS = 600.0
"""How long a request waits for a free server, unless it says something else."""
HEARTBEAT_SECONDS = 1.0
RETRY_SECONDS = 2.0
UNCLAIMED_SECONDS = 20.0


class TrackerChannel:
    """Requests to a tracker over one connection."""

    def __init__(self, host: str, port: int) -> None:
        self._channel = connect_channel(host, port)
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        try:
            introduce(self._channel, "", {})
        except BaseException:
            self._channel.close()
            raise

    def request(self, operation: Operation, *arguments: Any, wait: float = 0) -> Any:
        """Return the result of an operation; it may take `wait` seconds more than usual."""
        channel = self._channel
        with self._lock:
            number = next(self._numbers) & 0xFFFFFFFF
            channel.send(Frame(Kind.REQUEST, operation, number, encode(list(arguments))))
            try:
                answer = channel.receive(Deadline(wait + ANSWER_SECONDS))
            except TimeoutError:
                self.close()
                raise RPCSessionTimeoutError(
                    f"the tracker {channel.where} did not answer",
                    notes=("connect again, or start it again",),
                ) from None
        if answer is None or answer.number != number:
            self.close()
            raise RPCError(
                f"the tracker {channel.where} has closed the connection",
                notes=("has it been ended? connect again",),
            )
        value = decode(answer.body)
        if answer.kind is Kind.FAULT:
            raise rebuild_fault(value, f"the tracker {channel.where}")
        return value

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()


class TrackerSession:
    """A connection with a tracker, from which sessions are requested; see `connect_tracker`."""

    def __init__(self, addr: tuple[str, int], connect: Callable[..., Any]) -> None:
        self._addr = addr
        self._connect = connect
        self._channel: TrackerChannel | None = TrackerChannel(*addr)

    def close(self) -> None:
        """Close the connection."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def __del__(self) -> None:
        if hasattr(self, "_channel"):
            self.close()

    def summary(self) -> dict[str, Any]:
        """Return what the tracker knows: "queue_info", free servers and waiting requests by key,
        and "server_info", key and address of each server.
        """
        if self._channel is None:
            raise RPCError("the connection with the tracker is closed", notes=("connect again",))
        found: dict[str, Any] = self._channel.request(Operation.SUMMARY)
        return found

    def text_summary(self) -> str:
        """Return the summary as two tables."""
        found = self.summary()
        servers = [
            (f"{one['addr'][0]}:{one['addr'][1]}", str(one["key"])) for one in found["server_info"]
        ]
        counts: dict[str, int] = {}
        for one in found["server_info"]:
            name = str(one["key"]).removeprefix("server:")
            counts[name] = counts.get(name, 0) + 1
        queues = [
            (key, str(counts.get(key, 0)), str(queue["free"]), str(queue["pending"]))
            for key, queue in sorted(found["queue_info"].items())
        ]
        return "\n".join(
            [
                "Servers",
                *_table(("address", "key"), servers),
                "",
                "Queues",
                *_table(("key", "total", "free", "pending"), queues),
            ]
        )

    def request(
        self,
        key: str,
        priority: int = 1,
        session_timeout: float = 0,
        max_retry: int = 5,
        session_constructor_args: Any = None,
        wait_seconds: float = WAIT_SECONDS,
    ) -> Any:
        """Open a session at a server of a key, as soon as one is free.

        Requests of a higher priority come first. A server that cannot be reached is passed over,
        `max_retry` times. Raises RPCError when none is free within `wait_seconds`.
        """
        failed: RPCError | None = None
        for _ in range(max(1, max_retry)):
            host, port, token = self._acquire(key, priority, wait_seconds)
            try:
                return self._connect(host, port, token, session_timeout, session_constructor_args)
            except RPCError as error:
                failed = error
        assert failed is not None
        raise RPCError(
            f"no session with a server of the key '{key}': {failed.message}", notes=failed.notes
        )

    def _acquire(self, key: str, priority: int, seconds: float) -> tuple[str, int, str]:
        # a connection of its own: closing it withdraws the request
        channel = TrackerChannel(*self._addr)
        try:
            wishes = (key, socket.gethostname(), int(priority), float(seconds))
            found = channel.request(Operation.ACQUIRE, *wishes, wait=seconds)
        finally:
            channel.close()
        host, port, token = found
        return str(host), int(port), str(token)

    def request_and_run(
        self,
        key: str,
        func: Callable[[Any], Any],
        priority: int = 1,
        session_timeout: float = 0,
        max_retry: int = 2,
    ) -> Any:
        """Call a function with a session; if the session fails, with another one, `max_retry`
        times.
        """
        failed: RPCError | None = None
        for _ in range(max(1, max_retry)):
            session = self.request(key, priority, session_timeout)
            try:
                return func(session)
            except RPCError as error:
                failed = error
            finally:
                session.close()
        assert failed is not None
        raise RPCError(
            f"the function failed with {max(1, max_retry)} sessions: {failed.message}",
            notes=failed.notes,
        )


def open_tracker(host: str, port: int, connect: Callable[..., Any]) -> TrackerSession:
    """Return a session with a tracker; `connect` opens sessions at servers."""
    return TrackerSession((host, int(port)), connect)


def _table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    rule = "-" * (sum(widths) + 3 * len(widths))
    lines = ["   ".join([cell.ljust(width) for cell, width in zip(row, widths)]).rstrip()
             for row in [heads, *rows]]  # fmt: skip
    return [rule, lines[0], rule, *lines[1:], rule]


class TrackerLink:
    """Offers a server to a tracker, for one session at a time.

    Each offer has a token of its own, which the tracker gives to the client that gets the server.
    The connection is made again when it breaks, and an offer that nobody has claimed is renewed.
    """

    def __init__(self, addr: tuple[Any, ...], key: str, custom_addr: str | None, port: int) -> None:
        self._addr = (str(addr[0]), int(addr[1]))
        self._announcement = (key, custom_addr, port)
        self._is_ended = False
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._token = secrets.token_hex(16)
        self._sessions = 0
        self._taken_at: float | None = None
        self._is_due = False
        self._silent = False

    def start(self, silent: bool) -> None:
        """Register with the tracker. Raises RPCError if it is not there."""
        self._silent = silent
        channel = self._register()
        threading.Thread(target=self._run, args=(channel,), daemon=True).start()

    def tokens(self) -> tuple[str, ...]:
        """Return what a client may show to be let in."""
        with self._lock:
            return () if self._sessions else (self._token,)

    def begin(self) -> None:
        """Note that a session has begun: the token is used up."""
        with self._lock:
            self._sessions += 1
            self._token = secrets.token_hex(16)
            self._taken_at = None

    def offer(self) -> None:
        """Note that a session has ended, and offer the server again."""
        with self._lock:
            self._sessions -= 1
            self._is_due = True
        self._wake.set()

    def end(self) -> None:
        """Stop offering the server."""
        self._is_ended = True
        self._wake.set()

    def _register(self) -> TrackerChannel:
        channel = TrackerChannel(*self._addr)
        try:
            channel.request(Operation.ANNOUNCE, *self._announcement)
            if not self._sessions:
                channel.request(Operation.OFFER, self._token)
        except BaseException:
            channel.close()
            raise
        return channel

    def _run(self, channel: TrackerChannel | None) -> None:
        while True:
            self._wake.wait(HEARTBEAT_SECONDS if channel else RETRY_SECONDS)
            self._wake.clear()
            if self._is_ended:
                break
            try:
                if channel is None:
                    channel = self._register()
                self._beat(channel)
            except RPCError as error:
                if not self._silent and channel is not None:
                    print(f"rpc.Server: {error.message}; trying again", file=sys.stderr)
                if channel is not None:
                    channel.close()
                channel = None
        if channel is not None:
            channel.close()

    def _beat(self, channel: TrackerChannel) -> None:
        waiting = channel.request(Operation.WAITING)
        now = time.monotonic()
        with self._lock:
            if self._sessions or self._token in waiting:
                self._taken_at = None
                return
            if self._taken_at is None:
                self._taken_at = now  # a client has the token now, and should come soon
            if not self._is_due and now - self._taken_at < UNCLAIMED_SECONDS:
                return
            self._is_due = False
            self._token = secrets.token_hex(16)
            self._taken_at = None
            token = self._token
        channel.request(Operation.OFFER, token)

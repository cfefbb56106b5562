"""Defines `Tracker`, which knows servers by their keys, and lends each to one client at a time.

A tracker knows no secrets but the tokens of the offers, and runs no code for anybody. Whoever can
reach it can request its servers, so that it listens to this machine only, unless it is given
another host.
"""

from __future__ import annotations

import heapq
import itertools
import select
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from tilesmith.rpc.channel import Channel, Deadline, welcome
from tilesmith.rpc.faults import describe_fault
from tilesmith.rpc.listener import Listener
from tilesmith.rpc.protocol import Frame, Kind, Operation, decode, encode
from tilesmith.support.errors import RPCError, TilesmithError

__all__ = ["PriorityScheduler", "Scheduler", "Tracker", "TrackerServerHandler"]

LARGEST_REQUEST = 1 << 16
LONGEST_WAIT = 24 * 3600.0
_POLL_SECONDS = 0.1

Callback = Callable[[Any], bool]


class Scheduler:
    """Brings values (servers) and requests for them together."""

    def put(self, value: Any) -> None:
        """Add a value, which goes to a waiting request if there is one."""
        raise NotImplementedError

    def request(self, user: str, priority: int, callback: Callback) -> None:
        """Call `callback` with a value as soon as there is one. It returns whether it takes it."""
        raise NotImplementedError

    def remove(self, value: Any) -> None:
        """Remove a value that nobody has taken."""
        raise NotImplementedError

    def summary(self) -> dict[str, int]:
        """Return how many values are free, and how many requests wait."""
        raise NotImplementedError


class PriorityScheduler(Scheduler):
    """Serves the request of the highest priority first, then the oldest one."""

    def __init__(self, key: str) -> None:
        self.key = key
        self._values: list[Any] = []
        self._requests: list[tuple[int, int, Callback]] = []
        self._order = itertools.count()
        self._lock = threading.RLock()

    def put(self, value: Any) -> None:
        """Add a value, which goes to the first request that takes it."""
        with self._lock:
            self._values.append(value)
            self._match()

    def request(self, user: str, priority: int, callback: Callback) -> None:
        """Call `callback` with a value as soon as there is one. It returns whether it takes it; if
        not, the request is dropped.
        """
        with self._lock:
            heapq.heappush(self._requests, (-priority, next(self._order), callback))
            self._match()

    def withdraw(self, callback: Callback) -> None:
        """Forget a request that waits."""
        with self._lock:
            self._requests = [one for one in self._requests if one[2] is not callback]
            heapq.heapify(self._requests)

    def _match(self) -> None:
        while self._values and self._requests:
            _, _, callback = heapq.heappop(self._requests)
            value = self._values.pop(0)
            if not callback(value):
                self._values.insert(0, value)

    def remove(self, value: Any) -> None:
        """Remove a value that nobody has taken."""
        with self._lock:
            if value in self._values:
                self._values.remove(value)

    def values(self) -> list[Any]:
        """Return the values that nobody has taken."""
        with self._lock:
            return list(self._values)

    def summary(self) -> dict[str, int]:
        """Return how many values are free, and how many requests wait."""
        with self._lock:
            return {"free": len(self._values), "pending": len(self._requests)}


class Offer(NamedTuple):
    """A server that is free: its address, and the token that lets a client in."""

    host: str
    port: int
    token: str


class _Client:
    """One connection with the tracker: of a server if it has announced a key."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.key: str | None = None
        self.host = channel.where.rpartition(":")[0]
        self.port = 0
        self.offers: list[Offer] = []


class TrackerServerHandler:
    """The tables of a tracker: a scheduler for each key, and the servers that are connected."""

    def __init__(self) -> None:
        self._schedulers: dict[str, PriorityScheduler] = {}
        self._servers: list[_Client] = []
        self._lock = threading.RLock()

    def create_scheduler(self, key: str) -> PriorityScheduler:
        """Return the scheduler of a key."""
        with self._lock:
            return self._schedulers.setdefault(key, PriorityScheduler(key))

    def announce(self, client: _Client, key: str, host: str | None, port: int) -> None:
        """Note key and address of a server."""
        with self._lock:
            client.key, client.host, client.port = key, host or client.host, port
            if client not in self._servers:
                self._servers.append(client)

    def offer(self, client: _Client, token: str) -> None:
        """Offer a server for one session."""
        if client.key is None:
            raise RPCError("a server announces its key before it offers itself")
        made = Offer(client.host, client.port, token)
        client.offers = [made]
        self.put(client.key, made)

    def put(self, key: str, value: Any) -> None:
        """Add a free server of a key."""
        self.create_scheduler(key).put(value)

    def request(self, key: str, user: str, priority: int, callback: Callback) -> None:
        """Call `callback` with a server of a key as soon as one is free."""
        self.create_scheduler(key).request(user, priority, callback)

    def waiting(self, client: _Client) -> list[str]:
        """Return the tokens of a server's offers that nobody has taken."""
        if client.key is None:
            return []
        free = self.create_scheduler(client.key).values()
        return [offer.token for offer in client.offers if offer in free]

    def close(self, conn: _Client) -> None:
        """Forget a connection, with what it has offered."""
        with self._lock:
            if conn in self._servers:
                self._servers.remove(conn)
        if conn.key is not None:
            for offer in conn.offers:
                self.create_scheduler(conn.key).remove(offer)

    def summary(self) -> dict[str, Any]:
        """Return free servers and waiting requests by key, and all servers."""
        with self._lock:
            queues = {key: one.summary() for key, one in self._schedulers.items()}
            keys = {client.key for client in self._servers}
            shown = {k: q for k, q in queues.items() if k in keys or q["free"] or q["pending"]}
            servers = [
                {"key": f"server:{client.key}", "addr": [client.host, client.port]}
                for client in self._servers
            ]
        return {"queue_info": shown, "server_info": servers}


class Tracker:
    """Serves `connect_tracker` until `terminate` is called or this program ends.

    It listens at the first free port from `port` on, before `port_end` (`port` tells which).
    `timeout` limits how long a request may wait for a server.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 9190,
        port_end: int = 9199,
        silent: bool = False,
        reuse_addr: bool = True,
        timeout: float | None = None,
    ) -> None:
        self.host = host
        self._longest_wait = timeout or LONGEST_WAIT
        self.handler = TrackerServerHandler()
        self._listener = Listener(host, port, port_end, self._welcome, reuse_addr)
        self.port = self._listener.port
        self._listener.start()
        if not silent:
            print(f"rpc.Tracker: listening at {host}:{self.port}", file=sys.stderr, flush=True)

    def _welcome(self, channel: Channel) -> None:
        """Answer the requests of one connection; runs in a thread of its own."""
        if welcome(channel, ("",), "a tracker has no key", {}) is None:
            return
        client = _Client(channel)
        try:
            while frame := channel.receive(Deadline(None), LARGEST_REQUEST):
                if not self._reply(client, frame):
                    return
        except (RPCError, TimeoutError):
            return  # the connection is gone, and nobody is there to be told
        finally:
            self.handler.close(client)

    def _reply(self, client: _Client, frame: Frame) -> bool:
        kind, taken = Kind.RESULT, None
        try:
            result = self._answer(client, frame)
            taken = result if isinstance(result, Offer) else None
            body = encode(tuple(result) if taken else result)
        except TilesmithError as error:  # it is the answer
            kind, body = Kind.FAULT, encode(describe_fault(error))
        try:
            client.channel.send(Frame(kind, frame.operation, frame.number, body))
        except RPCError:
            if taken is not None:
                self.handler.put(decode(frame.body)[0], taken)  # who wanted it is gone
            return False
        return True

    def _answer(self, client: _Client, frame: Frame) -> Any:
        match frame.operation, decode(frame.body):
            case Operation.SUMMARY, []:
                return self.handler.summary()
            case Operation.ANNOUNCE, [str(key), str() | None as host, int(port)]:
                return self.handler.announce(client, key, host, port)
            case Operation.OFFER, [str(token)]:
                return self.handler.offer(client, token)
            case Operation.WAITING, []:
                return self.handler.waiting(client)
            case Operation.ACQUIRE, [str(key), str(user), int(priority), float(seconds)]:
                return self._acquire(client, key, user, priority, seconds)
        raise RPCError("this is no request that a tracker knows")

    def _acquire(
        self, client: _Client, key: str, user: str, priority: int, seconds: float
    ) -> Offer:
        """Wait for a free server. Raises RPCError when there is none in time."""
        found: list[Offer] = []
        is_over, lock = threading.Event(), threading.Lock()
        arrived = threading.Event()

        def take(offer: Offer) -> bool:
            with lock:
                if is_over.is_set():
                    return False
                found.append(offer)
            arrived.set()
            return True

        self.handler.request(key, user, priority, take)
        deadline = Deadline(min(max(seconds, 0.0), self._longest_wait))
        while not arrived.wait(_POLL_SECONDS):
            if deadline.is_over or self._listener.is_ended or _is_gone(client.channel):
                with lock:
                    is_over.set()
                    if found:
                        break
                self.handler.create_scheduler(key).withdraw(take)
                raise self._none_free(key, seconds)
        return found[0]

    def _none_free(self, key: str, seconds: float) -> RPCError:
        found = self.handler.summary()
        keys = sorted({one["key"].removeprefix("server:") for one in found["server_info"]})
        has = f"it has servers of the keys: {', '.join(keys)}" if keys else "it has no servers"
        return RPCError(
            f"no server of the key '{key}' was free within {seconds:g} seconds",
            notes=(has, "start one: rpc.Server(tracker_addr=…, key=…)"),
        )

    def terminate(self) -> None:
        """End the tracker. Calling it again does nothing."""
        self._listener.end()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the tracker is terminated (at most some seconds); true if it is."""
        return self._listener.wait(seconds)

    def __enter__(self) -> Tracker:
        return self

    def __exit__(self, *details: object) -> None:
        self.terminate()

    def __repr__(self) -> str:
        return f"Tracker({self.host}:{self.port})"


def _is_gone(channel: Channel) -> bool:
    """True if a client has closed its connection while it waits."""
    try:
        readable, _, _ = select.select([channel.socket], [], [], 0)
    except (OSError, ValueError):
        return True
    return bool(readable)  # it sends nothing while it waits: this is the end

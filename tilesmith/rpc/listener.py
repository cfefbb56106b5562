"""Listens at a port: what servers and trackers have in common."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable

from tilesmith.rpc.channel import Channel
from tilesmith.support.errors import RPCError

_POLL_SECONDS = 0.2
_MOST_CLIENTS = 256


class Listener:
    """Accepts connections in a thread, each of which `handle` gets in a thread of its own.

    The port is the first free one from `port` on, before `port_end`; 0 lets the system choose.
    """

    def __init__(
        self,
        host: str,
        port: int,
        port_end: int,
        handle: Callable[[Channel], None],
        reuse_addr: bool = True,
    ) -> None:
        self._handle = handle
        self._socket, self.port = _bind(host, port, port_end, reuse_addr)
        self._socket.settimeout(_POLL_SECONDS)
        self._is_ended = threading.Event()
        self._channels: set[Channel] = set()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def start(self) -> None:
        """Begin to accept connections."""
        self._thread.start()

    @property
    def is_ended(self) -> bool:
        """True after `end`."""
        return self._is_ended.is_set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is ended; true if it is."""
        return self._is_ended.wait(seconds)

    def _accept(self) -> None:
        while not self.is_ended:
            try:
                connection, address = self._socket.accept()
            except TimeoutError:
                continue
            except OSError:
                return  # the listener has been ended
            channel = Channel(connection, f"{address[0]}:{address[1]}")
            with self._lock:
                is_welcome = len(self._channels) < _MOST_CLIENTS and not self.is_ended
                if is_welcome:
                    self._channels.add(channel)
            if is_welcome:
                threading.Thread(target=self._serve, args=(channel,), daemon=True).start()
            else:
                channel.close()

    def _serve(self, channel: Channel) -> None:
        try:
            self._handle(channel)
        finally:
            channel.close()
            with self._lock:
                self._channels.discard(channel)

    def end(self) -> None:
        """Stop listening, and close all connections."""
        self._is_ended.set()
        self._socket.close()
        with self._lock:
            channels = list(self._channels)
        for channel in channels:
            channel.close()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(5.0)


def _bind(host: str, port: int, port_end: int, reuse_addr: bool) -> tuple[socket.socket, int]:
    reason: OSError | None = None
    for candidate in range(port, max(port_end, port + 1)):
        try:
            family = socket.getaddrinfo(host, candidate, type=socket.SOCK_STREAM)[0][0]
            made = socket.socket(family, socket.SOCK_STREAM)
        except (OSError, OverflowError) as error:
            raise RPCError(f"there is no address {host}:{candidate}: {error}") from None
        try:
            if reuse_addr:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((host, candidate))
            made.listen(64)
            return made, made.getsockname()[1]
        except OSError as error:
            reason = error
            with contextlib.suppress(OSError):
                made.close()
    raise RPCError(
        f"no port of {host} from {port} to {port_end} can be used: {reason}",
        notes=("give another range: port=…, port_end=…; port=0 lets the system choose",),
    )

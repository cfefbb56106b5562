"""Defines `Connection`: the client's end of a session, which its arrays, functions and modules
share.
"""

from __future__ import annotations

import contextlib
import itertools
import struct
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from tilesmith.rpc.channel import Channel, Deadline
from tilesmith.rpc.faults import rebuild_fault
from tilesmith.rpc.protocol import Frame, Kind, Operation, decode, encode
from tilesmith.rpc.service import Service
from tilesmith.runtime.devices import DEVICE_APIS
from tilesmith.support.errors import RPCError, RPCSessionTimeoutError, TypeMismatchError

CALL_SECONDS = 3600.0
"""How long one request may take where the session has no limit of its own."""

_session_numbers = itertools.count()


class Transport(Protocol):
    """Brings requests to the server's end of a session, and answers back."""

    where: str

    def exchange(self, operation: Operation, body: bytearray) -> tuple[Kind, Any]:
        """Return the answer to a request."""

    def close(self) -> None:
        """End the session."""


class SocketTransport:
    """Speaks with another process. `session_timeout` is the life of the session in seconds; 0 is
    without limit, except that no single request may take longer than `CALL_SECONDS`. `closed` is
    called when the session is closed from this side.
    """

    def __init__(
        self,
        channel: Channel,
        session_timeout: float = 0,
        closed: Callable[[], object] | None = None,
    ) -> None:
        self.where = channel.where
        self.channel = channel
        self._life = session_timeout
        self._end = Deadline(session_timeout or None)
        self._numbers = itertools.count(1)
        self._reason: RPCError | None = None
        self._closed = closed

    def exchange(self, operation: Operation, body: bytearray) -> tuple[Kind, Any]:
        """Send a request, and wait for the answer."""
        if self._reason is not None:
            raise RPCError(self._reason.message, None, self._reason.notes)
        number = next(self._numbers) & 0xFFFFFFFF
        frame = Frame(Kind.REQUEST, operation, number, body)
        try:
            self.channel.send(frame)
            left = self._end.left()
            answer = self.channel.receive(Deadline(CALL_SECONDS if left is None else left))
            if answer is None or answer.kind is Kind.REQUEST or answer.number != number:
                raise self._broken(
                    "it was closed" if answer is None else "the answer is of another"
                )
        except TimeoutError:
            raise self._fail(self._late()) from None
        except RPCError as error:
            over = self._life and self._end.is_over
            raise self._fail(self._late() if over else error) from None
        except BaseException:  # Ctrl-C: the answer would be taken for that of the next request
            self._fail(self._broken("a request was interrupted"))
            raise
        return answer.kind, answer.body

    def _broken(self, reason: str) -> RPCError:
        return RPCError(
            f"the session with {self.where} has ended: {reason}",
            notes=(
                "the server may have been ended, or the code that it ran has crashed",
                "connect again; what the session held is gone",
            ),
        )

    def _late(self) -> RPCSessionTimeoutError:
        if self._life:
            return RPCSessionTimeoutError(
                f"the session with {self.where} is over: its {self._life:g} seconds have passed",
                notes=("connect again, with a larger session_timeout (0: without a limit)",),
            )
        return RPCSessionTimeoutError(
            f"{self.where} did not answer within {CALL_SECONDS:g} seconds",
            notes=("give the session a limit of its own: session_timeout=…",),
        )

    def _fail(self, reason: RPCError) -> RPCError:
        self.channel.close()
        self._reason = reason
        return reason

    def close(self) -> None:
        """End the session: the server sees that the connection is closed."""
        self.channel.close()
        if self._reason is None:
            self._reason = closed_error(self.where)
        if self._closed is not None:
            self._closed()


def closed_error(where: str) -> RPCError:
    """Return the error for the use of a session that is closed."""
    return RPCError(
        f"the session with {where} is closed",
        notes=("keep the session as long as its devices, arrays and functions are used",),
    )


class LoopbackTransport:
    """Speaks with a service in this process, in the same messages."""

    where = "this process"

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tilesmith-session-")
        self.service: Service | None = Service(self._folder.name)

    def exchange(self, operation: Operation, body: bytearray) -> tuple[Kind, Any]:
        """Return the answer to a request."""
        if self.service is None:
            raise closed_error(self.where)
        return self.service.answer(operation, body)

    def close(self) -> None:
        """End the session."""
        self.service = None
        with contextlib.suppress(OSError):  # it lies in the folder of temporary files
            self._folder.cleanup()


class Connection:
    """Requests to the server's end. Its number is part of the types of its devices."""

    def __init__(self, transport: Transport) -> None:
        self.number = next(_session_numbers)
        self.where = transport.where
        self.transport = transport
        self._lock = threading.Lock()
        self._freed: deque[int] = deque()
        self._device_types: set[str] = set()
        self.finish: Callable[[], object] = weakref.finalize(self, transport.close)

    def request(self, operation: Operation, *arguments: Any) -> Any:
        """Return the result of an operation at the server; raise the error that it gave there."""
        with self._lock:
            freed = [self._freed.popleft() for _ in range(len(self._freed))]
            content = struct.pack(f"<{len(freed)}Q", *freed)
            try:
                message = encode([content, *arguments])
            except TypeMismatchError:
                self._freed.extend(freed)
                raise
            kind, body = self.transport.exchange(operation, message)
        value = decode(body)
        if kind is Kind.FAULT:
            raise rebuild_fault(value, self.where)
        return value

    def release(self, number: int) -> None:
        """Note that an object of the server is not needed any more; the next request tells it.

        Called while Python collects garbage: it must neither wait nor send.
        """
        self._freed.append(number)

    def register_device_type(self, name: str, api: Any) -> None:
        """Let devices of a type of this session be found."""
        if name not in self._device_types:
            self._device_types.add(name)
            DEVICE_APIS.register(name, api)

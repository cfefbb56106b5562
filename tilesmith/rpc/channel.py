"""Carries frames over a socket. Every wait has a limit."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import socket
import time
from typing import Any

from tilesmith.rpc.faults import describe_fault, rebuild_fault
from tilesmith.rpc.protocol import (
    GREETING,
    HEAD,
    LARGEST_BODY,
    LARGEST_GREETING,
    MAGIC,
    VERSION,
    Frame,
    Kind,
    Operation,
    decode,
    encode,
    parse_head,
)
from tilesmith.support.errors import RPCError, RPCSessionTimeoutError, TypeMismatchError

HANDSHAKE_SECONDS = 20.0
"""How long the two sides may take to agree on a session."""
STALL_SECONDS = 120.0
"""How long a message may rest before its end."""
_NONCE = 32


class Deadline:
    """A point in time until which something has to be done; None is never."""

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    def left(self) -> float | None:
        """Return the seconds that are left, at least 0."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    @property
    def is_over(self) -> bool:
        """True if the time has passed."""
        return self.left() == 0.0


class Channel:
    """Frames over a socket, which it closes in the end."""

    def __init__(self, connection: socket.socket, where: str) -> None:
        self.socket = connection
        self.where = where
        with contextlib.suppress(OSError):  # a pair of sockets has no such option
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError, AttributeError):  # not every system has all of them
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 20)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4)

    def send_bytes(self, *parts: bytes | bytearray | memoryview) -> None:
        """Send bytes. Raises RPCError when the other side is gone or does not read."""
        try:
            self.socket.settimeout(STALL_SECONDS)
            for part in parts:
                self.socket.sendall(part)
        except OSError as error:
            raise self._lost(error) from None

    def receive_bytes(self, size: int, deadline: Deadline) -> bytearray | None:
        """Return `size` bytes, or None if the other side has closed the connection before the
        first.

        Raises TimeoutError at the deadline, RPCError when the connection breaks.
        """
        content = bytearray(size)
        view, position = memoryview(content), 0
        while position < size:
            left = deadline.left()
            if left == 0.0:
                raise TimeoutError
            if position:
                left = STALL_SECONDS if left is None else min(left, STALL_SECONDS)
            try:
                self.socket.settimeout(left)
                count = self.socket.recv_into(view[position:])
            except TimeoutError:
                raise
            except OSError as error:
                raise self._lost(error) from None
            if count == 0:
                if position == 0:
                    return None
                raise self._lost("it was closed within a message")
            position += count
        return content

    def send(self, frame: Frame) -> None:
        """Send a frame."""
        if len(frame.body) > LARGEST_BODY:
            raise TypeMismatchError(
                f"a message of {len(frame.body)} bytes is too large for a remote session",
                notes=("send large contents as arrays or files",),
            )
        if len(frame.body) < 4096:
            self.send_bytes(frame.head + frame.body)
        else:
            self.send_bytes(frame.head, frame.body)

    def receive(self, deadline: Deadline, largest: int = LARGEST_BODY) -> Frame | None:
        """Return the next frame, or None when the other side has closed the connection."""
        head = self.receive_bytes(HEAD.size, deadline)
        if head is None:
            return None
        kind, operation, number, size = parse_head(head, largest)
        body = self.receive_bytes(size, deadline)
        if body is None:
            raise self._lost("it was closed within a message")
        return Frame(kind, operation, number, body)

    def _lost(self, reason: object) -> RPCError:
        return RPCError(
            f"the connection with {self.where} was lost: {reason}",
            notes=("connect again; what the session held is gone",),
        )

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(OSError):  # the other side may have closed it
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


# -- agreeing on a session ----------------------------------------------------------------------


def _proof(key: str, nonce: bytes) -> bytes:
    return hmac.new(key.encode(), nonce, hashlib.sha256).digest()


def connect_channel(host: str, port: int, seconds: float = HANDSHAKE_SECONDS) -> Channel:
    """Return a connection with a server or tracker. Raises RPCError if there is none."""
    where = f"{host}:{port}"
    try:
        return Channel(socket.create_connection((host, int(port)), seconds), where)
    except (OSError, OverflowError, ValueError) as error:
        raise RPCError(
            f"there is no connection with {where}: {error}",
            notes=("is the server running, and are host and port right?",),
        ) from None


def introduce(channel: Channel, key: str, wishes: dict[str, Any]) -> Any:
    """Agree with the other side on a session: show it that we know the key (which itself does not
    travel), and tell it our wishes. Returns what it answers.
    """
    deadline = Deadline(HANDSHAKE_SECONDS)
    try:
        channel.send_bytes(GREETING.pack(MAGIC, VERSION))
        answer = channel.receive_bytes(GREETING.size + _NONCE, deadline)
        if answer is None:
            raise RPCError(
                f"{channel.where} closed the connection",
                notes=("is it a server of remote sessions, of the same version?",),
            )
        _check_greeting(answer[: GREETING.size], channel.where)
        proof = _proof(key, bytes(answer[GREETING.size :]))
        channel.send(Frame(Kind.REQUEST, Operation.HELLO, 0, encode({**wishes, "proof": proof})))
        reply = channel.receive(deadline, LARGEST_GREETING)
    except TimeoutError:
        raise RPCSessionTimeoutError(
            f"{channel.where} did not answer within {HANDSHAKE_SECONDS:g} seconds",
            notes=("it may be busy, or be something else than a server of remote sessions",),
        ) from None
    if reply is None:
        raise RPCError(f"{channel.where} refused the session without saying why")
    if reply.kind is not Kind.RESULT:
        raise rebuild_fault(decode(reply.body), channel.where)
    return decode(reply.body)


def welcome(
    channel: Channel, keys: tuple[str, ...], refusal: str, answer: dict[str, Any]
) -> dict[str, Any] | None:
    """Agree with a client that has connected. Returns its wishes, or None if it was refused.

    The client must know one of the keys; `refusal` tells what to do if it does not.
    """
    deadline = Deadline(HANDSHAKE_SECONDS)
    try:
        greeting = channel.receive_bytes(GREETING.size, deadline)
        if greeting is None:
            return None
        _check_greeting(greeting, channel.where)
        nonce = os.urandom(_NONCE)
        channel.send_bytes(GREETING.pack(MAGIC, VERSION) + nonce)
        frame = channel.receive(deadline, LARGEST_GREETING)
        wishes = None if frame is None else decode(frame.body)
        if frame is None or frame.operation != Operation.HELLO or not isinstance(wishes, dict):
            return None
        proof = wishes.pop("proof", b"")
        valid = [
            isinstance(proof, bytes) and hmac.compare_digest(proof, _proof(key, nonce))
            for key in keys
        ]
        if not any(valid):
            error = RPCError("the key is not the one of the server", notes=(refusal,))
            channel.send(Frame(Kind.FAULT, Operation.HELLO, 0, encode(describe_fault(error))))
            return None
        channel.send(Frame(Kind.RESULT, Operation.HELLO, 0, encode(answer)))
        return wishes
    except (RPCError, TimeoutError):
        return None  # the client is none, or is gone: there is nobody to tell


def _check_greeting(greeting: bytes | bytearray, where: str) -> None:
    magic, version = GREETING.unpack(greeting)
    if magic != MAGIC:
        raise RPCError(
            f"{where} is not a partner of remote sessions",
            notes=("host and port may be those of another program",),
        )
    if version != VERSION:
        raise RPCError(
            f"{where} speaks version {version} of the protocol, this side version {VERSION}",
            notes=("install the same version of Tilesmith on both machines",),
        )

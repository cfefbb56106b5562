"""Serves one session in a process of its own: ``python -m tilesmith.rpc.session_process FD``.

FD is a socket of the owner, see `worker.py`.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import socket
import sys
import threading
from typing import Any

from tilesmith.rpc.channel import Channel, Deadline
from tilesmith.rpc.faults import describe_fault
from tilesmith.rpc.protocol import Frame, Kind, decode, encode
from tilesmith.rpc.service import Service
from tilesmith.runtime.ffi import make_symbols_global
from tilesmith.runtime.module import load_module
from tilesmith.support.errors import ArtifactError, RPCError


def serve_channel(channel: Channel, service: Service) -> None:
    """Answer the requests of a session until its client closes the connection."""
    while True:
        frame = channel.receive(Deadline(None))
        if frame is None:
            return
        if frame.kind is not Kind.REQUEST:
            raise RPCError(f"{channel.where} sent an answer where a request was expected")
        kind, body = service.answer(frame.operation, frame.body)
        channel.send(Frame(kind, frame.operation, frame.number, body))


def load_libraries(paths: str | None) -> None:
    """Load shared libraries, separated as in PATH; their symbols are there for later ones."""
    for path in (paths or "").split(os.pathsep):
        if not path:
            continue
        make_symbols_global()
        try:
            ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise ArtifactError(
                f"the library '{path}' cannot be loaded", notes=(str(error),)
            ) from error


def _prepare(settings: dict[str, Any]) -> Service:
    load_libraries(settings.get("load_library"))
    callback = settings.get("callback")
    if callback:
        module, _, name = callback.partition(":")
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        found()
    system = settings.get("system")
    return Service(settings["folder"], load_module(system) if system else None)


def _end_with(control: socket.socket) -> None:
    """End this process when its owner closes the pair of sockets."""

    def watch() -> None:
        with contextlib.suppress(OSError):  # the pair is closed, which is what we wait for
            control.settimeout(None)
            control.recv(1)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def main(number: int) -> None:
    """Serve one session."""
    control = socket.socket(fileno=number)
    owner = Channel(control, "the owner of this process")
    settings = owner.receive(Deadline(60.0))
    if settings is None:
        return
    try:
        service = _prepare(decode(settings.body))
    except Exception as error:  # whoever starts the process gets the error
        owner.send(Frame(Kind.FAULT, settings.operation, 0, encode(describe_fault(error))))
        return
    owner.send(Frame(Kind.RESULT, settings.operation, 0, encode(None)))
    control.settimeout(None)
    _, descriptors, _, _ = socket.recv_fds(control, 1, 1)
    if not descriptors:
        return
    _end_with(control)
    session = Channel(socket.socket(fileno=descriptors[0]), "the client")
    try:
        serve_channel(session, service)
    except RPCError as error:
        print(f"a session ended: {error.message}", file=sys.stderr)
    finally:
        session.close()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # code of the session may have left threads behind


if __name__ == "__main__":
    main(int(sys.argv[1]))

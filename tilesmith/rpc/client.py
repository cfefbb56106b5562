"""Opens sessions on other machines.

    remote = rpc.connect("192.168.0.7", 9090, key="board")
    remote.upload("model.so")
    function = remote.load_module("model.so")["main"]
    x = tilesmith.nd.array(values, remote.cpu())
    y = function(x)                       # runs there, and y stays there
    y.numpy()                             # fetches it

A session ends when `close` is called, or when it is not used any more: when the session object, its
devices, arrays, functions and modules are gone.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any, NoReturn

from tilesmith.rpc.channel import Channel, connect_channel, introduce
from tilesmith.rpc.connection import Connection, LoopbackTransport, SocketTransport
from tilesmith.rpc.protocol import PIECE, Operation
from tilesmith.rpc.remote import RemoteDevice, RemoteFunction, RemoteModule, from_record
from tilesmith.rpc.tracker_client import TrackerSession, open_tracker
from tilesmith.rpc.worker import SessionWorker
from tilesmith.runtime.devices import Device
from tilesmith.support.errors import (
    FileError,
    RPCError,
    TypeMismatchError,
    UnknownMemberError,
    UnsupportedError,
)

__all__ = [
    "LocalSession",
    "PopenSession",
    "RPCSession",
    "TrackerSession",
    "connect",
    "connect_tracker",
    "with_minrpc",
]


class RPCSession:
    """A session at a server; see `connect`, `LocalSession` and `TrackerSession.request`."""

    def __init__(self, sess: Connection) -> None:
        self.connection = sess

    # -- functions and modules ------------------------------------------------------------------

    def get_function(self, name: str) -> RemoteFunction:
        """Return a function that is registered at the server under a global name."""
        found = self.connection.request(Operation.FIND_FUNCTION, str(name))
        if found is None:
            raise UnknownMemberError(
                f"{self.connection.where} has no global function '{name}'",
                notes=(
                    "register it there: Server(server_init_callback=…), or Server(no_fork=True), "
                    "which serves the functions of its own process",
                ),
            )
        function: RemoteFunction = from_record(self.connection, found)
        return function

    def system_lib(self) -> RemoteModule:
        """Return the functions that are linked into the server's process."""
        return self._module(Operation.SYSTEM_LIB)

    def load_module(self, path: str | os.PathLike[str]) -> RemoteModule:
        """Load an uploaded library or artifact, by the name that it has at the server."""
        return self._module(Operation.LOAD_MODULE, os.fspath(path))

    def _module(self, operation: Operation, *arguments: Any) -> RemoteModule:
        found = from_record(self.connection, self.connection.request(operation, *arguments))
        if not isinstance(found, RemoteModule):
            raise RPCError(f"{self.connection.where} gave something else than a module")
        return found

    # -- devices --------------------------------------------------------------------------------

    def device(self, dev_type: str | int, dev_id: int = 0) -> RemoteDevice:
        """Return a device of the server, by the name or number of its type."""
        local = Device(dev_type, dev_id)
        return RemoteDevice(self.connection, local.device_type, local.device_id)

    def cpu(self, dev_id: int = 0) -> RemoteDevice:
        """Return the server's host device."""
        return self.device("cpu", dev_id)

    def cuda(self, dev_id: int = 0) -> RemoteDevice:
        """Return an NVIDIA GPU of the server."""
        return self.device("cuda", dev_id)

    gpu = cuda

    def cl(self, dev_id: int = 0) -> RemoteDevice:
        """Return an OpenCL device of the server."""
        return self.device("opencl", dev_id)

    def vulkan(self, dev_id: int = 0) -> RemoteDevice:
        """Return a Vulkan device of the server."""
        return self.device("vulkan", dev_id)

    def metal(self, dev_id: int = 0) -> RemoteDevice:
        """Return an Apple GPU of the server."""
        return self.device("metal", dev_id)

    def rocm(self, dev_id: int = 0) -> RemoteDevice:
        """Return an AMD GPU of the server."""
        return self.device("rocm", dev_id)

    def ext_dev(self, dev_id: int = 0) -> RemoteDevice:
        """Return an external accelerator of the server."""
        return self.device("ext_dev", dev_id)

    def hexagon(self, dev_id: int = 0) -> RemoteDevice:
        """Return a Hexagon DSP of the server."""
        return self.device("hexagon", dev_id)

    def webgpu(self, dev_id: int = 0) -> RemoteDevice:
        """Return a WebGPU device of the server."""
        return self.device("webgpu", dev_id)

    # -- files ----------------------------------------------------------------------------------

    def upload(
        self, data: bytes | bytearray | str | os.PathLike[str], target: str | None = None
    ) -> None:
        """Send a file, or bytes, to the server, where it gets the name `target` (the file's own)
        in the session's folder.
        """
        if isinstance(data, (bytes, bytearray, memoryview)):
            if target is None:
                raise TypeMismatchError(
                    "uploaded bytes need a name at the server", notes=("give target=…",)
                )
            content = bytes(data)
        elif isinstance(data, (str, os.PathLike)):
            target = target or os.path.basename(os.fspath(data))
            try:
                with open(data, "rb") as file:
                    content = file.read()
            except OSError as error:
                raise FileError(f"'{os.fspath(data)}' cannot be uploaded", reason=error) from error
        else:
            raise TypeMismatchError(
                f"upload takes the path of a file, or bytes, not {type(data).__name__}"
            )
        for start in range(0, len(content) or 1, PIECE):
            piece = content[start : start + PIECE]
            self.connection.request(Operation.UPLOAD, target, start, piece)

    def download(self, path: str) -> bytearray:
        """Return the contents of a file of the session's folder."""
        content = bytearray()
        while piece := self.connection.request(Operation.DOWNLOAD, path, len(content), PIECE):
            content += piece
        return content

    def remove(self, path: str) -> None:
        """Remove a file of the session's folder."""
        self.connection.request(Operation.REMOVE, path)

    def listdir(self, path: str = "") -> list[str]:
        """Return the names of the files in the session's folder, or in a folder of it."""
        found: list[str] = self.connection.request(Operation.LIST_FILES, path)
        return found

    list_files = listdir

    def download_linked_module(self, path: str) -> bytearray:
        """Link an uploaded object file or archive at the server; return the shared library."""
        linked = self.connection.request(Operation.LINK, path)
        try:
            return self.download(linked)
        finally:
            self.remove(linked)

    # -- the end --------------------------------------------------------------------------------

    def close(self) -> None:
        """End the session; what it held is gone, and using it raises RPCError."""
        self.connection.finish()

    def __enter__(self) -> RPCSession:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.connection.where})"


class LocalSession(RPCSession):
    """A session in this process: everything passes through the same messages, without a socket."""

    def __init__(self) -> None:
        super().__init__(Connection(LoopbackTransport()))


class PopenSession(RPCSession):
    """A session with a process of its own on this machine, which a crash of its code does not
    outlive. `system_lib` gives the functions of `binary`, the path of an exported library.
    """

    def __init__(self, binary: str | os.PathLike[str]) -> None:
        path = os.path.abspath(binary)
        if not os.path.isfile(path):
            raise FileError(f"there is no library '{path}'", notes=("export_library writes one",))
        ours, theirs = socket.socketpair()
        with theirs:
            worker = SessionWorker({"system": path})
            worker.start(theirs)
        channel = Channel(ours, f"process {worker.process.pid}")
        super().__init__(Connection(SocketTransport(channel, closed=worker.end)))


def connect(
    url: str,
    port: int,
    key: str = "",
    session_timeout: float = 0,
    session_constructor_args: Any = None,
    enable_logging: bool = False,
) -> RPCSession:
    """Open a session at a server.

    After `session_timeout` seconds (0: never) the server ends it. Raises RPCError if there is no
    server, or if the key is another one. `session_constructor_args` (sessions through further
    programs) and `enable_logging` (a log at the server) are for other systems' servers.
    """
    if session_constructor_args:
        raise UnsupportedError(
            "sessions are not opened through a program at the server",
            notes=("open the session at the machine itself",),
        )
    if enable_logging:
        raise UnsupportedError(
            "sessions keep no log of their messages", notes=("errors tell where they were raised",)
        )
    if session_timeout < 0:
        raise TypeMismatchError(f"a session cannot last {session_timeout} seconds")
    channel = connect_channel(url, port)
    try:
        introduce(channel, key, {"session_timeout": float(session_timeout)})
    except BaseException:
        channel.close()
        raise
    return RPCSession(Connection(SocketTransport(channel, session_timeout)))


def connect_tracker(url: str, port: int) -> TrackerSession:
    """Connect with a tracker, which knows servers and lends them. Raises RPCError if there is
    none.
    """
    return open_tracker(url, port, connect)


def with_minrpc(compile_func: Callable[..., Any], server: str = "", runtime: str = "") -> NoReturn:
    """Raise UnsupportedError: programs with a small server inside are not linked."""
    raise UnsupportedError(
        "programs that contain a small server are not linked",
        notes=("PopenSession runs an exported library in a process of its own",),
    )

"""Defines `Service`: the server's end of a session. It holds the session's arrays, functions,
modules and files, and answers requests.

A session may load code and call any registered function: whoever can open one may do on this
machine what its user may. Names of files are confined to the session's own folder.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy

from tilesmith.rpc.faults import describe_fault
from tilesmith.rpc.folder import Folder
from tilesmith.rpc.holdings import Holdings
from tilesmith.rpc.protocol import (
    LARGEST_BODY,
    PIECE,
    DeviceRecord,
    DtypeRecord,
    Kind,
    ObjectKind,
    ObjectRecord,
    Operation,
    TensorRecord,
    decode,
    encode,
)
from tilesmith.runtime.devices import Device
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.ffi import Function, reinterpret
from tilesmith.runtime.module import Module, load_module, system_lib
from tilesmith.runtime.ndarray import NDArray, empty
from tilesmith.runtime.registry import get_global_func
from tilesmith.runtime.timing import evaluator
from tilesmith.support.errors import (
    OutOfBoundsError,
    RPCError,
    TypeMismatchError,
    UnknownNameError,
)

_BYTE = DataType("uint8")
_MEASURE_OPTIONS = frozenset(
    (
        "number", "repeat", "min_repeat_ms", "limit_zero_time_iterations", "cooldown_interval_ms",
        "repeats_to_cooldown", "cache_flush_bytes", "f_preproc",
    )
)  # fmt: skip


class _Handler(NamedTuple):
    method: Callable[..., Any]
    kinds: tuple[Any, ...]


_HANDLERS: dict[int, _Handler] = {}


def _answers(operation: Operation, *kinds: Any) -> Callable[[Any], Any]:
    """Declare a method as the answer to an operation, with the classes of its arguments."""

    def declare(method: Callable[..., Any]) -> Callable[..., Any]:
        _HANDLERS[operation] = _Handler(method, kinds)
        return method

    return declare


class Service:
    """Answers the requests of one session. `folder` is where its files lie."""

    def __init__(self, folder: str | os.PathLike[str], system: Module | None = None) -> None:
        self.folder = Folder(Path(folder, "files"))
        self._loaded = Path(folder, "loaded")
        self._loaded.mkdir(parents=True, exist_ok=True)
        self._numbers = itertools.count(1)
        self.held = Holdings()
        self._system = system

    def answer(
        self, operation: int, body: bytes | bytearray | memoryview
    ) -> tuple[Kind, bytearray]:
        """Return the answer to a request: its result, or a description of the error."""
        try:
            content = encode(self._carry_out(operation, body))
            if len(content) > LARGEST_BODY:
                raise TypeMismatchError("the result is too large; return arrays, or a part of it")
            return Kind.RESULT, content
        except (Exception, SystemExit) as error:  # all of them are the client's business
            return Kind.FAULT, encode(describe_fault(error))

    def _carry_out(self, operation: int, body: bytes | bytearray | memoryview) -> Any:
        request = decode(body)
        if not isinstance(request, list) or not request or not isinstance(request[0], bytes):
            raise RPCError("a request is a list that begins with the objects that are not needed")
        freed = request[0][: len(request[0]) // 8 * 8]
        self.held.drop(numpy.frombuffer(freed, "<u8").tolist())
        handler = _HANDLERS.get(operation)
        if handler is None:
            raise RPCError(f"sessions know no operation {operation}")
        arguments = request[1:]
        fits = len(arguments) == len(handler.kinds)
        if not fits or not all(isinstance(a, k) for a, k in zip(arguments, handler.kinds)):
            raise RPCError(f"the request {Operation(operation).name} has other arguments")
        return handler.method(self, *arguments)

    # -- functions and modules ------------------------------------------------------------------

    @_answers(Operation.FIND_FUNCTION, str)
    def find_function(self, name: str) -> Any:
        """Return a registered function, or None."""
        found = get_global_func(name, allow_missing=True)
        return None if found is None else ObjectRecord(
            ObjectKind.FUNCTION, self.held.hold(found), name
        )  # fmt: skip

    @_answers(Operation.CALL, ObjectRecord, list, dict)
    def call(self, record: ObjectRecord, arguments: list[Any], named: dict[str, Any]) -> Any:
        """Call a function (or the entry function of a module)."""
        function = self.held.object(record)
        values = [self.held.from_record(one) for one in arguments]
        if named and isinstance(function, (Function, Module)):
            raise TypeMismatchError(f"'{record.name}' takes no arguments by name")
        more = {str(name): self.held.from_record(one) for name, one in named.items()}
        return self.held.to_record(function(*values, **more))

    @_answers(Operation.MEASURE, ObjectRecord, list, dict, dict)
    def measure(
        self,
        record: ObjectRecord,
        arguments: list[Any],
        named: dict[str, Any],
        options: dict[str, Any],
    ) -> list[float]:
        """Return the seconds that the calls of a function take here."""
        unknown = options.keys() - _MEASURE_OPTIONS
        if unknown:
            raise RPCError(f"calls are not measured with the options {sorted(unknown)}")
        function = self.held.object(record)
        values = [self.held.from_record(one) for one in arguments]
        more = {str(name): self.held.from_record(one) for name, one in named.items()}
        tensors = [one for one in (*values, *more.values()) if isinstance(one, NDArray)]
        devices = [one.device for one in tensors if one.device.device_type != 1]
        device = devices[0] if devices else None  # the work of a call is on one device
        return list(evaluator(function, device, **options)(*values, **more).results)

    @_answers(Operation.SIGNATURE, ObjectRecord)
    def signature(self, record: ObjectRecord) -> str | None:
        """Return the description of a model's function as JSON; None for other functions."""
        found = getattr(self.held.object(record), "signature", None)
        metadata = getattr(found, "metadata", None)
        return None if metadata is None else json.dumps(dict(metadata))

    @_answers(Operation.MODULE_FUNCTION, ObjectRecord, str)
    def module_function(self, record: ObjectRecord, name: str) -> Any:
        """Return a function of a module, or None."""
        module = self.held.object(record)
        is_there = module.implements_function(name, True)
        if not is_there and name not in record.names[1:]:
            return None
        found = module[name]
        return ObjectRecord(ObjectKind.FUNCTION, self.held.hold(found), name)

    @_answers(Operation.CONSTANT_NAMES, ObjectRecord)
    def constant_names(self, record: ObjectRecord) -> list[str]:
        """Return the names of a model's constants."""
        return list(getattr(self.held.object(record), "constants", ()))

    @_answers(Operation.CONSTANT, ObjectRecord, str)
    def constant(self, record: ObjectRecord, name: str) -> TensorRecord:
        """Return a constant of a model."""
        constants = getattr(self.held.object(record), "constants", {})
        if name not in constants:
            raise UnknownNameError(f"the model has no constant '{name}'")
        return self.held.tensor_record(constants[name])

    @_answers(Operation.SYSTEM_LIB)
    def system_lib(self) -> Any:
        """Return the functions that are linked into this process."""
        return self.held.to_record(self._system or system_lib())

    @_answers(Operation.LOAD_MODULE, str)
    def load_module(self, name: str) -> Any:
        """Load an uploaded file."""
        return self.held.to_record(self._load(name))

    def _load(self, name: str) -> Any:
        path = self.folder.existing(name)
        # under a name of its own: the system gives a library of a known name a second time
        place = self._loaded / str(next(self._numbers))
        place.mkdir()
        copy = place / path.name
        try:
            os.link(path, copy)
        except OSError:  # not every file system has links
            shutil.copy(path, copy)
        return load_module(copy)

    @_answers(Operation.LINK, str)
    def link(self, name: str) -> str:
        """Link an uploaded module; return the name of the shared library."""
        module = self._load(name)
        linked = Path(name).stem + ".linked.so"
        module.export_library(os.fspath(self.folder.path(linked)))
        return linked

    # -- arrays and devices ---------------------------------------------------------------------

    @_answers(Operation.EMPTY, tuple, DtypeRecord, DeviceRecord, (str, type(None)))
    def empty(
        self, shape: tuple[int, ...], dtype: DtypeRecord, device: DeviceRecord, scope: str | None
    ) -> TensorRecord:
        """Make an array."""
        return self.held.tensor_record(empty(shape, dtype.name, Device(*device), scope))

    def _piece(self, record: TensorRecord, offset: int, size: int) -> NDArray:
        tensor = self.held.tensor(record)
        if offset < 0 or not 0 <= size <= PIECE or offset + size > tensor.nbytes:
            raise OutOfBoundsError("a part of an array of the session reaches beyond its end")
        return reinterpret(tensor, (size,), _BYTE, offset)

    @_answers(Operation.READ, TensorRecord, int, int)
    def read(self, record: TensorRecord, offset: int, size: int) -> memoryview:
        """Return bytes of an array."""
        return self._piece(record, offset, size).numpy().data

    @_answers(Operation.WRITE, TensorRecord, int, bytes)
    def write(self, record: TensorRecord, offset: int, content: bytes) -> None:
        """Write bytes into an array."""
        piece = self._piece(record, offset, len(content))
        piece.copyfrom(numpy.frombuffer(content, "uint8"))

    @_answers(Operation.COPY, TensorRecord, TensorRecord)
    def copy(self, source: TensorRecord, target: TensorRecord) -> None:
        """Copy between two arrays of the session."""
        self.held.tensor(source).copyto(self.held.tensor(target))

    @_answers(Operation.SYNC, DeviceRecord)
    def sync(self, device: DeviceRecord) -> None:
        """Wait until a device has done its work."""
        Device(*device).sync()

    @_answers(Operation.EXISTS, DeviceRecord)
    def exists(self, device: DeviceRecord) -> bool:
        """True if there is such a device."""
        return bool(Device(*device).exist)

    @_answers(Operation.ATTRIBUTE, DeviceRecord, str)
    def attribute(self, device: DeviceRecord, name: str) -> Any:
        """Return a property of a device, or None."""
        found = Device(*device)
        return (
            self.held.to_record(found.api.attribute(found.device_id, name)) if found.exist else None
        )

    # -- files ----------------------------------------------------------------------------------

    @_answers(Operation.UPLOAD, str, int, bytes)
    def upload(self, name: str, offset: int, content: bytes) -> None:
        """Write a piece of a file."""
        self.folder.upload(name, offset, content)

    @_answers(Operation.DOWNLOAD, str, int, int)
    def download(self, name: str, offset: int, size: int) -> bytes:
        """Return a piece of a file."""
        return self.folder.download(name, offset, size)

    @_answers(Operation.REMOVE, str)
    def remove(self, name: str) -> None:
        """Remove a file or folder."""
        self.folder.remove(name)

    @_answers(Operation.LIST_FILES, str)
    def list_files(self, name: str) -> list[str]:
        """Return the names of the files."""
        return self.folder.list_files(name)

    def close(self) -> None:
        """Forget everything."""
        self.held.clear()

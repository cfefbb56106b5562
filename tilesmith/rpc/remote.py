"""Defines what a client sees of a session: devices, arrays, functions and modules at the server.

They plug into the runtime where it is open: a remote array is an `NDArray` whose device type tells
the session; what such a device can do is a `DeviceAPI`; a remote module is a `Module` whose code is
loaded elsewhere; a remote function measures itself.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy

from tilesmith.rpc.connection import Connection, closed_error
from tilesmith.rpc.holdings import ADDRESS_BITS
from tilesmith.rpc.protocol import (
    PIECE,
    DeviceRecord,
    DtypeRecord,
    ObjectKind,
    ObjectRecord,
    Operation,
    TensorRecord,
)
from tilesmith.runtime.devices import RPC_SESS_MASK, Device, DeviceAPI, type_name
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.ffi import reinterpret, tensor_at
from tilesmith.runtime.module import Module
from tilesmith.runtime.ndarray import NDArray, empty, from_dlpack
from tilesmith.runtime.signature import Signature, parse_signature
from tilesmith.runtime.timing import BenchmarkResult, MeasuredElsewhere
from tilesmith.support.errors import RPCError, TypeMismatchError, UnknownMemberError

_BYTE = DataType("uint8")


# -- devices and arrays -------------------------------------------------------------------------


class RemoteDevice(Device):
    """A device of a session, which it keeps open. It equals the device of the session's arrays."""

    __slots__ = ("connection",)

    connection: Connection

    def __new__(cls, connection: Connection, device_type: int, device_id: int) -> RemoteDevice:
        self = object.__new__(cls)
        self.device_type = device_type + RPC_SESS_MASK * (connection.number + 1)
        self.device_id = device_id
        self.connection = connection
        _register(connection, device_type)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeMismatchError(
            "a device of a session cannot be saved or sent to another process",
            notes=("open a session there",),
        )


def _register(connection: Connection, device_type: int) -> int:
    """Let the runtime find the devices of a type of the session; return the type's number here."""
    number = device_type + RPC_SESS_MASK * (connection.number + 1)
    api = RemoteDeviceAPI(connection, device_type)
    connection.register_device_type(type_name(number), api)
    return number


def session_of(device: Device) -> int:
    """Return the number of a device's session; -1 if it is a device of this process."""
    return device.device_type // RPC_SESS_MASK - 1


class RemoteDeviceAPI(DeviceAPI):
    """What the runtime needs from the devices of a session that are of one type."""

    def __init__(self, connection: Connection, device_type: int) -> None:
        # the registry does not keep the session open
        self._connection = weakref.ref(connection)
        self._where = connection.where
        self._type = device_type

    @property
    def connection(self) -> Connection:
        """The session; RPCError if it is gone."""
        found = self._connection()
        if found is None:
            raise closed_error(self._where)
        return found

    def _record(self, device_id: int) -> DeviceRecord:
        return DeviceRecord(self._type, device_id)

    def exist(self, device_id: int) -> bool:
        """True if the server has such a device."""
        return bool(self.connection.request(Operation.EXISTS, self._record(device_id)))

    def sync(self, device_id: int, stream: Any = None) -> None:
        """Wait until the device has done its work, of all its streams."""
        self.connection.request(Operation.SYNC, self._record(device_id))

    def empty(self, shape: tuple[int, ...], dtype: Any, device_id: int, scope: str | None) -> Any:
        """Return a new array at the server."""
        wanted, device = DtypeRecord(str(dtype)), self._record(device_id)
        record = self.connection.request(Operation.EMPTY, tuple(shape), wanted, device, scope)
        return from_record(self.connection, record)

    def copy(self, source: Any, target: Any) -> None:
        """Copy between two arrays, one of them in this session."""
        number = self.connection.number
        ours = [session_of(one.device) == number for one in (source, target)]
        if all(ours):
            records = [tensor_record(one) for one in (source, target)]
            self.connection.request(Operation.COPY, *records)
        elif ours[0]:
            self._fetch(source, target)
        elif session_of(source.device) >= 0:
            source.copyto(empty(source.shape, source.dtype)).copyto(target)
        else:
            self._send(source, target)

    def _fetch(self, source: NDArray, target: NDArray) -> None:
        if target.device.device_type != 1:
            source.copyto(empty(source.shape, source.dtype)).copyto(target)
            return
        record, content = tensor_record(source), _bytes_of(target)
        for start in range(0, len(content), PIECE):
            size = min(PIECE, len(content) - start)
            piece = self.connection.request(Operation.READ, record, start, size)
            if not isinstance(piece, bytes) or len(piece) != size:
                raise RPCError(f"{self._where} sent a part of an array of another size")
            content[start : start + size] = numpy.frombuffer(piece, "uint8")

    def _send(self, source: NDArray, target: NDArray) -> None:
        if source.device.device_type != 1 or not source.is_contiguous():
            source = from_dlpack(source.numpy())
        record, content = tensor_record(target), _bytes_of(source)
        for start in range(0, len(content), PIECE):
            piece = content[start : start + PIECE].tobytes()
            self.connection.request(Operation.WRITE, record, start, piece)

    def attribute(self, device_id: int, name: str) -> Any:
        """Return a property of the device, or None."""
        return self.connection.request(Operation.ATTRIBUTE, self._record(device_id), name)


def _bytes_of(tensor: NDArray) -> numpy.ndarray:
    """Return the memory of a compact tensor on the host, as bytes."""
    if not tensor.nbytes:
        return numpy.empty(0, "uint8")
    return numpy.from_dlpack(reinterpret(tensor, (tensor.nbytes,), _BYTE))


def tensor_record(tensor: NDArray) -> TensorRecord:
    """Return what is sent for an array of a session."""
    device_type, device_id = tensor.device.device_type, tensor.device.device_id
    device = DeviceRecord(device_type % RPC_SESS_MASK, device_id)
    if not tensor.is_contiguous():
        raise TypeMismatchError("an array of a session has to be compact: copy it first")
    return TensorRecord(tensor.data_ptr(), device, str(tensor.dtype), tensor.shape)


def _remote_tensor(connection: Connection, record: TensorRecord) -> NDArray:
    """Return an array at the server: its address is no memory here, and what keeps it alive tells
    the server when it is not needed any more.
    """
    token = numpy.zeros(1, "uint8")
    owner = from_dlpack(token)
    number = record.address >> ADDRESS_BITS
    weakref.finalize(token, connection.release, number).atexit = False
    device = (_register(connection, record.device.device_type), record.device.device_id)
    return tensor_at(owner, record.address, device, record.shape, DataType(record.dtype))


# -- functions and modules ----------------------------------------------------------------------


class RemoteObject:
    """Something that the server holds for this session."""

    def __init__(self, connection: Connection, record: ObjectRecord) -> None:
        self.connection = connection
        self.record = record
        weakref.finalize(self, connection.release, record.number).atexit = False


class RemoteFunction(RemoteObject, MeasuredElsewhere):
    """A function at the server. Its arguments are numbers, texts, lists, and arrays, devices,
    functions and modules of the session; so are its results.
    """

    def __call__(self, /, *arguments: Any, **named: Any) -> Any:
        values = [to_record(self.connection, one) for one in arguments]
        more = {name: to_record(self.connection, one) for name, one in named.items()}
        found = self.connection.request(Operation.CALL, self.record, values, more)
        return from_record(self.connection, found)

    def measure(
        self, arguments: Sequence[Any], named: Mapping[str, Any], options: Mapping[str, Any]
    ) -> BenchmarkResult:
        """Return how long calls take at the server."""
        values = [to_record(self.connection, one) for one in arguments]
        more = {name: to_record(self.connection, one) for name, one in named.items()}
        wanted = {name: _plain(value) for name, value in options.items()}
        found = self.connection.request(Operation.MEASURE, self.record, values, more, wanted)
        return BenchmarkResult([float(one) for one in found])

    @property
    def signature(self) -> Signature:
        """Inputs and results of a model's function; UnknownMemberError for other functions."""
        text = self.connection.request(Operation.SIGNATURE, self.record)
        if not isinstance(text, str):
            raise UnknownMemberError(
                f"the remote function '{self.record.name}' tells nothing about its inputs",
                notes=("functions of models do: relax.build(…).export_library(…)",),
            )
        return parse_signature(self.record.name, json.loads(text))

    def __repr__(self) -> str:
        return f"<function {self.record.name} at {self.connection.where}>"


class RemoteCode(RemoteObject):
    """The code of a module at the server."""

    def get_function(self, name: str, allow_missing: bool = False) -> Any:
        """Return a function; None if there is none and that is allowed."""
        found = self.connection.request(Operation.MODULE_FUNCTION, self.record, name)
        if found is None and not allow_missing:
            raise UnknownMemberError(
                f"the remote module has no function '{name}'",
                notes=(f"it has: {', '.join(self.function_names()[:20])}",),
            )
        return from_record(self.connection, found)

    def function_names(self) -> list[str]:
        """Return the names of the functions, as far as known."""
        return list(self.record.names[1:])


class RemoteConstants(Mapping[str, numpy.ndarray]):
    """The constants of a model at the server, each fetched when it is asked for."""

    def __init__(self, code: RemoteCode) -> None:
        self._code = code
        self._names: list[str] = code.connection.request(Operation.CONSTANT_NAMES, code.record)

    def __getitem__(self, name: str) -> numpy.ndarray:
        if name not in self._names:
            raise UnknownMemberError(f"the remote model has no constant '{name}'")
        connection = self._code.connection
        found = connection.request(Operation.CONSTANT, self._code.record, name)
        content: numpy.ndarray = from_record(connection, found).numpy()
        return content

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class RemoteModule(Module):
    """A module at the server. Its functions run there."""

    def __init__(self, code: RemoteCode) -> None:
        super().__init__("rpc", library=code, entry_name=(*code.record.names, "")[0] or None)
        self.code = code

    @property
    def device(self) -> Device:
        """Where its inputs live, unless something else is said: the host of the server."""
        return RemoteDevice(self.code.connection, 1, 0)

    @property
    def constants(self) -> Mapping[str, numpy.ndarray]:
        """The constants of a model by name; there are none in other modules."""
        return RemoteConstants(self.code)

    def __repr__(self) -> str:
        names = ", ".join(self.function_names[:8])
        return f"RemoteModule({self.code.record.name} at {self.code.connection.where}: {names})"


# -- values -------------------------------------------------------------------------------------


def from_record(connection: Connection, value: Any) -> Any:
    """Return what stands for a value of the server here."""
    if isinstance(value, TensorRecord):
        return _remote_tensor(connection, value)
    if isinstance(value, ObjectRecord):
        if value.kind is ObjectKind.FUNCTION:
            return RemoteFunction(connection, value)
        return RemoteModule(RemoteCode(connection, value))
    if isinstance(value, DeviceRecord):
        return RemoteDevice(connection, *value)
    if isinstance(value, DtypeRecord):
        return DataType(value.name)
    if isinstance(value, (list, tuple)):
        items = [from_record(connection, item) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        return {key: from_record(connection, item) for key, item in value.items()}
    return value


def to_record(connection: Connection, value: Any) -> Any:
    """Return what is sent for an argument. Raises TypeMismatchError for what the server cannot
    reach.
    """
    if isinstance(value, NDArray):
        _check_session(connection, value.device, "an array")
        return tensor_record(value)
    if isinstance(value, Device):
        _check_session(connection, value, "a device")
        return DeviceRecord(value.device_type % RPC_SESS_MASK, value.device_id)
    if isinstance(value, RemoteModule):
        value = value.code
    if isinstance(value, RemoteObject):
        if value.connection is not connection:
            raise TypeMismatchError("a function or module of another session cannot be passed")
        return value.record
    if isinstance(value, DataType):
        return DtypeRecord(str(value))
    if isinstance(value, (list, tuple)):
        items = [to_record(connection, item) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, Mapping):
        return {_plain(key): to_record(connection, item) for key, item in value.items()}
    if hasattr(value, "__dlpack__") and not isinstance(value, numpy.generic):
        raise TypeMismatchError(
            f"an argument of type {type(value).__name__} lives here, the function runs elsewhere",
            notes=("copy it: tilesmith.nd.array(x, remote.cpu())",),
        )
    if isinstance(value, Module) or callable(value):
        raise TypeMismatchError(
            f"a {type(value).__name__} of this process cannot be called from a remote session",
            notes=("upload code and load it there, or register the function at the server",),
        )
    return _plain(value)


def _check_session(connection: Connection, device: Device, what: str) -> None:
    if session_of(device) != connection.number:
        where = "another session" if session_of(device) >= 0 else "this process"
        raise TypeMismatchError(
            f"an argument of a function at {connection.where} is {what} of {where}",
            notes=(_ADVICE[what],),
        )


_ADVICE = {
    "an array": "copy it: tilesmith.nd.array(x, remote.cpu())",
    "a device": "take the device of the session: remote.cpu()",
}


def _plain(value: Any) -> Any:
    """Return a number or text of a subclass of Python's own classes, or of numpy's, as one of
    Python's.
    """
    if isinstance(value, numpy.generic):
        return value.item()
    kinds: tuple[Any, ...] = (bool, int, float, str, bytes)
    for kind in kinds:
        if isinstance(value, kind):
            return kind(value)
    return value

"""Defines what travels between the ends of a remote session: values, and the frames that hold them.

A frame is a head of fixed size and a body. The head tells the kind of message, the operation, the
number of the request and the size of the body; the body is one value. A value begins with a byte
that tells its kind; what has no fixed size is preceded by its length:

    none                     nothing more
    truth value              1 byte, 0 or 1
    integer, float           8 bytes, little endian
    text, bytes              length (4 bytes), contents
    list, tuple, mapping     count (4 bytes), the elements (keys and values in turn)
    dtype                    a text
    device                   type and number, 4 bytes each
    tensor                   address (8 bytes), device, dtype, rank (1 byte), sizes (8 bytes each)
    object                   kind (1 byte), number (8 bytes), name

There are no pickles and nothing is evaluated: bytes from outside become plain values, or an
RPCError. Sizes are limited before anything is allocated.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from tilesmith.support.errors import RPCError, TypeMismatchError

MAGIC = b"TSRP"
VERSION = 1
GREETING = struct.Struct("<4sH")
HEAD = struct.Struct("<BBHIQ")
LARGEST_BODY = 64 << 20
"""Bytes of the largest body; contents of arrays and files travel in pieces of `PIECE` bytes."""
PIECE = 1 << 20
LARGEST_GREETING = 4096
"""Bytes of the largest body before the other side has shown that it knows the key."""

_DEEPEST = 32
_MOST_AXES = 32
_LEAST_INT, _GREATEST_INT = -(1 << 63), (1 << 63) - 1


class Kind(IntEnum):
    """What a frame is."""

    REQUEST = 1
    RESULT = 2
    FAULT = 3


class Operation(IntEnum):
    """What a request asks for."""

    HELLO = 1
    FIND_FUNCTION = 2
    CALL = 3
    EMPTY = 4
    READ = 5
    WRITE = 6
    COPY = 7
    SYNC = 8
    EXISTS = 9
    ATTRIBUTE = 10
    UPLOAD = 11
    DOWNLOAD = 12
    REMOVE = 13
    LIST_FILES = 14
    LOAD_MODULE = 15
    SYSTEM_LIB = 16
    MODULE_FUNCTION = 17
    SIGNATURE = 18
    MEASURE = 19
    LINK = 20
    CONSTANT_NAMES = 21
    CONSTANT = 22
    # what a tracker is asked for
    ANNOUNCE = 40
    OFFER = 41
    WAITING = 42
    ACQUIRE = 43
    SUMMARY = 44


class DeviceRecord(NamedTuple):
    """A device, with the numbers that it has on the machine of the server."""

    device_type: int
    device_id: int


class DtypeRecord(NamedTuple):
    """A data type by its name."""

    name: str


class TensorRecord(NamedTuple):
    """A tensor that the server holds. The address is the number of an object, times 2**40, plus an
    offset in bytes.
    """

    address: int
    device: DeviceRecord
    dtype: str
    shape: tuple[int, ...]


class ObjectKind(IntEnum):
    """What an object that the server holds is, besides tensors."""

    FUNCTION = 1
    MODULE = 2


class ObjectRecord(NamedTuple):
    """A function or module that the server holds. `names` tells the functions of a module; the
    first one is its entry function ("" if it has none).
    """

    kind: ObjectKind
    number: int
    name: str
    names: tuple[str, ...] = ()


# -- writing ------------------------------------------------------------------------------------

_BYTE, _COUNT, _INT, _FLOAT = [struct.Struct(code) for code in ("<B", "<I", "<q", "<d")]
_DEVICE, _ADDRESS = struct.Struct("<ii"), struct.Struct("<Q")

Write = Callable[[Any, bytearray, int], None]


def encode(value: Any) -> bytearray:
    """Return the bytes of a value. Raises TypeMismatchError for values that cannot be sent."""
    out = bytearray()
    _write(value, out, 0)
    return out


def _write(value: Any, out: bytearray, depth: int) -> None:
    if depth > _DEEPEST:
        raise TypeMismatchError(
            f"a value of more than {_DEEPEST} nested lists cannot be sent to a remote session"
        )
    writer = _WRITERS.get(type(value))
    if writer is None:
        raise TypeMismatchError(
            f"a value of type {type(value).__name__} cannot be sent to a remote session",
            notes=(
                "numbers, texts, bytes, lists, mappings, devices, data types, and arrays, "
                "functions and modules of the session can",
            ),
        )
    out.append(_TAG_OF[type(value)])
    writer(value, out, depth)


def _write_bool(value: bool, out: bytearray, depth: int) -> None:
    out.append(int(value))


def _write_int(value: int, out: bytearray, depth: int) -> None:
    if not _LEAST_INT <= value <= _GREATEST_INT:
        raise TypeMismatchError(
            f"the integer {value} does not fit into the 64 bits that a remote session sends",
            notes=("send it as a text",),
        )
    out += _INT.pack(value)


def _write_text(value: str, out: bytearray, depth: int) -> None:
    try:
        content = value.encode()
    except UnicodeEncodeError as error:
        raise TypeMismatchError(f"a text cannot be sent: {error}") from None
    _write_bytes(content, out, depth)


def _write_bytes(value: Any, out: bytearray, depth: int) -> None:
    size = value.nbytes if isinstance(value, memoryview) else len(value)
    if size > LARGEST_BODY:
        raise TypeMismatchError(
            f"{size} bytes are too many for one message of a remote session",
            notes=(f"send at most {LARGEST_BODY} at once, or as an array or a file",),
        )
    out += _COUNT.pack(size)
    out += value


def _write_sequence(value: Sequence[Any], out: bytearray, depth: int) -> None:
    out += _COUNT.pack(len(value))
    for item in value:
        _write(item, out, depth + 1)


def _write_mapping(value: Mapping[Any, Any], out: bytearray, depth: int) -> None:
    out += _COUNT.pack(len(value))
    for key, item in value.items():
        _write(key, out, depth + 1)
        _write(item, out, depth + 1)


def _write_device(value: DeviceRecord, out: bytearray, depth: int) -> None:
    out += _DEVICE.pack(*value)


def _write_dtype(value: DtypeRecord, out: bytearray, depth: int) -> None:
    _write_text(value.name, out, depth)


def _write_tensor(value: TensorRecord, out: bytearray, depth: int) -> None:
    out += _ADDRESS.pack(value.address)
    out += _DEVICE.pack(*value.device)
    _write_text(value.dtype, out, depth)
    out += _BYTE.pack(len(value.shape))
    for extent in value.shape:
        out += _INT.pack(extent)


def _write_object(value: ObjectRecord, out: bytearray, depth: int) -> None:
    out += _BYTE.pack(value.kind)
    out += _ADDRESS.pack(value.number)
    _write_text(value.name, out, depth)
    out += _COUNT.pack(len(value.names))
    for name in value.names:
        _write_text(name, out, depth)


# -- reading ------------------------------------------------------------------------------------


def decode(body: bytes | bytearray | memoryview) -> Any:
    """Return the value of some bytes. Raises RPCError for bytes that `encode` does not write."""
    reader = _Reader(memoryview(body))
    value = reader.value(0)
    if reader.position != len(reader.body):
        raise _malformed("there are bytes after its end")
    return value


def _malformed(reason: str) -> RPCError:
    return RPCError(
        f"this is not a message of a remote session: {reason}",
        notes=("is the other side a Tilesmith of the same version?",),
    )


class _Reader:
    """Reads values from a body, and keeps the position."""

    def __init__(self, body: memoryview) -> None:
        self.body = body
        self.position = 0

    def value(self, depth: int) -> Any:
        if depth > _DEEPEST:
            raise _malformed(f"it nests more than {_DEEPEST} lists")
        tag = self.take(1)[0]
        if tag >= len(_READERS):
            raise _malformed(f"there is no kind of value {tag}")
        return _READERS[tag](self, depth)

    def take(self, size: int) -> memoryview:
        end = self.position + size
        if end > len(self.body):
            raise _malformed("it ends within a value")
        found = self.body[self.position : end]
        self.position = end
        return found

    def number(self, form: struct.Struct) -> Any:
        return form.unpack(self.take(form.size))[0]

    def count(self, least_size: int) -> int:
        """Return a count of elements that have `least_size` bytes each, or more."""
        count: int = self.number(_COUNT)
        if count * least_size > len(self.body) - self.position:
            raise _malformed("it ends within a value")
        return count

    def boolean(self, depth: int) -> bool:
        found = self.take(1)[0]
        if found > 1:
            raise _malformed(f"{found} is not a truth value")
        return bool(found)

    def text(self, depth: int = 0) -> str:
        try:
            return str(self.take(self.number(_COUNT)), "utf-8")
        except UnicodeDecodeError:
            raise _malformed("a text is not UTF-8") from None

    def content(self, depth: int) -> bytes:
        return bytes(self.take(self.number(_COUNT)))

    def list(self, depth: int) -> list[Any]:
        return [self.value(depth + 1) for _ in range(self.count(1))]

    def mapping(self, depth: int) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for _ in range(self.count(2)):
            key = self.value(depth + 1)
            if not isinstance(key, (str, int, float, bytes, bool)):
                raise _malformed(f"a key of a mapping is of type {type(key).__name__}")
            found[key] = self.value(depth + 1)
        return found

    def device(self, depth: int = 0) -> DeviceRecord:
        return DeviceRecord(*_DEVICE.unpack(self.take(_DEVICE.size)))

    def tensor(self, depth: int) -> TensorRecord:
        address = self.number(_ADDRESS)
        device = self.device()
        dtype = self.text()
        rank = self.take(1)[0]
        if rank > _MOST_AXES:
            raise _malformed(f"a tensor has {rank} axes")
        shape = tuple([self.number(_INT) for _ in range(rank)])
        if any(extent < 0 for extent in shape):
            raise _malformed(f"a tensor has the shape {shape}")
        return TensorRecord(address, device, dtype, shape)

    def object(self, depth: int) -> ObjectRecord:
        kind = self.take(1)[0]
        if kind not in (ObjectKind.FUNCTION, ObjectKind.MODULE):
            raise _malformed(f"there is no kind of object {kind}")
        number, name = self.number(_ADDRESS), self.text()
        names = tuple([self.text() for _ in range(self.count(_COUNT.size))])
        return ObjectRecord(ObjectKind(kind), number, name, names)


_TABLE: list[tuple[type, Write, Callable[[_Reader, int], Any]]] = [
    (type(None), lambda value, out, depth: None, lambda reader, depth: None),
    (bool, _write_bool, _Reader.boolean),
    (int, _write_int, lambda reader, depth: reader.number(_INT)),
    (float, lambda value, out, depth: out.extend(_FLOAT.pack(value)),
     lambda reader, depth: reader.number(_FLOAT)),
    (str, _write_text, _Reader.text),
    (bytes, _write_bytes, _Reader.content),
    (list, _write_sequence, _Reader.list),
    (tuple, _write_sequence, lambda reader, depth: tuple(reader.list(depth))),
    (dict, _write_mapping, _Reader.mapping),
    (DtypeRecord, _write_dtype, lambda reader, depth: DtypeRecord(reader.text())),
    (DeviceRecord, _write_device, _Reader.device),
    (TensorRecord, _write_tensor, _Reader.tensor),
    (ObjectRecord, _write_object, _Reader.object),
]  # fmt: skip
"""Class of a value, how it is written, how it is read. The position is the first byte."""

_WRITERS: dict[type, Write] = {kind: write for kind, write, _ in _TABLE}
_TAG_OF: dict[type, int] = {kind: tag for tag, (kind, _, _) in enumerate(_TABLE)}
_READERS = [read for _, _, read in _TABLE]
for _like_bytes in (bytearray, memoryview):
    _WRITERS[_like_bytes] = _write_bytes
    _TAG_OF[_like_bytes] = _TAG_OF[bytes]


class Frame(NamedTuple):
    """One message."""

    kind: Kind
    operation: int
    number: int
    body: bytes | bytearray | memoryview

    @property
    def head(self) -> bytes:
        """The bytes before the body."""
        return HEAD.pack(self.kind, self.operation, 0, self.number, len(self.body))


def parse_head(head: bytes | bytearray, largest: int = LARGEST_BODY) -> tuple[Kind, int, int, int]:
    """Return kind, operation, number and size of the body. Raises RPCError for other bytes."""
    kind, operation, zero, number, size = HEAD.unpack(head)
    if kind not in (Kind.REQUEST, Kind.RESULT, Kind.FAULT) or zero:
        raise _malformed("its head is not one")
    if size > largest:
        raise _malformed(f"it would have {size} bytes, {largest} are allowed")
    return Kind(kind), operation, number, size

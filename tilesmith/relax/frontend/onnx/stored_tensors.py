"""Reads large weights of ONNX files where they lie, one at a time.

protobuf would keep all of them as long as the model, and hand out copies. So the file is parsed
without them: in their place stands a reference to the bytes of the file itself, in the form that
ONNX has for external data.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tilesmith.runtime.ndarray import NDArray

__all__ = ["StoredTensor", "mentions_other_files", "read_without_weights"]

_LARGE = 1 << 20
"""Weights of fewer bytes stay in the model."""

# Numbers of fields in onnx.proto: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
_GRAPH, _INITIALIZER, _RAW_DATA, _EXTERNAL_DATA, _DATA_LOCATION = 7, 5, 9, 13, 14
_KEY, _VALUE, _EXTERNAL = 1, 2, 1

# Wire types: https://protobuf.dev/programming-guides/encoding/
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class StoredTensor(NamedTuple):
    """The place of a dense tensor in a file: little-endian elements, the last axis innermost."""

    path: Path
    start: int
    shape: tuple[int, ...]
    dtype: str

    def read(self) -> NDArray:
        """Return a new tensor with the contents. Raises OSError, EOFError if the file is short."""
        from tilesmith.runtime import nd

        made: NDArray = nd.empty(self.shape, self.dtype)
        room = made.numpy_view().reshape(-1).view("uint8")
        with self.path.open("rb") as file:
            file.seek(self.start)
            if file.readinto(room.data) != room.nbytes:
                raise EOFError(f"'{self.path}' has no {room.nbytes} bytes at {self.start}")
        return made


class _Field(NamedTuple):
    """A field of a message: where it begins, and where its contents begin and end."""

    number: int
    wire_type: int
    begin: int
    start: int
    end: int


class _Malformed(Exception):
    """The bytes are not a message."""


def read_without_weights(path: Path) -> bytes:
    """Return the contents of a model file with references in place of large weights.

    A file that is not a model is returned as it is. Raises OSError if it cannot be read.
    """
    return _read(path, path.resolve().name)


def mentions_other_files(path: Path) -> bool:
    """Return whether a model file has the key that every reference to another file has; in a file
    that is not a model, it may be anything's. Raises OSError if the file cannot be read.
    """
    return b"location" in _read(path, None)


def _read(path: Path, name: str | None) -> bytes:
    """Return the contents of a file with references to the file ``name``, or with nothing, in place
    of large weights.
    """
    with path.open("rb") as file:
        size = path.stat().st_size
        if size <= _LARGE:
            return file.read()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                return _model(data, name)
            except (_Malformed, IndexError):
                return data[:]


def _model(data: mmap.mmap, name: str | None) -> bytes:
    parts = []
    for field in _fields(data, 0, len(data)):
        if field.number == _GRAPH and field.wire_type == _BYTES:
            parts.append(_message(_GRAPH, _graph(data, field, name)))
        else:
            parts.append(data[field.begin : field.end])
    return b"".join(parts)


def _graph(data: mmap.mmap, graph: _Field, name: str | None) -> bytes:
    parts = []
    for field in _fields(data, graph.start, graph.end):
        is_tensor = field.number == _INITIALIZER and field.wire_type == _BYTES
        if is_tensor and field.end - field.start >= _LARGE:
            parts.append(_message(_INITIALIZER, _tensor(data, field, name)))
        else:
            parts.append(data[field.begin : field.end])
    return b"".join(parts)


def _tensor(data: mmap.mmap, tensor: _Field, name: str | None) -> bytes:
    """Return a tensor without its bytes, if it has them in one field; with a reference to them if
    the file has a ``name``.
    """
    fields = list(_fields(data, tensor.start, tensor.end))
    raw = [one for one in fields if one.number == _RAW_DATA and one.wire_type == _BYTES]
    taken = {_EXTERNAL_DATA, _DATA_LOCATION}
    if len(raw) != 1 or any(one.number in taken for one in fields):
        return data[tensor.start : tensor.end]
    (place,) = raw
    parts = [data[one.begin : one.end] for one in fields if one is not place]
    if name is None:
        return b"".join(parts)
    length = place.end - place.start
    for key, value in (("location", name), ("offset", place.start), ("length", length)):
        entry = _message(_KEY, key.encode()) + _message(_VALUE, str(value).encode())
        parts.append(_message(_EXTERNAL_DATA, entry))
    parts.append(_varint(_DATA_LOCATION << 3 | _VARINT) + _varint(_EXTERNAL))
    return b"".join(parts)


def _fields(data: Any, start: int, end: int) -> Iterator[_Field]:
    """Yield the fields of a message."""
    at = start
    while at < end:
        begin = at
        tag, at = _read_varint(data, at)
        number, wire_type = tag >> 3, tag & 7
        first = at
        if wire_type == _VARINT:
            _, at = _read_varint(data, at)
        elif wire_type == _FIXED64:
            at += 8
        elif wire_type == _FIXED32:
            at += 4
        elif wire_type == _BYTES:
            length, first = _read_varint(data, at)
            at = first + length
        else:
            raise _Malformed
        if at > end or number == 0:
            raise _Malformed
        yield _Field(number, wire_type, begin, first, at)


def _read_varint(data: Any, at: int) -> tuple[int, int]:
    """Return a number and the place behind it."""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise _Malformed


def _varint(value: int) -> bytes:
    made = bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def _message(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content

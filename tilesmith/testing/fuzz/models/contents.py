"""Mutations of the bytes of a file."""

from __future__ import annotations

from collections.abc import Callable

from tilesmith.testing.fuzz.models.pick import NotApplicable, Pick, mutation

__all__ = ["BYTE_MUTATIONS"]


def _place(pick: Pick, data: bytes) -> int:
    if not data:
        raise NotApplicable
    return pick.randrange(len(data))


@mutation("byte")
def truncate(pick: Pick, data: bytes) -> bytes:
    """Keep the first part only."""
    return data[: _place(pick, data)]


@mutation("byte")
def flip_bits(pick: Pick, data: bytes) -> bytes:
    """Flip a few bits."""
    changed = bytearray(data)
    for _ in range(pick.one([1, 1, 2, 8])):
        changed[_place(pick, data)] ^= 1 << pick.randrange(8)
    return bytes(changed)


@mutation("byte")
def other_bytes(pick: Pick, data: bytes) -> bytes:
    """Replace a few bytes by those that mean something: 0, 1, 127, 128, 255."""
    changed = bytearray(data)
    for _ in range(pick.randint(1, 4)):
        changed[_place(pick, data)] = pick.one([0, 1, 0x7F, 0x80, 0xFF])
    return bytes(changed)


@mutation("byte")
def insert_bytes(pick: Pick, data: bytes) -> bytes:
    """Insert some bytes."""
    place = _place(pick, data)
    return data[:place] + pick.randbytes(pick.one([1, 2, 8, 100])) + data[place:]


@mutation("byte")
def remove_bytes(pick: Pick, data: bytes) -> bytes:
    """Take some bytes away."""
    place = _place(pick, data)
    return data[:place] + data[place + pick.one([1, 2, 8, 100]) :]


@mutation("byte")
def move_bytes(pick: Pick, data: bytes) -> bytes:
    """Copy a part over another one."""
    source, target = _place(pick, data), _place(pick, data)
    part = data[source : source + pick.one([2, 8, 40])]
    return data[:target] + part + data[target + len(part) :]


def _fields(data: bytes) -> list[tuple[int, int]]:
    """Return begin and end of the fields of a message on its outermost level."""
    found, place = [], 0
    while place < len(data):
        begin = place
        key, place = _number(data, place)
        kind = key & 7
        if kind == 0:
            _, place = _number(data, place)
        elif kind == 2:
            size, place = _number(data, place)
            place += size
        else:
            place += 8 if kind == 1 else 4
        if place > len(data):
            break
        found.append((begin, place))
    return found


def _number(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while place < len(data):
        byte = data[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128 or shift > 63:
            break
    return value, place


@mutation("byte")
def splice_field(pick: Pick, data: bytes) -> bytes:
    """Repeat a field of the file, take one away, or put one into the place of another."""
    fields = _fields(data)
    begin, end = pick.one(fields)
    other_begin, other_end = pick.one(fields)
    part: bytes = pick.one([b"", data[begin:end] * 2, data[other_begin:other_end]])
    return data[:begin] + part + data[end:]


@mutation("byte")
def splice_inner_field(pick: Pick, data: bytes) -> bytes:
    """Do the same one level further in, with the sizes around kept right."""
    holders = [
        (begin, end) for begin, end in _fields(data) if data[begin] & 7 == 2 and end - begin > 4
    ]
    begin, end = pick.one(holders)
    key, place = _number(data, begin)
    _, place = _number(data, place)
    changed: bytes = splice_field(pick, data[place:end])
    return data[:begin] + _varint(key) + _varint(len(changed)) + changed + data[end:]


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


BYTE_MUTATIONS: dict[str, Callable[[Pick, bytes], bytes]] = {
    function.__name__: function
    for function in (
        truncate, flip_bits, other_bytes, insert_bytes, remove_bytes, move_bytes,
    )
}  # fmt: skip
"""Those that serve files of any format."""

"""Reads what the loader has to know of ELF files before it loads them: their machine and symbols.

llvmlite reads sections but not symbol tables, and a JIT gives addresses only of symbols that it was
told to export. Files of other formats have neither, as far as this module knows.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass

Contents = bytes | memoryview | mmap.mmap

_MAGIC = b"\x7fELF"
_RELOCATABLE = 1
_LOADED = 1  # a segment that lies in memory
_HEADER_SIZE, _SEGMENT_SIZE = 64, 56
_SYMBOL_TABLE, _DYNAMIC_SYMBOLS = 2, 11
_COMMON = 0xFFF2
_SYMBOL_SIZE = 24
_MACHINES = {3: "i686", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv64", 258: "loongarch64"}


@dataclass(frozen=True)
class Symbol:
    """A global or weak symbol that other files see. `section` is 0 if another file defines it."""

    name: str
    section: int
    place: int
    """The offset of its contents in the file, where a section of the file defines it."""
    size: int


def is_elf(content: Contents) -> bool:
    """True if the file begins as ELF files do."""
    return bytes(content[:4]) == _MAGIC


def machine_of(content: Contents) -> str | None:
    """Return the architecture of an ELF file, or None if it is unknown or no ELF file."""
    if not is_elf(content) or len(content) < 20:
        return None
    order = "<" if content[5] == 1 else ">"
    (number,) = struct.unpack_from(order + "H", content, 18)
    return _MACHINES.get(number)


def is_cut_off(content: Contents) -> bool:
    """True if a 64-bit ELF file is shorter than its own tables say. Loading such a library ends the
    process: the system maps pages that the file does not have.
    """
    if not is_elf(content) or content[4:6] != b"\2\1":
        return False
    if len(content) < _HEADER_SIZE:
        return True
    segments, sections = struct.unpack_from("<QQ", content, 0x20)
    segment_size, segment_count, section_size, section_count = struct.unpack_from(
        "<HHHH", content, 0x36
    )
    ends = [segments + segment_size * segment_count, sections + section_size * section_count]
    if max(ends) > len(content):
        return True
    if segment_size < _SEGMENT_SIZE:
        return False  # no loader takes it
    for index in range(segment_count):
        kind, _, offset, _, _, size = struct.unpack_from(
            "<IIQQQQ", content, segments + index * segment_size
        )
        if kind == _LOADED and offset + size > len(content):
            return True
    return False


def visible_symbols(content: Contents) -> list[Symbol]:
    """Return the global and weak, not hidden symbols of a 64-bit ELF file, [] for other formats.

    They come from the table that linking uses: that of an object file, or of a shared library.
    """
    if not is_elf(content) or content[4] != 2 or content[5] != 1:
        return []
    (kind,) = struct.unpack_from("<H", content, 16)
    wanted = _SYMBOL_TABLE if kind == _RELOCATABLE else _DYNAMIC_SYMBOLS
    (table_offset,) = struct.unpack_from("<Q", content, 0x28)
    entry_size, entry_count = struct.unpack_from("<HH", content, 0x3A)
    sections = [
        struct.unpack_from("<IIQQQQIIQQ", content, table_offset + index * entry_size)
        for index in range(entry_count)
    ]
    found: list[Symbol] = []
    for section in sections:
        offset, size, link = section[4], section[5], section[6]
        if section[1] != wanted:
            continue
        names = bytes(content[sections[link][4] : sections[link][4] + sections[link][5]])
        for position in range(offset, offset + size, _SYMBOL_SIZE):
            name, info, other, index, value, length = struct.unpack_from(
                "<IBBHQQ", content, position
            )
            binding, visibility = info >> 4, other & 3
            if binding in (1, 2) and visibility != 2 and name:
                text = names[name : names.index(b"\0", name)].decode()
                home = sections[index] if 0 < index < len(sections) else None
                place = 0 if home is None else home[4] + value - home[3]
                found.append(Symbol(text, index, place, length))
    return found


def defined_symbols(content: Contents) -> list[str]:
    """Return the names of the visible symbols that an ELF file defines; [] for other formats."""
    return [one.name for one in visible_symbols(content) if one.section not in (0, _COMMON)]


def needed_symbols(content: Contents) -> list[str]:
    """Return the names of the symbols that an ELF file expects others to define."""
    return [one.name for one in visible_symbols(content) if one.section == 0]

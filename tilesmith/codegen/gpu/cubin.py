"""Reads from machine code for NVIDIA's GPUs what each kernel needs: registers, memory.

A cubin is an ELF file. Each kernel NAME has the sections `.text.NAME` (whose `sh_info` has the
registers of a thread in its highest byte), `.nv.info.NAME` (attributes) and, with static shared
memory, `.nv.shared.NAME`.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from tilesmith.support.errors import CodegenError

__all__ = ["KernelResources", "kernel_resources"]

_ELF_MAGIC = b"\x7fELF"
_TEXT, _SHARED, _INFO = ".text.", ".nv.shared.", ".nv.info"
_REGISTER_COUNT, _FRAME_SIZE, _MIN_STACK_SIZE = 0x2F, 0x11, 0x12
_FIELD_SIZED = 4  # the attribute has a size of two bytes and so many bytes of value
_RESERVED_SHARED = ".nv.shared.reserved"


class KernelResources(NamedTuple):
    """What a kernel needs. ``local_bytes`` of each thread are its stack: arrays that are indexed by
    variables, and spilled registers.
    """

    registers: int
    shared_bytes: int
    local_bytes: int
    code_bytes: int


class _Section(NamedTuple):
    name: str
    content: bytes
    size: int
    info: int


def kernel_resources(cubin: bytes) -> dict[str, KernelResources]:
    """Return what each kernel of a cubin needs, by its name. Raises CodegenError for other data."""
    sections, symbols = _parts(bytes(cubin))
    registers: dict[str, int] = {}
    frames: dict[str, int] = {}
    for section in sections:
        if section.name.startswith(_INFO):
            for attribute, symbol, value in _attributes(section.content):
                name = symbols.get(symbol, "")
                if attribute == _REGISTER_COUNT:
                    registers[name] = value
                elif attribute in (_FRAME_SIZE, _MIN_STACK_SIZE):
                    frames[name] = max(value, frames.get(name, 0))
    shared = {
        section.name.removeprefix(_SHARED): section.size
        for section in sections
        if section.name.startswith(_SHARED) and not section.name.startswith(_RESERVED_SHARED)
    }
    found = {}
    for section in sections:
        if section.name.startswith(_TEXT):
            name = section.name.removeprefix(_TEXT)
            found[name] = KernelResources(
                registers.get(name, section.info >> 24),
                shared.get(name, 0),
                frames.get(name, 0),
                section.size,
            )
    return found


def _parts(cubin: bytes) -> tuple[list[_Section], dict[int, str]]:
    """Return the sections of an ELF file, and the names of its symbols by number."""
    if cubin[:4] != _ELF_MAGIC or len(cubin) < 64:
        raise CodegenError(
            "these are not the bytes of a cubin", notes=('get them with get_source("cubin")',)
        )
    (table,) = struct.unpack_from("<Q", cubin, 40)
    entry_size, count, names_at = struct.unpack_from("<HHH", cubin, 58)
    headers = [
        struct.unpack_from("<IIQQQQIIQQ", cubin, table + number * entry_size)
        for number in range(count)
    ]
    names = _content(cubin, headers[names_at])
    sections = [
        _Section(_text(names, header[0]), _content(cubin, header), header[5], header[7])
        for header in headers
    ]
    symbols: dict[int, str] = {}
    for header in headers:
        if header[1] == 2:  # the table of symbols
            texts, entries = _content(cubin, headers[header[6]]), _content(cubin, header)
            for number in range(len(entries) // 24):
                (name,) = struct.unpack_from("<I", entries, number * 24)
                symbols[number] = _text(texts, name)
    return sections, symbols


def _content(cubin: bytes, header: tuple[int, ...]) -> bytes:
    has_none = header[1] == 8  # memory that begins as zeros
    return b"" if has_none else cubin[header[4] : header[4] + header[5]]


def _text(strings: bytes, start: int) -> str:
    return strings[start : strings.index(b"\0", start)].decode(errors="replace")


def _attributes(content: bytes) -> list[tuple[int, int, int]]:
    """Return the attributes that belong to symbols: attribute, symbol, value."""
    found, place = [], 0
    while place + 4 <= len(content):
        form, attribute, size = struct.unpack_from("<BBH", content, place)
        place += 4
        if form == _FIELD_SIZED:
            if size == 8:
                symbol, value = struct.unpack_from("<II", content, place)
                found.append((attribute, symbol, value))
            place += size
    return found

"""Writes and reads static libraries (object files in an `ar` archive) without a tool.

The archive has no symbol index; linkers that want one make it with `ranlib`.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["ARCHIVE_MAGIC", "archive_members", "static_archive"]

ARCHIVE_MAGIC = b"!<arch>\n"
_HEADER_BYTES = 60


def static_archive(objects: Sequence[bytes]) -> bytes:
    """Return an archive of object files, named lib0.o, lib1.o, …. Equal objects give equal
    bytes.
    """
    parts = [ARCHIVE_MAGIC]
    for number, content in enumerate(objects):
        fields = (f"lib{number}.o/".ljust(16), "0".ljust(12), "0".ljust(6), "0".ljust(6),
                  "644".ljust(8), str(len(content)).ljust(10))  # fmt: skip
        parts += ["".join(fields).encode() + b"`\n", content, b"\n" * (len(content) % 2)]
    return b"".join(parts)


def archive_members(archive: bytes) -> list[bytes]:
    """Return the object files in an archive, without symbol indices and tables of names."""
    found, place = [], len(ARCHIVE_MAGIC)
    while place + _HEADER_BYTES <= len(archive):
        header = archive[place : place + _HEADER_BYTES]
        name, size = header[:16].decode("ascii", "replace").strip(), int(header[48:58])
        place += _HEADER_BYTES
        if name not in ("/", "//", "/SYM64/", "__.SYMDEF"):
            found.append(archive[place : place + size])
        place += size + size % 2
    return found

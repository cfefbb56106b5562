"""Reads and writes artifacts (`.tsm`): a compiled model in one file, without pickles.

The file is a plain zip archive whose members are stored uncompressed:

    manifest.json            format and versions; size and blake2b digest of every other member
    metadata.json            what the compiled functions take and give
    library.so, code.0.o …   native code
    parameters.safetensors   constants; starts at a multiple of 64 and is used where it is mapped

Constants that artifacts share lie in a file beside them instead (`shared_params.py`).
The archive's comment holds the digest of the manifest. Everything is checked before anything is
mapped or run: a truncated or changed file gives ArtifactError. (The digests find damage; they are
not a signature.) An exported shared library carries such an archive at its end.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import IO, TYPE_CHECKING, Any

from tilesmith.runtime.params import ALIGNMENT, header_and_parts, read_tensors
from tilesmith.runtime.shared_params import share_parameters, shared_parameters
from tilesmith.support.errors import ArtifactError
from tilesmith.support.files import PathLike, replace_file

if TYPE_CHECKING:
    import numpy

FORMAT = "tilesmith-artifact"
FORMAT_VERSION = 1
PARAMETERS = "parameters.safetensors"
_MANIFEST = "manifest.json"
_METADATA = "metadata.json"
_MAX_TEXT = 64 << 20
_LARGE = 4 << 20
_LOCAL_HEADER_SIZE = 30
_PADDING_ID = b"\x35\xd9"  # the extra field that zip tools know as alignment
_ADVICE = ("compile the model again: tilesmith compile MODEL.onnx -o MODEL.tsm",)


@dataclass
class Artifact:
    """What `read_artifact` found: metadata, code by member name, parameters by name (read-only
    arrays over the mapped file), and the version of Tilesmith that wrote it."""

    path: str
    metadata: dict[str, Any]
    code: dict[str, memoryview]
    parameters: dict[str, numpy.ndarray]
    tilesmith_version: str = ""
    mapping: Any = field(default=None, repr=False)


def write_artifact(
    path: PathLike,
    metadata: Mapping[str, Any],
    code: Mapping[str, bytes],
    parameters: Mapping[str, numpy.ndarray],
    prefix: bytes = b"",
    shared: PathLike | None = None,
) -> None:
    """Write an artifact; `path` appears only when it is complete.

    `metadata` is JSON data; `code` maps names of members ("library.so", "code.0.o") to contents;
    `prefix` is put in front of the archive. The parameters go into the file `shared` if it is
    given, relative to the artifact's folder.
    """
    for name in code:
        _check_name(name)
    more = {}
    if shared is not None:
        more["shared_parameters"] = share_parameters(path, shared, parameters)
        parameters = {}
    with replace_file(path) as file:
        file.write(prefix)
        before = {"size": len(prefix), "blake2b": _digest([prefix])}
        _write_archive(file, metadata, code, parameters, {"prefix": before, **more})


def _write_archive(
    file: IO[bytes],
    metadata: Mapping[str, Any],
    code: Mapping[str, bytes],
    parameters: Mapping[str, numpy.ndarray],
    more: Mapping[str, Any],
) -> None:
    import tilesmith

    members: dict[str, Any] = {}
    with zipfile.ZipFile(file, "a", zipfile.ZIP_STORED) as archive:
        text = json.dumps(metadata, separators=(",", ":"), sort_keys=True).encode()
        for name, content in [(_METADATA, text), *code.items()]:
            members[name] = _write_member(archive, name, [content])
        if parameters:
            head, parts = header_and_parts(parameters)
            members[PARAMETERS] = _write_member(archive, PARAMETERS, [head, *parts])
        manifest = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "tilesmith_version": tilesmith.__version__,
            "members": members,
            **more,
        }
        text = json.dumps(manifest, separators=(",", ":"), sort_keys=True).encode()
        _write_member(archive, _MANIFEST, [text])
        archive.comment = f"{FORMAT} {_digest([text])}".encode()


def _write_member(
    archive: zipfile.ZipFile, name: str, parts: Iterable[bytes | memoryview]
) -> dict[str, Any]:
    """Store a member whose contents start at a multiple of 64 in the file."""
    parts = list(parts)
    size = sum([len(part) for part in parts])
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.file_size = size
    info.external_attr = 0o644 << 16
    large = size >= zipfile.ZIP64_LIMIT
    # Python puts the 64-bit sizes, where needed, in front of our extra field.
    before = archive.start_dir + _LOCAL_HEADER_SIZE + len(name.encode()) + (20 if large else 0)
    gap = -(before + 4) % ALIGNMENT
    info.extra = _PADDING_ID + gap.to_bytes(2, "little") + bytes(gap)
    with archive.open(info, "w", force_zip64=large) as member, _digesting(parts, size) as digest:
        for part in parts:
            member.write(part)
    return {"size": size, "blake2b": digest()}


@contextmanager
def _digesting(parts: Sequence[bytes | memoryview], size: int) -> Iterator[Callable[[], str]]:
    """Give a function that returns the digest of parts; that of large ones is made by a thread of
    its own while the `with` block writes them.
    """
    if size < _LARGE:
        yield partial(_digest, parts)
        return
    with ThreadPoolExecutor(1) as thread:
        yield thread.submit(_digest, parts).result


def _digest(parts: Iterable[bytes | memoryview]) -> str:
    digest = hashlib.blake2b(digest_size=32)
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _check_name(name: str) -> None:
    """Raise ArtifactError for a member name that is a path: it could lead out of the folder on
    unpacking.
    """
    allowed = name and name not in (_MANIFEST, _METADATA, PARAMETERS) and not name.startswith(".")
    if not allowed or not all(char.isalnum() or char in "._-" for char in name):
        raise ArtifactError(f"'{name}' is not a valid name of a member")


def has_artifact(path: PathLike) -> bool:
    """True if the file holds an artifact (perhaps a damaged one)."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.comment.startswith(FORMAT.encode())
    except (OSError, zipfile.BadZipFile):
        return False


def read_artifact(
    path: PathLike,
    params: PathLike | Mapping[str, Any] | None = None,
    check_contents: bool = True,
) -> Artifact:
    """Read and check an artifact. Raises ArtifactError, which says what is wrong, where, and what
    to do.

    ``params`` is the place of shared parameters if that is not the one that the artifact names, or
    the arrays by name. Without ``check_contents`` the checksums of the members, for which the whole
    file is read, are not compared: for a file that has not changed since they were.
    """
    text = os.fspath(path)
    try:
        with open(text, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size == 0:
                raise ArtifactError(f"'{text}' is empty", notes=_ADVICE)
            mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            with zipfile.ZipFile(file) as archive:
                return _read(text, archive, mapping, params, check_contents)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ArtifactError(f"cannot read the artifact '{text}': {reason}") from error
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError) as error:
        raise ArtifactError(
            f"'{text}' is not a complete Tilesmith artifact",
            notes=(f"{error}; was it truncated or is it another kind of file?", *_ADVICE),
        ) from error


def _read(
    path: str,
    archive: zipfile.ZipFile,
    mapping: mmap.mmap,
    params: PathLike | Mapping[str, Any] | None,
    check_contents: bool,
) -> Artifact:
    places = _places(path, archive, mapping)
    if _MANIFEST not in places:
        raise ArtifactError(
            f"'{path}' is a zip archive, but not a Tilesmith artifact", notes=_ADVICE
        )
    text = places.pop(_MANIFEST)
    if archive.comment != f"{FORMAT} {_digest([text])}".encode():
        raise _damaged(path, _MANIFEST)
    manifest = _json(path, _MANIFEST, text)
    version = manifest.get("format_version")
    if manifest.get("format") != FORMAT or version != FORMAT_VERSION:
        raise ArtifactError(
            f"'{path}' has version {version} of the artifact format, expected {FORMAT_VERSION}",
            notes=(f"it was written by Tilesmith {manifest.get('tilesmith_version')}", *_ADVICE),
        )
    before = _entry(path, manifest.get("prefix"))
    first = min([info.header_offset for info in archive.infolist()])
    prefix = memoryview(mapping)[:first]
    if before.get("size") != first or before.get("blake2b") != _digest([prefix]):
        raise _damaged(path, "what precedes the archive")
    members = manifest.get("members")
    if not isinstance(members, dict) or set(members) != set(places):
        raise _damaged(path, "the list of members")
    for name, content in places.items():
        entry = _entry(path, members[name])
        is_same = not check_contents or entry.get("blake2b") == _digest([content])
        if entry.get("size") != len(content) or not is_same:
            raise _damaged(path, name)
    metadata = _json(path, _METADATA, places.pop(_METADATA))
    tensors = places.pop(PARAMETERS, None)
    parameters = {} if tensors is None else read_tensors(tensors, f"'{path}', {PARAMETERS}")
    for name in places:
        _check_name(name)
    shared = manifest.get("shared_parameters")
    if shared is not None:
        parameters.update(shared_parameters(path, shared, params))
    elif params is not None:
        raise ArtifactError(
            f"'{path}' has its parameters inside", notes=("load it without params",)
        )
    written_by = str(manifest.get("tilesmith_version", ""))
    return Artifact(path, metadata, places, parameters, written_by, mapping)


def _places(path: str, archive: zipfile.ZipFile, mapping: mmap.mmap) -> dict[str, memoryview]:
    """Return views of the contents of each member in the mapped file."""
    whole = memoryview(mapping)
    found: dict[str, memoryview] = {}
    for info in archive.infolist():
        if info.compress_type != zipfile.ZIP_STORED or info.filename in found:
            raise _damaged(path, info.filename)
        header = info.header_offset
        name_size = int.from_bytes(whole[header + 26 : header + 28], "little")
        extra_size = int.from_bytes(whole[header + 28 : header + 30], "little")
        begin = header + _LOCAL_HEADER_SIZE + name_size + extra_size
        magic = bytes(whole[header : header + 4])
        if magic != b"PK\x03\x04" or begin + info.file_size > len(whole):
            raise _damaged(path, info.filename)
        found[info.filename] = whole[begin : begin + info.file_size]
    return found


def _json(path: str, name: str, text: memoryview) -> dict[str, Any]:
    if len(text) > _MAX_TEXT:
        raise _damaged(path, name)
    try:
        found = json.loads(bytes(text))
    except ValueError as error:
        raise _damaged(path, name) from error
    if not isinstance(found, dict):
        raise _damaged(path, name)
    return found


def _entry(path: str, value: Any) -> dict[str, Any]:
    """Return a part of the manifest that has to be a table."""
    if not isinstance(value, dict):
        raise _damaged(path, _MANIFEST)
    return value


def _damaged(path: str, member: str) -> ArtifactError:
    return ArtifactError(
        f"'{path}' is damaged: {member} is not what was written",
        notes=("it was truncated or changed; nothing of it has been run", *_ADVICE),
    )

"""Mutations of compiled models: bytes of the file, members of the archive, its JSON texts.

Most leave the digests as they are. ``signed`` ones write digests that fit, so that what lies behind
the digests is reached: there a changed signature has to be refused, or to be harmless. (Digests
find damage, they are no protection: code that was changed on purpose may do anything, so it is
not changed here.)
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

from tilesmith.testing.fuzz.models.contents import BYTE_MUTATIONS
from tilesmith.testing.fuzz.models.pick import HUGE, NotApplicable, Pick

__all__ = ["ARTIFACT_BASES", "ARTIFACT_MUTATIONS"]

ARTIFACT_BASES = ("conv", "matmul_dynamic", "gather", "split")

_MANIFEST, _METADATA = "manifest.json", "metadata.json"
_PARAMETERS = "parameters.safetensors"
_NAMES = ("../../escape", "/tmp/escape", "..", "", ".hidden", "a/b.o", "code.0.o", "library.so",
          "é.o", _MANIFEST, _METADATA)  # fmt: skip


def _read(data: bytes) -> tuple[dict[str, bytes], bytes]:
    """Return the members and the comment of an archive that is still whole."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
            comment = archive.comment
    except Exception:
        raise NotApplicable from None
    if _MANIFEST not in members or _METADATA not in members:
        raise NotApplicable
    return members, comment


def _json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise NotApplicable from None


def _write(members: list[tuple[str, bytes]], comment: bytes, compression: int = 0) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content, compression)
        archive.comment = comment[:60000]
    return stream.getvalue()


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=32).hexdigest()


def _signed(members: dict[str, bytes]) -> bytes:
    """Return an archive whose manifest fits its members."""
    manifest = _json(members[_MANIFEST])
    if not isinstance(manifest, dict):
        raise NotApplicable
    manifest["members"] = {
        name: {"size": len(content), "blake2b": _digest(content)}
        for name, content in members.items()
        if name != _MANIFEST
    }
    manifest["prefix"] = {"size": 0, "blake2b": _digest(b"")}
    text = json.dumps(manifest).encode()
    comment = f"tilesmith-artifact {_digest(text)}".encode()
    return _write(list({**members, _MANIFEST: text}.items()), comment)


def _change_json(pick: Pick, value: Any) -> Any:
    """Return JSON data with one place changed: another value, one less, one twice."""
    if pick.random() < 0.25 or not isinstance(value, (dict, list)) or not value:
        odd: list[Any] = [None, True, 0, -1, 1.5, "", "nonsense", [], {}, [1, 2], *HUGE, "../x"]
        return pick.one(odd)
    if isinstance(value, dict):
        key = pick.one(sorted(value))
        if pick.random() < 0.15:
            return {name: item for name, item in value.items() if name != key}
        return {**value, key: _change_json(pick, value[key])}
    place = pick.randrange(len(value))
    if pick.random() < 0.15:
        return pick.one([value[:place] + value[place + 1 :], [*value, value[place]]])
    return [*value[:place], _change_json(pick, value[place]), *value[place + 1 :]]


def change_member(pick: Pick, data: bytes) -> bytes:
    """Drop, rename, empty, shorten, repeat or exchange members of the archive."""
    members, comment = _read(data)
    listed = list(members.items())
    place = pick.randrange(len(listed))
    name, content = listed[place]
    what = pick.randrange(6)
    if what == 0:
        del listed[place]
    elif what == 1:
        listed[place] = (pick.one(_NAMES), content)
    elif what == 2:
        listed[place] = (name, pick.one([b"", content[: len(content) // 2], content + b"\0"]))
    elif what == 3:
        listed.append((pick.one([name, *_NAMES]), content))
    elif what == 4:
        listed[place] = (name, listed[pick.randrange(len(listed))][1])
    else:
        pick.shuffle(listed)
    return _write(listed, comment)


def compress_members(pick: Pick, data: bytes) -> bytes:
    """Store the members compressed."""
    members, comment = _read(data)
    return _write(list(members.items()), comment, zipfile.ZIP_DEFLATED)


def change_comment(pick: Pick, data: bytes) -> bytes:
    """Change the comment of the archive, which holds the digest of the manifest."""
    members, comment = _read(data)
    odd = [b"", comment[:-1], b"tilesmith-artifact", b"tilesmith-artifact \xff", b"x" * 60000]
    return _write(list(members.items()), pick.one(odd))


def change_text(pick: Pick, data: bytes) -> bytes:
    """Change the manifest or the metadata, without new digests."""
    members, comment = _read(data)
    name = pick.one([name for name in (_MANIFEST, _METADATA) if name in members])
    members[name] = json.dumps(_change_json(pick, _json(members[name]))).encode()
    return _write(list(members.items()), comment)


def sign_manifest(pick: Pick, data: bytes) -> bytes:
    """Change the manifest, with a digest that fits."""
    members, _ = _read(data)
    members[_MANIFEST] = json.dumps(_change_json(pick, _json(members[_MANIFEST]))).encode()
    comment = f"tilesmith-artifact {_digest(members[_MANIFEST])}".encode()
    return _write(list(members.items()), comment)


def sign_metadata(pick: Pick, data: bytes) -> bytes:
    """Change what the metadata say of parameters, results and the rest, with digests that fit."""
    members, _ = _read(data)
    metadata = _change_json(pick, _json(members[_METADATA]))
    members[_METADATA] = json.dumps(metadata).encode()
    return _signed(members)


def sign_parameters(pick: Pick, data: bytes) -> bytes:
    """Change the head of the stored parameters, with digests that fit."""
    members, _ = _read(data)
    content = members.get(_PARAMETERS, b"")
    if len(content) < 16:
        raise NotApplicable
    size = int.from_bytes(content[:8], "little")
    head = content[8 : 8 + size]
    if pick.random() < 0.3:
        size = pick.one([0, 1, size - 1, size + 1, 2**40, 2**64 - 1])
    elif pick.random() < 0.7:
        head = json.dumps(_change_json(pick, _json(head))).encode()
        size = len(head)
    else:
        head = pick.one(list(BYTE_MUTATIONS.values()))(pick, head)
    rest = content[8 + int.from_bytes(content[:8], "little") :]
    members[_PARAMETERS] = size.to_bytes(8, "little") + head + rest
    return _signed(members)


_PLACES = ("../../escape", "/etc/passwd", "/dev/zero", "", ".", "..", "absent.safetensors", "a\0b",
           "x" * 300, "é/../..", 7, None)  # fmt: skip


def sign_shared(pick: Pick, data: bytes) -> bytes:
    """Say that the parameters are shared and lie in an odd place, with digests that fit; sometimes
    the description of the tensors is changed, too.
    """
    members, _ = _read(data)
    content = members.pop(_PARAMETERS, b"")
    size = int.from_bytes(content[:8], "little")
    head = _json(content[8 : 8 + size])
    manifest = _json(members[_MANIFEST])
    if not isinstance(head, dict) or not isinstance(manifest, dict):
        raise NotApplicable
    tensors = {
        name: {"name": name, "dtype": "float32", "shape": [1], "blake2b": _digest(b"")}
        for name in head
    }
    described: Any = {"file": pick.one(_PLACES), "tensors": tensors}
    if pick.random() < 0.5:
        described = _change_json(pick, described)
    members[_MANIFEST] = json.dumps({**manifest, "shared_parameters": described}).encode()
    return _signed(members)


def before_archive(pick: Pick, data: bytes) -> bytes:
    """Put bytes in front of the archive or behind it."""
    odd = pick.randbytes(pick.one([1, 64, 1000]))
    return pick.one([odd + data, data + odd])


ARTIFACT_MUTATIONS: dict[str, Callable[[Pick, bytes], bytes]] = {
    **BYTE_MUTATIONS,
    **{
        function.__name__: function
        for function in (
            change_member, compress_members, change_comment, change_text, sign_manifest,
            sign_metadata, sign_parameters, sign_shared, before_archive,
        )
    },
}  # fmt: skip

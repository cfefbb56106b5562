"""Packs the code of kernels with what launching them needs, as bytes inside of a library.

    CodeContainer("cuda", "sm_90", [KernelRecord("main_kernel", …)], {"cubin": …, "cu": …}).pack()

The layout (little endian): 8 bytes that mark the format, its version, the size of the head and the
size of everything as 64-bit numbers, a digest of 16 bytes of all that follows, the head as JSON,
and the parts one after the other. `unpack` checks all of it before anything is used.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.tensor_maps import TensorMap
from tilesmith.support.errors import ArtifactError

__all__ = ["CLUSTER", "COOPERATIVE", "DYNAMIC_SHARED", "CodeContainer", "KernelRecord"]

DYNAMIC_SHARED = "tir.use_dyn_shared_memory"
"""The tag of the size of dynamic shared memory, beside those of the grid and of the blocks."""
COOPERATIVE, CLUSTER = "cooperative", "cluster"
"""Names of launch attributes: all blocks run at once (true), blocks in a cluster ([x, y, z])."""

_MAGIC = b"TSDEVICE"
_VERSION = 2
_HEAD = struct.Struct("<8sQQQ16s")
_ATTRIBUTES = {COOPERATIVE: bool, CLUSTER: list}


@dataclass(frozen=True)
class KernelRecord:
    """A kernel: the dtypes of its parameters, and the tags of the sizes that a launch passes."""

    name: str
    parameters: tuple[str, ...]
    tags: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    """The names of the parameters, for messages."""
    alignments: tuple[int, ...] = ()
    """Bytes to which the memory of each parameter has to be aligned; 0 where an element's own
    alignment is enough. Empty if that is so for all."""
    tensor_maps: tuple[TensorMap, ...] = ()
    """What a launch describes to the hardware; the kernel takes it behind its parameters."""

    @property
    def has_dynamic_shared(self) -> bool:
        """True if each launch chooses the size of shared memory."""
        return DYNAMIC_SHARED in self.tags


@dataclass(frozen=True)
class CodeContainer:
    """The code of a module of kernels for one kind of device, in one or several formats."""

    kind: str
    """The name of the device type: "cuda" or "opencl"."""
    architecture: str
    """What the code was made for: "sm_90"; "" where it is text that a driver compiles."""
    kernels: tuple[KernelRecord, ...]
    parts: Mapping[str, bytes]
    """Format ("cubin", "cu", "ptx", "cl") → contents, the one to try first first."""
    options: tuple[str, ...] = ()
    """What the compiler of the text is told besides the architecture."""

    def pack(self) -> bytes:
        """Return the container as bytes."""
        kernels = [
            {
                "name": kernel.name,
                "parameters": list(kernel.parameters),
                "tags": list(kernel.tags),
                "attributes": dict(kernel.attributes),
                "names": list(kernel.names),
                "alignments": list(kernel.alignments),
                "tensor_maps": [one.export() for one in kernel.tensor_maps],
            }
            for kernel in self.kernels
        ]
        places, start = [], 0
        for name, content in self.parts.items():
            places.append({"format": name, "offset": start, "size": len(content)})
            start += len(content)
        head = json.dumps({
            "kind": self.kind, "architecture": self.architecture, "kernels": kernels,
            "parts": places, "options": list(self.options),
        }).encode()  # fmt: skip
        rest = b"".join([head, *self.parts.values()])
        total = _HEAD.size + len(rest)
        return _HEAD.pack(_MAGIC, _VERSION, len(head), total, _digest(rest)) + rest

    @staticmethod
    def unpack(content: bytes | memoryview) -> CodeContainer:
        """Return the container of its bytes. Raises ArtifactError for damaged or foreign bytes."""
        try:
            return _unpack(content)
        except (struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
            raise _damaged(f"its head cannot be read: {error}") from error


def _unpack(content: bytes | memoryview) -> CodeContainer:
    if len(content) < _HEAD.size:
        raise _damaged(f"it has {len(content)} bytes")
    magic, version, head_size, total, digest = _HEAD.unpack_from(content)
    if magic != _MAGIC:
        raise _damaged("it does not begin as such code does")
    if version != _VERSION:
        raise ArtifactError(
            f"the device code has version {version} of its format, this runtime knows {_VERSION}",
            notes=("build it again with this version of Tilesmith",),
        )
    if total != len(content) or head_size > total - _HEAD.size:
        raise _damaged(f"it says that it has {total} bytes, and has {len(content)}")
    rest = bytes(content[_HEAD.size :])
    if _digest(rest) != digest:
        raise _damaged("its digest does not fit its contents")
    head = json.loads(rest[:head_size])
    kernels = tuple([_kernel(one) for one in head["kernels"]])
    if len({kernel.name for kernel in kernels}) != len(kernels):
        raise _damaged("two kernels have one name")
    parts = {}
    for part in head["parts"]:
        start, size = int(part["offset"]) + head_size, int(part["size"])
        if not (head_size <= start <= start + size <= len(rest)):
            raise _damaged(f"the part '{part['format']}' lies outside of it")
        parts[str(part["format"])] = rest[start : start + size]
    if not parts:
        raise _damaged("it has no code")
    options = tuple([str(option) for option in head["options"]])
    return CodeContainer(str(head["kind"]), str(head["architecture"]), kernels, parts, options)


def _kernel(one: Mapping[str, Any]) -> KernelRecord:
    parameters, tags = tuple(one["parameters"]), tuple(one["tags"])
    name, attributes = one["name"], dict(one["attributes"])
    if not name or not all(
        isinstance(text, str) for text in (name, *parameters, *tags, *one["names"])
    ):
        raise _damaged("a kernel has no name, or parameters or tags that are not texts")
    for dtype in parameters:
        DataType(dtype)
    for key, value in attributes.items():
        if key not in _ATTRIBUTES or not isinstance(value, _ATTRIBUTES[key]):
            raise _damaged(f"kernel '{name}' has an unknown attribute '{key}': {value!r}")
    names, alignments = tuple(one["names"]), tuple(one["alignments"])
    if any(given and len(given) != len(parameters) for given in (names, alignments)):
        raise _damaged(f"kernel '{name}' has names or alignments of other parameters")
    for size in alignments:
        if not isinstance(size, int) or size < 0 or size & (size - 1):
            raise _damaged(f"kernel '{name}' wants memory aligned to {size!r} bytes")
    maps = tuple([TensorMap.read(given, len(parameters)) for given in one["tensor_maps"]])
    return KernelRecord(name, parameters, tags, attributes, names, alignments, maps)


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


def _damaged(what: str) -> ArtifactError:
    return ArtifactError(
        f"the device code in the library is damaged: {what}",
        notes=("build or copy the library again",),
    )

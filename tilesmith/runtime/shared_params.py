"""Parameters in a file of their own, which several artifacts share.

    a.save("out/a.tsm", params="weights.safetensors")
    b.save("out/b.tsm", params="weights.safetensors")    # adds the tensors that are not there yet

The file is a safetensors file in the folder of the artifacts. The manifest of each says which
tensor of the file each constant is:

    "shared_parameters": {"file": "weights.safetensors", "tensors": {CONSTANT:
        {"name": "constant_0", "dtype": "float32", "shape": [4, 8], "blake2b": "…"}}}

A digest belongs to a tensor, not to the file: artifacts stay valid when another one adds tensors.
While a model of a process uses the file, it is mapped once, and each tensor is checked once.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import stat
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.params import header_and_parts, read_tensors
from tilesmith.support.errors import ArtifactError, TilesmithError
from tilesmith.support.files import PathLike, replace_file

if TYPE_CHECKING:
    import numpy

__all__ = ["ParameterFile", "open_parameters", "share_parameters", "shared_parameters"]


class ParameterFile(mmap.mmap):
    """A mapped safetensors file. Its tensors are views of it, and keep it alive."""

    path: str
    _digests: dict[str, str]

    @property
    def tensors(self) -> dict[str, numpy.ndarray]:
        """The tensors by name, read-only."""
        return read_tensors(memoryview(self), f"'{self.path}'")

    def digest(self, name: str, tensor: numpy.ndarray) -> str:
        """Return the digest of a tensor's bytes; it is computed once."""
        found = self._digests.get(name)
        if found is None:
            found = self._digests[name] = _digest(tensor)
        return found


_OPEN: weakref.WeakValueDictionary[tuple[int, ...], ParameterFile] = weakref.WeakValueDictionary()
_LOCK = threading.Lock()


def open_parameters(path: PathLike) -> ParameterFile:
    """Map a file, or return the mapping that is in use. Raises ArtifactError where it cannot be
    read.
    """
    text = os.fspath(path)
    try:
        # a pipe would block
        if not stat.S_ISREG(os.stat(text).st_mode):
            raise ArtifactError(f"the parameters '{text}' are not a file")
        with open(text, "rb") as file, _LOCK:
            status = os.fstat(file.fileno())
            if status.st_size == 0:
                raise ArtifactError(f"the file of parameters '{text}' is empty")
            key = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
            found = _OPEN.get(key)
            if found is None:
                found = ParameterFile(file.fileno(), 0, access=mmap.ACCESS_READ)
                found.path, found._digests = text, {}
                _OPEN[key] = found
            return found
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ArtifactError(
            f"cannot read the parameters '{text}': {reason}",
            notes=("the artifact shares them with others: keep both in one folder, or give their "
                   "place: load(path, params=…)",),
        ) from error  # fmt: skip


# -- writing ---------------------------------------------------------------------------------------


def share_parameters(
    artifact: PathLike, file: PathLike, parameters: Mapping[str, numpy.ndarray]
) -> dict[str, Any]:
    """Write parameters to a file beside an artifact, or find them there; return what the manifest
    says of them.

    ``file`` is relative to the artifact's folder. Tensors that it has already are kept.
    """
    folder = Path(artifact).absolute().parent
    name = os.fspath(file)
    if os.path.isabs(name):
        name = os.path.relpath(name, folder)
    place = _confined(folder, name)
    known: dict[str, Any] = {}
    opened = open_parameters(place) if place.exists() else None
    if opened is not None:
        known = opened.tensors
    found: dict[tuple[Any, ...], str] = {}
    wanted = {(str(value.dtype), value.shape) for value in parameters.values()}
    for key, value in known.items():
        if opened is not None and (str(value.dtype), value.shape) in wanted:
            found[str(value.dtype), value.shape, opened.digest(key, value)] = key
    described: dict[str, Any] = {}
    added: dict[str, Any] = {}
    for constant, value in parameters.items():
        digest = _digest(value)
        content = (str(value.dtype), value.shape, digest)
        if content not in found:
            found[content] = _free_name(constant, {**known, **added})
            added[found[content]] = value
        described[constant] = {"name": found[content], "dtype": str(DataType(value.dtype)),
                               "shape": list(value.shape), "blake2b": digest}  # fmt: skip
    if added or not place.exists():
        head, parts = header_and_parts({**known, **added})
        with replace_file(place) as output:
            output.write(head)
            for part in parts:
                output.write(part)
    return {"file": Path(name).as_posix(), "tensors": described}


def _free_name(name: str, taken: Mapping[str, Any]) -> str:
    number, free = 1, name
    while free in taken:
        number, free = number + 1, f"{name}.{number}"
    return free


def _digest(tensor: numpy.ndarray) -> str:
    import numpy

    compact = numpy.ascontiguousarray(tensor).reshape(-1).view("uint8")
    return hashlib.blake2b(compact.data, digest_size=32).hexdigest()


# -- reading ---------------------------------------------------------------------------------------


def shared_parameters(
    artifact: str, described: Any, given: PathLike | Mapping[str, Any] | None = None
) -> dict[str, numpy.ndarray]:
    """Return the parameters that a manifest describes: views of the mapped file, checked.

    ``given`` is another place of the file, or the arrays themselves by name. Raises ArtifactError
    where the file is missing or damaged, lies outside of the artifact's folder, or is another one.
    """
    try:
        file, tensors = described["file"], dict(described["tensors"])
        entries = {
            constant: (str(entry["name"]), DataType(entry["dtype"]), tuple(entry["shape"]),
                       entry["blake2b"])
            for constant, entry in tensors.items()
        }  # fmt: skip
    except (TypeError, ValueError, KeyError, TilesmithError) as error:
        raise ArtifactError(
            f"'{artifact}' is damaged: what it says of shared parameters cannot be read",
            notes=(f"{type(error).__name__}: {error}",),
        ) from error
    if isinstance(given, Mapping):
        return _given_arrays(artifact, entries, given)
    place = _confined(Path(artifact).absolute().parent, file) if given is None else Path(given)
    opened = open_parameters(place)
    stored = opened.tensors
    found = {}
    for constant, (name, dtype, shape, digest) in entries.items():
        value = stored.get(name)
        if value is None:
            raise _foreign(artifact, place, f"it has no tensor '{name}'")
        if DataType(value.dtype) is not dtype or value.shape != shape:
            is_now = f"{DataType(value.dtype)}{list(value.shape)}"
            raise _foreign(artifact, place, f"'{name}' is {is_now}, not {dtype}{list(shape)}")
        if opened.digest(name, value) != digest:
            raise _foreign(artifact, place, f"the contents of '{name}' are others")
        found[constant] = value
    return found


def _given_arrays(
    artifact: str, entries: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, numpy.ndarray]:
    """Return arrays that a user gives in place of the file; only sizes and dtypes are checked."""
    import numpy

    found = {}
    for constant, (_, dtype, shape, _) in entries.items():
        if constant not in given:
            raise ArtifactError(
                f"'{artifact}' needs the parameter '{constant}'",
                notes=(f"given are: {', '.join(list(given)[:10]) or 'none'}",),
            )
        value = given[constant]
        array = value if isinstance(value, numpy.ndarray) else numpy.asarray(value)
        if DataType(array.dtype) is not dtype or array.shape != shape:
            raise ArtifactError(
                f"'{artifact}': the parameter '{constant}' is {dtype}{list(shape)}, "
                f"not {DataType(array.dtype)}{list(array.shape)}"
            )
        found[constant] = array
    return found


def _foreign(artifact: str, place: Path, what: str) -> ArtifactError:
    return ArtifactError(
        f"'{place}' does not hold the parameters of '{artifact}': {what}",
        notes=("it was changed, or belongs to another model: save the model again",),
    )


def _confined(folder: Path, file: Any) -> Path:
    """Return the place of a file that has to lie in a folder, or in folders below it, also where
    links lead.
    """
    problem = None
    try:
        name = Path(file)
        place = folder / name
        is_inside = place.resolve().is_relative_to(folder.resolve()) and name.name != ""
        if name.is_absolute() or ".." in name.parts or not is_inside:
            problem = "it lies outside of the artifact's folder"
    except (TypeError, ValueError, OSError, RuntimeError) as error:
        problem = str(error)
    if problem is not None:
        raise ArtifactError(
            f"{file!r} cannot be the file of shared parameters: {problem}"[:300],
            notes=("shared parameters lie beside the artifact or in folders below it",),
        )
    return place

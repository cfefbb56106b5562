"""Saves and loads parameters as safetensors bytes: a JSON header, then the raw contents.

The layout is ours, so that each tensor starts at a multiple of 64 bytes and can be used where the
file is mapped: the gaps, which the format forbids, are filled by tensors `__pad_N`. The safetensors
library packs tensors densely and offers no choice, hence the few lines here; what they write, the
library reads.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import ArtifactError, TypeMismatchError, UnsupportedError
from tilesmith.support.files import PathLike, write_atomically

if TYPE_CHECKING:
    import numpy

    from tilesmith.runtime.ndarray import NDArray

ALIGNMENT = 64
PADDING_PREFIX = "__pad_"
_MAX_HEADER = 100_000_000  # the bound of the safetensors library
_NAMES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint64": "U64",
    "uint32": "U32",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "BOOL",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
}
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}


def _pad(size: int) -> int:
    return -size % ALIGNMENT


def header_and_parts(
    tensors: Mapping[str, numpy.ndarray],
) -> tuple[bytes, list[bytes | memoryview]]:
    """Return the header and the contents in order, padding included; both start at multiples of
    64.
    """
    header: dict[str, Any] = {}
    parts: list[bytes | memoryview] = []
    position = 0
    for name, tensor in tensors.items():
        if name.startswith(PADDING_PREFIX) or name == "__metadata__":
            raise UnsupportedError(f"a parameter must not be named '{name}'")
        dtype = DataType(tensor.dtype)
        if dtype not in _NAMES:
            raise UnsupportedError(f"parameters of dtype '{dtype}' cannot be saved: '{name}'")
        content = _bytes_of(tensor)
        end = position + len(content)
        header[name] = {
            "dtype": _NAMES[dtype],
            "shape": list(tensor.shape),
            "data_offsets": [position, end],
        }
        parts.append(content)
        gap = _pad(end)
        if gap:
            pad = {"dtype": "U8", "shape": [gap], "data_offsets": [end, end + gap]}
            header[f"{PADDING_PREFIX}{len(parts)}"] = pad
            parts.append(bytes(gap))
        position = end + gap
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * _pad(len(text) + 8)  # spaces are allowed at the end of the header
    return len(text).to_bytes(8, "little") + text, parts


def _bytes_of(tensor: numpy.ndarray) -> memoryview:
    import numpy

    compact = numpy.ascontiguousarray(tensor).reshape(-1)
    return compact.view("uint8").data


def read_tensors(buffer: bytes | memoryview, where: str = "parameters") -> dict[str, numpy.ndarray]:
    """Return the tensors of safetensors bytes, over the memory of `buffer`, without padding.

    Names, dtypes, shapes, offsets and sizes are checked; ArtifactError tells what is wrong.
    """
    import numpy

    view = memoryview(buffer)
    found = {}
    for name, dtype, shape, begin, end in _entries(view, where):
        count = 1
        for extent in shape:
            count *= extent
        if count * dtype.nbytes != end - begin:
            raise ArtifactError(f"{where}: the size of '{name}' does not fit its shape {shape}")
        flat = numpy.frombuffer(view[begin:end], "uint8").view(dtype.numpy())
        found[name] = flat.reshape(shape)
    return found


def _entries(
    view: memoryview, where: str
) -> Iterator[tuple[str, DataType, tuple[int, ...], int, int]]:
    if len(view) < 8:
        raise ArtifactError(f"{where}: too short for a safetensors header")
    size = int.from_bytes(view[:8], "little")
    if size > min(_MAX_HEADER, len(view) - 8):
        raise ArtifactError(f"{where}: the header claims {size} bytes, {len(view) - 8} are there")
    try:
        header = json.loads(bytes(view[8 : 8 + size]))
        entries = [
            (name, entry["dtype"], tuple(entry["shape"]), *_span(entry["data_offsets"]))
            for name, entry in header.items()
            if name != "__metadata__"
        ]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ArtifactError(f"{where}: the header cannot be read", notes=(str(error),)) from error
    start = 8 + size
    expected = 0
    for name, dtype, shape, begin, end in sorted(entries, key=lambda entry: entry[3:]):
        integers = all(type(number) is int and number >= 0 for number in shape)
        if not integers or begin != expected or end < begin or start + end > len(view):
            raise ArtifactError(f"{where}: the place of '{name}' is not valid")
        expected = end
        if not isinstance(dtype, str) or dtype not in _DTYPES:
            raise ArtifactError(f"{where}: unknown dtype '{dtype}' of '{name}'")
        if not name.startswith(PADDING_PREFIX):
            yield name, DataType(_DTYPES[dtype]), shape, start + begin, start + end
    if start + expected != len(view):
        raise ArtifactError(f"{where}: {len(view) - start - expected} bytes belong to no tensor")


def _span(offsets: Any) -> tuple[int, int]:
    """Return where a tensor's bytes begin and end; raises ValueError for anything else."""
    begin, end = offsets
    if type(begin) is not int or type(end) is not int or begin < 0:
        raise ValueError(f"the offsets {offsets} are not valid")
    return begin, end


def _as_numpy(tensor: Any) -> numpy.ndarray:
    import numpy

    return tensor if isinstance(tensor, numpy.ndarray) else numpy.asarray(tensor)


def save_param_dict(params: Mapping[str, Any]) -> bytes:
    """Return parameters (NDArray or numpy by name) as safetensors bytes."""
    if not isinstance(params, Mapping):
        raise TypeMismatchError(f"parameters are given by name, got {type(params).__name__}")
    head, parts = header_and_parts({name: _as_numpy(value) for name, value in params.items()})
    return b"".join([head, *parts])


def save_param_dict_to_file(params: Mapping[str, Any], path: PathLike) -> None:
    """Write parameters (NDArray or numpy by name) to a safetensors file."""
    write_atomically(path, save_param_dict(params))


def load_param_dict(param_bytes: bytes | bytearray | memoryview) -> dict[str, NDArray]:
    """Return the parameters in safetensors bytes (from Tilesmith or elsewhere), copied into
    tensors.
    """
    from tilesmith.runtime.ndarray import array

    return {name: array(value) for name, value in read_tensors(bytes(param_bytes)).items()}


def load_param_dict_from_file(path: PathLike) -> dict[str, NDArray]:
    """Load the parameters in a safetensors file."""
    try:
        with open(path, "rb") as file:
            return load_param_dict(file.read())
    except OSError as error:
        raise ArtifactError(f"cannot read parameters from '{path}'", notes=(str(error),)) from error

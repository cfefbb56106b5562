"""Finds and reads external data: tensors of ONNX models that are stored in other files.

They have to lie in the folder of the model: a model from elsewhere must not be able to read other
files.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tilesmith.relax.frontend.onnx.onnx_package import require_onnx
from tilesmith.relax.frontend.onnx.stored_tensors import StoredTensor
from tilesmith.relax.frontend.onnx.tensors import dtype_name, is_packed
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import FrontendError

__all__ = ["external_files", "read_external_data", "refuse_unread_data"]


def _other_tensors(graph: Any) -> Iterator[Any]:
    """Return the tensors stored in a graph and its subgraphs, but for the graph's own weights."""
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from inner.initializer
                yield from _other_tensors(inner)


def _external(tensors: Iterable[Any]) -> Iterator[Any]:
    external = require_onnx().TensorProto.EXTERNAL
    return (tensor for tensor in tensors if tensor.data_location == external)


def refuse_unread_data(model: Any) -> None:
    """Raise FrontendError for a model with external data that came without a path."""
    for tensor in _external((*model.graph.initializer, *_other_tensors(model.graph))):
        raise FrontendError(
            f"the tensor '{tensor.name}' is stored in an external file that has not been read",
            notes=("give the model's path instead, or read it with onnx.load",),
        )


def external_files(model: Any, path: Path) -> list[Path]:
    """Return the files in which a model has external data, links as they are: they may lead
    elsewhere while the model stays the same.
    """
    folder = path.resolve().parent
    places: dict[Path, None] = {}
    for tensor in _external((*model.graph.initializer, *_other_tensors(model.graph))):
        entries = {entry.key: entry.value for entry in tensor.external_data}
        _external_file(tensor.name, entries, folder, path)  # raises what is wrong with it
        places[folder / entries["location"]] = None
    return list(places)


def read_external_data(model: Any, path: Path) -> dict[str, StoredTensor]:
    """Read the external data of a model's tensors; return the places of the main graph's dense
    weights by name, which are not read yet.
    """
    folder = path.resolve().parent
    stored = {}
    for tensor in _external(model.graph.initializer):
        found = _Place(tensor, folder, path).stored()
        if found is None:
            _Place(tensor, folder, path).read()
        else:
            stored[tensor.name] = found
    for tensor in _external(_other_tensors(model.graph)):
        _Place(tensor, folder, path).read()
    return stored


class _Place:
    """The place of a tensor's data in a file in the model's folder."""

    def __init__(self, tensor: Any, folder: Path, model: Path) -> None:
        self.tensor = tensor
        entries = {entry.key: entry.value for entry in tensor.external_data}
        self.file = _external_file(tensor.name, entries, folder, model)
        self.start, self.length = _extent(tensor.name, entries, self.file)
        if self.start + self.length > self.file.stat().st_size:
            raise FrontendError(
                f"the external data of '{tensor.name}' is truncated: '{self.file.name}' has no "
                f"{self.length} bytes at {self.start}",
                notes=("copy the data file again",),
            )

    def read(self) -> None:
        """Put the data into the tensor."""
        with self.file.open("rb") as file:
            file.seek(self.start)
            self.tensor.raw_data = file.read(self.length)
        del self.tensor.external_data[:]
        self.tensor.data_location = require_onnx().TensorProto.DEFAULT

    def stored(self) -> StoredTensor | None:
        """Return the place, if the bytes there are the elements as they are in memory."""
        tensor = self.tensor
        known = require_onnx().TensorProto.DataType.values()
        if tensor.data_type not in known or is_packed(tensor.data_type):
            return None
        shape = tuple(tensor.dims)
        dtype = dtype_name(tensor.data_type, f"the tensor '{tensor.name}'")
        count = math.prod(shape) if min(shape, default=0) >= 0 else -1
        if sys.byteorder != "little" or count * DataType(dtype).nbytes != self.length:
            return None  # where the sizes are wrong, reading the tensor says so
        return StoredTensor(self.file, self.start, shape, dtype)


def _external_file(name: str, entries: dict[str, str], folder: Path, model: Path) -> Path:
    location = entries.get("location", "")
    try:
        place = (folder / location).resolve()
        place.stat()
    except FileNotFoundError:
        pass  # said below
    except (OSError, ValueError) as error:  # a name that no file can have
        raise FrontendError(
            f"the external data of '{name}' in '{model}' has no usable place: {error}"[:300],
            notes=("the model is broken; export it again",),
        ) from None
    if not location or not place.is_relative_to(folder):
        raise FrontendError(
            f"the external data of '{name}' in '{model}' lies outside of the model's folder: "
            f"'{location}'",
            notes=("external data has to lie beside the model or in folders below it",),
        )
    if not place.is_file():
        raise FrontendError(
            f"the external data of '{name}' is missing: '{place}'",
            notes=(f"copy it beside '{model}'",),
        )
    return place


def _extent(name: str, entries: dict[str, str], place: Path) -> tuple[int, int]:
    try:
        start = int(entries.get("offset", 0))
        length = int(entries.get("length", place.stat().st_size - start))
    except ValueError:
        start, length = -1, -1
    if start < 0 or length < 0:
        raise FrontendError(
            f"the external data of '{name}' has a wrong offset or length",
            notes=("export the model again",),
        )
    return start, length

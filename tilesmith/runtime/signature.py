"""Checks the metadata of an executable's functions: their parameters, results and symbolic sizes.

The metadata of one function is JSON data:

    {"params": [PARAM, …],            in the order of the call
     "result": RESULT,
     "symbols": ["n", …],             symbolic sizes, each bound by some tensor's axis
     "workspace_bytes": 1024,         or "dynamic": the shapes function tells
     "shapes_function": null,         name of a packed function, see `executable.py`
     "function": "main",              packed function to call (optional, its own name)
     "has_frame": false,              whether it takes a frame (optional)
     "slots": [1024, null],           bytes of each slot of a workspace on a device, null where the
                                      shapes function tells them (optional)
     "streams": {"count": 2, "events": 3, "order": […]},
                                      what it uses of the streams of a device (optional); the order
                                      of its work is for those who look
     "device": 1,                     position of its device among those of the model (optional, 0)
     "on_host": true                  it computes on the host, in a model for a device (optional)}

    PARAM  = {"name": "x", "kind": "tensor", "shape": [1, "n", "n*2"], "dtype": "float32"}
           | {"name": "s", "kind": "shape", "shape": [3, "n"]}       a tuple of integers
           | {"name": "a", "kind": "prim", "dtype": "int64"}         a Python number
           | {"name": "t", "kind": "tuple", "fields": [PARAM, …]}
    RESULT = {"kind": "tensor", "shape": […], "dtype": "float32"}
           | {"kind": "shape", "shape": [3, "n"]}
           | {"kind": "prim", "dtype": "int64"}     written to a tensor without axes
           | {"kind": "tuple", "fields": [RESULT, …]}
           | {"kind": "none"}

A tensor or shape with ``"made_inside": true`` has sizes that depend on data: the code makes it in
its frame. A tensor with ``"argument": 2`` is that argument (of the code), which it overwrites. An
extent is an integer, the name of a symbol, or the text of an expression over symbols; the last is
for messages, the shapes function evaluates it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import ArtifactError, TilesmithError

Extent = int | str


@dataclass
class Parameter:
    """One parameter, or one field of a tuple of them."""

    name: str
    kind: str
    shape: tuple[Extent, ...] = ()
    dtype: DataType | None = None
    fields: tuple[Parameter, ...] = ()

    @property
    def is_static(self) -> bool:
        """True if all extents are integers."""
        return all(isinstance(extent, int) for extent in self.shape)

    def leaves(self) -> list[Parameter]:
        """Return the parameters in order, with tuples flattened."""
        if self.kind != "tuple":
            return [self]
        return [leaf for inner in self.fields for leaf in inner.leaves()]

    def __str__(self) -> str:
        return f"{self.name}: {describe(self)}"


@dataclass
class Result:
    """The result, or one field of a tuple of them."""

    kind: str
    shape: tuple[Extent, ...] = ()
    dtype: DataType | None = None
    fields: tuple[Result, ...] = ()
    is_made_inside: bool = False
    argument: int = -1

    def leaves(self) -> list[Result]:
        """Return the tensors, numbers and shapes in order, with tuples flattened."""
        if self.kind == "tuple":
            return [leaf for inner in self.fields for leaf in inner.leaves()]
        return [] if self.kind == "none" else [self]


@dataclass
class Signature:
    """The checked metadata of one function."""

    name: str
    params: tuple[Parameter, ...]
    result: Result
    symbols: tuple[str, ...]
    workspace_bytes: int | None  # None: the shapes function computes it
    shapes_function: str | None
    function: str
    has_frame: bool = False
    slots: tuple[int | None, ...] = ()
    streams: tuple[int, int] = (1, 0)  # how many of a device it uses, and how many events
    is_on_host: bool = False
    device: int = 0  # its position among the devices of the model
    metadata: Mapping[str, Any] = field(repr=False, default_factory=dict)

    def __str__(self) -> str:
        inner = ", ".join([str(param) for param in self.params])
        return f"{self.name}({inner}) -> {describe(self.result)}"


def describe(item: Parameter | Result) -> str:
    """Return a short text of a type: `float32[1, n]`."""
    if item.kind == "tuple":
        return "(" + ", ".join([describe(inner) for inner in item.fields]) + ")"
    if item.kind in ("none", "prim"):
        return str(item.dtype or "None")
    inner = ", ".join([str(extent) for extent in item.shape])
    return f"{item.dtype}[{inner}]" if item.kind == "tensor" else f"shape({inner})"


def parse_signature(name: str, metadata: Mapping[str, Any]) -> Signature:
    """Check the metadata of a function and return it as a Signature. Raises ArtifactError."""
    try:
        params = tuple([_parameter(entry) for entry in metadata["params"]])
        result = _result(metadata["result"])
        workspace = metadata.get("workspace_bytes", 0)
        shapes = metadata.get("shapes_function")
        symbols = tuple([str(symbol) for symbol in metadata.get("symbols", ())])
        function = str(metadata.get("function", name))
        has_frame = bool(metadata.get("has_frame", False))
        slots = tuple([_slot(size) for size in metadata.get("slots", ())])
        place = int(metadata.get("device", 0))
        streams = _streams(metadata.get("streams", {"count": 1, "events": 0}))
    except (KeyError, TypeError, ValueError, AttributeError, TilesmithError) as error:
        raise ArtifactError(
            f"the signature of '{name}' cannot be read", notes=(f"{type(error).__name__}: {error}",)
        ) from error
    if not isinstance(shapes, str | None):
        raise ArtifactError(f"'{name}': {shapes!r} is not the name of a shapes function")
    if workspace == "dynamic":
        workspace = None
    elif not isinstance(workspace, int) or workspace < 0:
        raise ArtifactError(f"'{name}': a workspace of {workspace!r} bytes is not valid")
    before = [leaf for leaf in result.leaves() if not leaf.is_made_inside and leaf.argument < 0]
    if any(leaf.is_made_inside for leaf in result.leaves()) and not has_frame:
        raise ArtifactError(f"'{name}' makes results inside, but has no frame")
    dynamic = [leaf for leaf in before if not _is_static(leaf.shape)]
    if shapes is None and (workspace is None or dynamic):
        raise ArtifactError(f"'{name}' has symbolic sizes, but no shapes function")
    return Signature(
        name, params, result, symbols, workspace, shapes, function, has_frame, slots,
        streams, bool(metadata.get("on_host", False)), place, metadata,
    )  # fmt: skip


def _slot(size: Any) -> int | None:
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 0):
        raise TypeError(f"a slot of {size!r} bytes is not valid")
    return size


def _streams(entry: Mapping[str, Any]) -> tuple[int, int]:
    count, events = entry["count"], entry["events"]
    if not (type(count) is type(events) is int and 1 <= count <= 1024 and 0 <= events < 1 << 20):
        raise TypeError(f"{count!r} streams with {events!r} events are not valid")
    return count, events


def _is_static(shape: Sequence[Extent]) -> bool:
    return all(isinstance(extent, int) for extent in shape)


def _extents(entry: Mapping[str, Any]) -> tuple[Extent, ...]:
    shape = tuple(entry["shape"])
    for extent in shape:
        if isinstance(extent, bool) or not isinstance(extent, (int, str)):
            raise TypeError(f"the extent {extent!r} is neither an integer nor a text")
        if isinstance(extent, int) and extent < 0:
            raise TypeError(f"the extent {extent} is negative")
    return shape


def _parameter(entry: Mapping[str, Any]) -> Parameter:
    kind, name = entry["kind"], str(entry["name"])
    if kind == "tensor":
        return Parameter(name, kind, _extents(entry), DataType(entry["dtype"]))
    if kind == "shape":
        return Parameter(name, kind, _extents(entry))
    if kind == "prim":
        return Parameter(name, kind, (), DataType(entry["dtype"]))
    if kind == "tuple":
        return Parameter(name, kind, fields=tuple([_parameter(one) for one in entry["fields"]]))
    raise TypeError(f"unknown kind of parameter '{kind}'")


def _result(entry: Mapping[str, Any]) -> Result:
    kind = entry["kind"]
    is_inside = bool(entry.get("made_inside", False))
    if kind == "tensor":
        dtype = DataType(entry["dtype"])
        argument = int(entry.get("argument", -1))
        return Result(kind, _extents(entry), dtype, (), is_inside, argument)
    if kind == "shape":
        return Result(kind, _extents(entry), is_made_inside=is_inside)
    if kind == "prim":
        return Result(kind, (), DataType(entry["dtype"]))
    if kind == "tuple":
        return Result(kind, fields=tuple([_result(one) for one in entry["fields"]]))
    if kind == "none":
        return Result(kind)
    raise TypeError(f"unknown kind of result '{kind}'")


def signature_of_types(
    name: str, names: Sequence[str], types: Sequence[Mapping[str, Any]], result: Mapping[str, Any]
) -> Signature | None:
    """Return the signature of a program of steps (`runtime.program`) by the types of its inputs
    and its result; None where one of them is not known before it runs.
    """
    params = [_plain(one, kind) for one, kind in zip(names, types)]
    made = _plain("result", result)
    if made is None or None in params:
        return None
    read = tuple([_parameter(one) for one in params if one is not None])
    return Signature(name, read, _result(made), (), None, None, name)


def _plain(name: str, kind: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a type of a program as an entry of a signature; None if it says too little."""
    found = {"name": name, "kind": kind["kind"]}
    if kind["kind"] == "tuple":
        fields = [_plain(f"{name}_{place}", one) for place, one in enumerate(kind["fields"])]
        return None if None in fields else {**found, "fields": fields}
    if kind["kind"] == "prim":
        return {**found, "dtype": kind["dtype"]}
    if kind["kind"] not in ("tensor", "shape") or kind["shape"] is None:
        return None
    if not all(isinstance(size, (int, str)) for size in kind["shape"]):
        return None
    is_tensor = kind["kind"] == "tensor"
    if is_tensor and not kind["dtype"]:
        return None
    return {**found, "shape": kind["shape"], **({"dtype": kind["dtype"]} if is_tensor else {})}

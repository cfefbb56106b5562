"""Saves nodes as JSON, and loads them.

The text holds a flat table of numbered nodes, each after the nodes that it refers to, so that
sharing, identity and depth survive::

    {"format": "tilesmith-ir", "version": 1, "root": {"n": 2},
     "nodes": [["ir.PrimType", ["int32"]], ["tir.Var", ["x", {"n": 0}, null]], ...],
     "arrays": [["float32", [2, 2], "<base64 of the raw bytes>"]]}

A node is its key and the values of its fields in order of declaration. A value is null, a boolean,
a number, a text, a list (a tuple), or an object with one letter: ``n`` a node, ``m`` the pairs of a
mapping, ``d`` a dtype, ``f`` a float that JSON cannot write as a number, ``a`` an array, ``t`` a
tensor of the runtime, ``b`` bytes, ``x`` a value of a class that registered itself. Nothing is
evaluated.
"""

from __future__ import annotations

import base64
import importlib
import json
import math
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from tilesmith.ir.expr import GlobalVar, Range
from tilesmith.ir.module import IRModule
from tilesmith.ir.node import Node, Role, node_class
from tilesmith.ir.op import Op
from tilesmith.ir.types import prim_type
from tilesmith.runtime.dtype import DataType, ScalableLanes
from tilesmith.support.errors import (
    ArtifactError,
    TilesmithError,
    TypeMismatchError,
    UnknownNameError,
)
from tilesmith.support.recursion import deep_recursion

__all__ = ["load_json", "make_node", "register_json_value", "save_json"]

FORMAT = "tilesmith-ir"
VERSION = 1

_PROVIDERS = {
    "ir": "tilesmith.ir",
    "tir": "tilesmith.tir",
    "te": "tilesmith.te",
    "relax": "tilesmith.relax",
    "relay": "tilesmith.relay",
    "target": "tilesmith.target",
}
"""First part of a key → the package that registers it when it is imported, or when the class is
looked up in it."""


class _Codec(NamedTuple):
    kind: type
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


_CODECS: dict[str, _Codec] = {}


def register_json_value(
    tag: str, kind: type, encode: Callable[[Any], Any], decode: Callable[[Any], Any]
) -> None:
    """Let values of a class that is not a node be saved: ``encode`` returns something that can be
    saved, ``decode`` makes the value from it. ``tag`` begins with the package
    (``"target.Target"``).
    """
    _CODECS[tag] = _Codec(kind, encode, decode)


_AS_THEY_ARE = frozenset((type(None), bool, int, str))
_FIELDS: dict[type[Node], list[tuple[str, bool]]] = {}
"""Class of nodes → the names of its fields, and whether they are notes."""


def _fields_of(kind: type[Node]) -> list[tuple[str, bool]]:
    found = _FIELDS.get(kind)
    if found is None:
        found = [(field.name, field.role is Role.NOTE) for field in kind.node_fields]
        _FIELDS[kind] = found
    return found


class _Writer:
    def __init__(self, notes: bool = True) -> None:
        self.notes = notes
        self.nodes: list[Any] = []
        self.arrays: list[Any] = []
        self.references: dict[int, dict[str, int]] = {}
        self.number: dict[int, int] = {}  # of arrays
        self.alive: list[Any] = []  # ids stay unique as long as the objects live

    def node(self, node: Node) -> dict[str, int]:
        kind = node.__class__
        values: list[Any] = []
        for name, is_note in _fields_of(kind):
            value = getattr(node, name)
            if is_note and (not self.notes or _is_function(value)):
                values.append(None)  # a Python function is needed only while a program is built
            else:
                values.append(value if value.__class__ in _AS_THEY_ARE else self.value(value))
        reference = {"n": len(self.nodes)}
        self.nodes.append([kind.node_key, values])
        self.alive.append(node)
        self.references[id(node)] = reference
        return reference

    def value(self, value: Any) -> Any:
        known = self.references.get(id(value))
        if known is not None:
            return known
        kind = value.__class__
        if kind is tuple or kind is list:
            return [self.value(item) for item in value]
        if kind in _AS_THEY_ARE:
            return value
        if kind is DataType:
            return {"d": str(value)}
        if isinstance(value, Node):
            return self.node(value)
        if isinstance(value, ScalableLanes):
            return {"l": int(value)}
        if isinstance(value, str):
            return str(value)
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float):
            return value if math.isfinite(value) else {"f": value.hex()}
        if isinstance(value, (tuple, list)):
            return [self.value(item) for item in value]
        if isinstance(value, Mapping):
            pairs = [[self.value(key), self.value(item)] for key, item in value.items()]
            return {"m": pairs}
        return self.other(value)

    def other(self, value: Any) -> Any:
        if isinstance(value, (bytes, bytearray)):
            return {"b": base64.b64encode(value).decode("ascii")}
        for tag, codec in _CODECS.items():
            if isinstance(value, codec.kind):
                return {"x": [tag, self.value(codec.encode(value))]}
        if hasattr(value, "dtype") and hasattr(value, "shape"):
            is_tensor = callable(getattr(value, "numpy", None))
            return {"t" if is_tensor else "a": self.array(value)}
        if isinstance(value, IntEnum):
            return int(value)
        raise TypeMismatchError(
            f"a value of type {type(value).__name__} cannot be saved: {value!r}",
            notes=("register its class with register_json_value",),
        )

    def array(self, value: Any) -> int:
        found = self.number.get(id(value))
        if found is None:
            import numpy

            contents = numpy.ascontiguousarray(numpy.asarray(value))
            raw = base64.b64encode(contents.tobytes()).decode("ascii")
            shape = list(numpy.asarray(value).shape)
            self.arrays.append([str(DataType(contents.dtype)), shape, raw])
            self.alive.append(value)
            found = self.number[id(value)] = len(self.arrays) - 1
        return found


def _is_function(value: Any) -> bool:
    return callable(value) and not isinstance(value, Node)


def save_json(node: Any, notes: bool = True) -> str:
    """Return a node (or a tuple or mapping of nodes and plain values) as JSON text.

    Without ``notes`` (name hints, spans) the text is a key that identifies the node's meaning, and
    is not meant to be loaded. Raises TypeMismatchError for an attribute that cannot be saved.
    """
    writer = _Writer(notes)
    with deep_recursion():
        root = writer.value(node)
    document = {
        "format": FORMAT,
        "version": VERSION,
        "root": root,
        "nodes": writer.nodes,
        "arrays": writer.arrays,
    }
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def _range(values: list[Any]) -> Range:
    return Range.from_min_extent(*values)


def _module(values: list[Any]) -> IRModule:
    functions, attrs, global_infos, span, *types = values  # texts of old have no types
    return IRModule(functions, types[0] if types else None, attrs, global_infos, span)


_MAKERS: dict[str, Callable[[list[Any]], Node]] = {
    "ir.GlobalVar": lambda values: GlobalVar(values[0], None, values[1]),
    "ir.Range": _range,
    "ir.IRModule": _module,
    "ir.Op": lambda values: Op.get(values[0]),
    "ir.PrimType": lambda values: prim_type(DataType(values[0])),
}
"""Classes that are not made by calling them with their fields."""


class _Reader:
    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        self.nodes: list[Node] = []
        self.made: dict[tuple[str, int], Any] = {}

    def read(self) -> Any:
        for key, values in self.document["nodes"]:
            fields = [
                value if value.__class__ in _AS_THEY_ARE else self.value(value) for value in values
            ]
            maker = _MAKERS.get(key)
            self.nodes.append(maker(fields) if maker is not None else _class_of(key)(*fields))
        return self.value(self.document["root"])

    def value(self, value: Any) -> Any:
        if value.__class__ is list:
            return tuple([self.value(item) for item in value])
        if value.__class__ is not dict:
            return value
        ((letter, content),) = value.items()
        if letter == "n":
            if content < 0:
                raise IndexError(f"node {content}")
            return self.nodes[content]
        if letter == "m":
            return {self.value(key): self.value(item) for key, item in content}
        if letter == "l":
            return ScalableLanes(content)
        if letter == "d":
            return DataType(content)
        if letter == "f":
            return float.fromhex(content)
        if letter == "b":
            return base64.b64decode(content, validate=True)
        if letter in ("a", "t"):
            return self.array(letter, content)
        if letter == "x":
            tag, encoded = content
            return _codec_of(tag).decode(self.value(encoded))
        raise KeyError(f"unknown kind of value '{letter}'")

    def array(self, letter: str, number: int) -> Any:
        found = self.made.get((letter, number))
        if found is None:
            import numpy

            dtype, shape, raw = self.document["arrays"][number]
            contents = base64.b64decode(raw, validate=True)
            kind = DataType(dtype).numpy()
            found = numpy.frombuffer(contents, kind).reshape([int(size) for size in shape])
            if letter == "t":
                from tilesmith.runtime.ndarray import array

                found = array(found)
            self.made[(letter, number)] = found
        return found


def _class_of(key: str) -> type[Node]:
    try:
        return node_class(key)
    except KeyError:
        _provide(key)
        return node_class(key)


def _codec_of(tag: str) -> _Codec:
    if tag not in _CODECS:
        _provide(tag)
    return _CODECS[tag]


def _provide(key: str) -> None:
    package, _, name = key.partition(".")
    if package not in _PROVIDERS:
        raise KeyError(f"unknown class '{key}'")
    getattr(importlib.import_module(_PROVIDERS[package]), name, None)


def load_json(json_str: str) -> Any:
    """Load the node (or value) that ``save_json`` wrote.

    Raises ArtifactError for a text that is not such a document, or has another version.
    """
    try:
        document = json.loads(json_str)
    except ValueError as error:
        raise ArtifactError(f"this is not valid JSON: {error}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ArtifactError("this JSON holds no saved program", notes=("save_json writes one",))
    if document.get("version") != VERSION:
        raise ArtifactError(
            f"the program was saved in version {document.get('version')} of the format, "
            f"this is version {VERSION}"
        )
    try:
        with deep_recursion():
            return _Reader(document).read()
    except TilesmithError as error:
        raise ArtifactError(f"the saved program is damaged: {error.message}") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ArtifactError(f"the saved program is damaged: {error}") from error


def make_node(type_key: str, **kwargs: Any) -> Any:
    """Make a node from its fields: ``make_node("IntImm", dtype="int32", value=3)``.

    ``type_key`` is what documents name the class by; the dialect (``tir.``, ``ir.``) may be left
    out. Raises UnknownNameError.
    """
    for key in (type_key, f"tir.{type_key}", f"ir.{type_key}"):
        try:
            if "." in key:
                _provide(key)
            found = node_class(key)
        except KeyError:
            continue
        return found(**kwargs)
    raise UnknownNameError(f"there is no class of nodes '{type_key}'")

"""Reads programs that older versions saved as JSON, and updates what TVM saved to later versions.

TVM saves a graph as a list of nodes, which refer to each other by the decimal text of their number:

    {"root": 1, "nodes": [{"type_key": ""}, {"type_key": "GlobalVar", "attrs": {"span": "0", ...}}],
     "attrs": {"tvm_version": "0.8.0"}}

Node 0 is null. An updater changes such a graph as one version after another changed its classes.
Tilesmith does not read the result; another TVM does.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilesmith.compat.tvm.json_node_names import RENAMED, UNCHANGED, VIRTUAL_DEVICE_NODES
from tilesmith.ir.serialization import FORMAT, load_json
from tilesmith.support.errors import ArtifactError

__all__ = [
    "create_updater", "create_updater_06_to_07", "create_updater_07_to_08",
    "create_updater_08_to_09", "create_updater_13_to_14", "create_updater_15_to_16",
    "create_updater_16_to_17", "upgrade_json",
]  # fmt: skip

Graph = dict[str, Any]
Change = Callable[[dict[str, Any], list[dict[str, Any]]], dict[str, Any]]
"""Makes the new node of an old one; it may append nodes to the list of all nodes."""
Updater = Callable[[Graph], Graph]

_NULL = "0"


def upgrade_json(json_str: str) -> str:
    """Return the text of a saved program in the present version of the format.

    There is one version so far. Raises ArtifactError for a text that is none of ours; what TVM
    saved is named as such, with the version that wrote it.
    """
    try:
        document = json.loads(json_str)
    except ValueError:
        document = None
    if isinstance(document, Mapping) and document.get("format") != FORMAT and "nodes" in document:
        raise ArtifactError(
            f"this program was saved by TVM {_version(document) or 'of an unknown version'}, whose "
            "JSON Tilesmith does not read",
            notes=("there write the text of mod.script() to a file; here tilesmith.script.parse",),
        )
    load_json(json_str)
    return json_str


def _version(document: Mapping[str, Any]) -> str | None:
    written = document.get("attrs")
    return written.get("tvm_version") if isinstance(written, Mapping) else None


def create_updater(
    node_map: Mapping[str, Change | Sequence[Change]], from_ver: str, to_ver: str
) -> Updater:
    """Return a function that updates a graph of TVM from one version to another.

    ``node_map``: for the type of a node the function ``(node, nodes) -> node`` that changes it, or
    several, applied in order. ``from_ver``: how the version of the graph begins. The function
    raises ArtifactError for a graph of another version, or for what is no graph of TVM.
    """

    def update(data: Graph) -> Graph:
        if not isinstance(data, Mapping) or not isinstance(data.get("nodes"), list):
            raise ArtifactError("this is no graph that TVM saved: it has no list 'nodes'")
        version = _version(data)
        if version is None or not version.startswith(from_ver):
            raise ArtifactError(
                f"this updates programs of TVM {from_ver}, the program was saved by "
                f"{version or 'an unknown version'}",
                notes=("apply the updaters in the order of versions, oldest first",),
            )
        made = copy.deepcopy(dict(data))
        nodes = made["nodes"]
        for number, node in enumerate(list(nodes)):
            changes = node_map.get(node["type_key"], ())
            for change in (changes,) if callable(changes) else changes:
                node = change(node, nodes)
            nodes[number] = node
        made["attrs"]["tvm_version"] = to_ver
        return made

    return update


def _fields(node: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = node.setdefault("attrs", {})
    return fields


def _with_null(field: str) -> Change:
    """Return a change that adds a field, null."""

    def change(node: dict[str, Any], nodes: list[dict[str, Any]]) -> dict[str, Any]:
        _fields(node).setdefault(field, _NULL)
        return node

    return change


def create_updater_16_to_17() -> Updater:
    """Return the updater from 0.16 to 0.17: loads and stores of buffers have a ``predicate``."""
    change = _with_null("predicate")
    return create_updater({"tir.BufferLoad": change, "tir.BufferStore": change}, "0.16", "0.17")


def create_updater_15_to_16() -> Updater:
    """Return the updater from 0.15 to 0.16: the ``lanes`` of vectors are expressions."""
    return create_updater(
        {"tir.Ramp": _lanes_as_node, "tir.Broadcast": _lanes_as_node}, "0.15", "0.16"
    )


def _lanes_as_node(node: dict[str, Any], nodes: list[dict[str, Any]]) -> dict[str, Any]:
    fields = _fields(node)
    lanes = {"dtype": "int32", "span": _NULL, "value": fields["lanes"]}
    fields["lanes"] = str(len(nodes))
    nodes.append({"type_key": "IntImm", "attrs": lanes})
    return node


def create_updater_13_to_14() -> Updater:
    """Return the updater from 0.13 to 0.14. It refuses programs: which classes changed their fields
    between these versions is not documented, and a guess would change programs silently.
    """
    check = create_updater({}, "0.13", "0.14")

    def refuse(data: Graph) -> Graph:
        check(data)
        raise ArtifactError(
            "programs of TVM 0.13 cannot be updated to 0.14: what changed in their JSON is not "
            "documented",
            notes=("load the program with TVM 0.13 and write the text of mod.script() to a file",),
        )

    return refuse


def create_updater_08_to_09() -> Updater:
    """Return the updater from 0.8 to 0.9: expressions of Relay have a ``virtual_device_``."""
    change = _with_null("virtual_device_")
    return create_updater(dict.fromkeys(VIRTUAL_DEVICE_NODES, change), "0.8", "0.9")


def create_updater_07_to_08() -> Updater:
    """Return the updater from 0.7 to 0.8: modules have attributes."""
    return create_updater({"IRModule": _with_null("attrs")}, "0.7", "0.8")


def create_updater_06_to_07() -> Updater:
    """Return the updater from 0.6 to 0.7: types of nodes have other names, names are nodes.

    It refuses other nodes than those of Relay and constants, whose fields changed (calls, loads and
    statements of tensor programs).
    """
    node_map: dict[str, Sequence[Change]] = {
        old: (_renamed(new), *changes) for old, (new, *changes) in _changes_of_07().items()
    }
    rename = create_updater(node_map, "0.6", "0.7")

    def update(data: Graph) -> Graph:
        made = rename(data)
        for node in data["nodes"]:
            kind = node["type_key"]
            if not (kind in node_map or kind in UNCHANGED or kind.startswith("relay.")):
                raise ArtifactError(
                    f"a node '{kind}' of TVM 0.6 has no known form in 0.7",
                    notes=("models (programs of Relay) can be updated, tensor programs cannot",),
                )
        return made

    return update


def _changes_of_07() -> dict[str, tuple[Any, ...]]:
    """Return for each old type its new name and further changes."""
    changes: dict[str, tuple[Any, ...]] = {old: (new,) for old, new in RENAMED.items()}
    named = ("Constructor", "GlobalTypeVar", "GlobalVar", "Id", "TypeVar")
    for old in [f"relay.{name}" for name in named]:
        changes[old] = (RENAMED.get(old, old), _name_as_node)
    for old in ("relay.Op", "relay.SourceName", "EnvFunc"):
        changes[old] = (RENAMED.get(old, old), _key_as_text)
    return changes


def _renamed(new: str) -> Change:
    def change(node: dict[str, Any], nodes: list[dict[str, Any]]) -> dict[str, Any]:
        node["type_key"] = new
        return node

    return change


def _name_as_node(node: dict[str, Any], nodes: list[dict[str, Any]]) -> dict[str, Any]:
    """Let a name hint be a node of its own."""
    fields = _fields(node)
    text = {"type_key": "runtime.String", "repr_str": fields["name_hint"]}
    fields["name_hint"] = str(len(nodes))
    nodes.append(text)
    return node


def _key_as_text(node: dict[str, Any], nodes: list[dict[str, Any]]) -> dict[str, Any]:
    """Rename the key of a registered object."""
    if "global_key" in node:
        node["repr_str"] = node.pop("global_key")
    return node

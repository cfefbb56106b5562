"""Names of nodes in the JSON of TVM's versions."""

from __future__ import annotations

__all__ = ["RENAMED", "UNCHANGED", "VIRTUAL_DEVICE_NODES"]

_SCALARS = (
    "Add", "Sub", "Mul", "Div", "Mod", "FloorDiv", "FloorMod", "Min", "Max", "EQ", "NE", "LT", "LE",
    "GT", "GE", "And", "Or", "Not", "Cast", "Select", "Ramp", "Broadcast", "Shuffle", "Let",
    "StringImm", "SizeVar", "CommReducer",
)  # fmt: skip
_NO_LONGER_RELAY = (
    "FuncType", "GlobalTypeVar", "GlobalVar", "IncompleteType", "Op", "SourceName",
    "Span", "TupleType", "TypeCall", "TypeRelation", "TypeVar",
)  # fmt: skip

RENAMED: dict[str, str] = {
    **{name: "tir." + name for name in _SCALARS},
    "Variable": "tir.Var",
    "StrMap": "Map",
    **{"relay." + name: name for name in _NO_LONGER_RELAY},
    "relay.Module": "IRModule",
}
"""What 0.7 calls the nodes of 0.6 that it renamed."""

UNCHANGED = ("", "Array", "DictAttrs", "EnvFunc", "FloatImm", "IntImm", "Map", "Range")
"""Nodes of 0.6 outside of Relay that 0.7 calls the same."""

VIRTUAL_DEVICE_NODES: tuple[str, ...] = (
    "relay.Call", "relay.Constant", "relay.Function", "relay.If", "relay.Let", "relay.Match",
    "relay.RefCreate", "relay.RefRead", "relay.RefWrite", "relay.Tuple", "relay.TupleGetItem",
    "relay.Var", "GlobalVar",
)  # fmt: skip
"""The nodes that have a field ``virtual_device_`` since 0.9."""

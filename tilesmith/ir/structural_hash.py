"""Computes the structural hash, from numbers and blake2 of texts: equal in every process."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from tilesmith.ir.module import IRModule
from tilesmith.ir.node import Node
from tilesmith.ir.structural_plan import (
    PLANS,
    Plan,
    as_array,
    expression_of,
    plan_of,
    text_hash,
)  # fmt: skip
from tilesmith.support.errors import TypeMismatchError
from tilesmith.support.recursion import deep_recursion

__all__ = ["structural_hash"]

_MASK = (1 << 64) - 1


_VARIABLE = text_hash("variable")
_FREE = text_hash("free variable")
_NONE = text_hash("none")
_TRUE, _FALSE = text_hash("true"), text_hash("false")
_SEQUENCE, _MAPPING, _ARRAY = text_hash("sequence"), text_hash("mapping"), text_hash("array")
_TEXTS: dict[str, int] = {}


def _mix(state: int, value: int) -> int:
    state = (state ^ value) * 0x9E3779B97F4A7C15 & _MASK
    return state ^ (state >> 29)


class _Hasher:
    """Computes one hash. Definitions are numbered in the order in which they occur."""

    def __init__(self, map_free_vars: bool, pairs_buffers: bool) -> None:
        self.map_free_vars = map_free_vars
        self.pairs_buffers = pairs_buffers  # see `structural.py`: those that nobody declared
        self.defined: dict[int, int] = {}  # hash of a definition, by its id
        self.known: dict[int, int] = {}  # hash of a node, by its id
        self.binding = False
        self.count = 0

    def node(self, node: Any) -> int:
        cls = node.__class__
        plan = PLANS.get(cls) or plan_of(cls)
        kind = plan.kind
        if kind == "fields":
            found = self.known.get(id(node))
            if found is None:
                found = self.known[id(node)] = self.fields(node, plan)
            return found
        if kind == "variable":
            return self.variable(node, plan)
        if kind == "leaf":
            defined = self.defined.get(id(node))
            if defined is not None:
                return defined
            binding, self.binding = self.binding, self.pairs_buffers
            found = self.fields(node, plan)
            self.binding = binding
            return self.define(node, found) if self.pairs_buffers else found
        if kind == "key":
            return _mix(plan.tag, self.data(node.structural_key()))
        return self.module(node, plan) if kind == "module" else self.data(node)

    def fields(self, node: Any, plan: Plan) -> int:
        state = plan.tag
        saved: list[tuple[Any, int | None]] = []
        for action, name, shape, binds in plan.steps:
            if action == "undo":
                self.restore(saved)
                break
            value = getattr(node, name)
            if action == "child":
                outer = self.binding
                self.binding = outer or binds
                part = self.children(value, shape)
                self.binding = outer
            elif action == "data":
                part = self.data(value)
            else:
                part = self.definitions(value, shape, saved)
            state = _mix(state, part)
        return state

    def restore(self, saved: list[tuple[Any, int | None]]) -> None:
        for definition, outside in reversed(saved):
            if outside is None:
                self.defined.pop(id(definition), None)
            else:
                self.defined[id(definition)] = outside

    def children(self, value: Any, shape: str) -> int:
        if shape == "one":
            return self.node(value)
        if shape == "tuple":
            state = _mix(_SEQUENCE, len(value))
            for item in value:
                state = _mix(state, self.node(item))
            return state
        return self.data(value)

    def variable(self, node: Any, plan: Plan) -> int:
        defined = self.defined.get(id(node))
        if defined is not None:
            return defined
        if self.binding or self.map_free_vars:
            return self.define(node, self.fields(node, plan))
        # Free variables are equal only if they are one object, which has one name.
        return _mix(_FREE, self.data(getattr(node, "name", None)))

    def define(self, node: Any, fields: int) -> int:
        if id(node) in self.defined:
            self.known.clear()
        self.count += 1
        found = self.defined[id(node)] = _mix(_mix(_VARIABLE, fields), self.count)
        return found

    def definitions(self, value: Any, shape: str, saved: list[Any]) -> int:
        if shape == "tuple":
            items: Any = value
        elif shape == "mapping":
            items = value.values()
        else:
            items = () if value is None else (value,)
        state = _mix(_SEQUENCE, len(items))
        for item in items:
            saved.append((item, self.defined.get(id(item))))
            state = _mix(state, self.definition(item))
        return state

    def definition(self, node: Any) -> int:
        plan = plan_of(node.__class__)
        if plan.kind not in ("variable", "leaf"):
            return self.node(node)
        binding, self.binding = self.binding, True
        found = self.fields(node, plan)
        self.binding = binding
        return self.define(node, found)

    def module(self, module: IRModule, plan: Plan) -> int:
        state = plan.tag
        named = {variable.name_hint: function for variable, function in module.functions.items()}
        for name in sorted(named):
            self.count = 0  # the order of the functions does not matter
            state = _mix(_mix(state, self.data(name)), self.node(named[name]))
        state = _mix(_mix(state, self.data(module.attrs)), self.data(module.global_infos))
        types = module.type_definitions
        return _mix(state, self.data(types)) if types else state

    def data(self, value: Any) -> int:
        if isinstance(value, str):
            found = _TEXTS.get(value)
            if found is None:
                found = text_hash(value)
                if len(_TEXTS) < 10_000:
                    _TEXTS[str(value)] = found
            return found
        if value is None:
            return _NONE
        if isinstance(value, bool):
            return _TRUE if value else _FALSE
        if isinstance(value, int):
            return int(value) & _MASK if -(2**63) <= value < 2**63 else text_hash(str(int(value)))
        if isinstance(value, float):
            return text_hash(value.hex())
        if isinstance(value, Node):
            return self.node(value)
        if isinstance(value, (tuple, list)):
            state = _mix(_SEQUENCE, len(value))
            for item in value:
                state = _mix(state, self.data(item))
            return state
        if isinstance(value, Mapping):
            state = _mix(_MAPPING, len(value))
            for key in sorted(value, key=str):
                state = _mix(_mix(state, self.data(str(key))), self.data(value[key]))
            return state
        return self.other(value)

    def other(self, value: Any) -> int:
        if isinstance(value, bytes):
            return text_hash(value)
        array = as_array(value)
        if array is not None:
            state = _mix(_mix(_ARRAY, text_hash(str(array.dtype))), self.data(tuple(array.shape)))
            return _mix(state, text_hash(array.tobytes()))
        if isinstance(value, Enum):
            return text_hash(f"{type(value).__name__}.{value.name}")
        if hasattr(value, "structural_key"):
            return self.data(value.structural_key())
        text = str(value)
        if " at 0x" in text:
            raise TypeMismatchError(
                f"an attribute of type {type(value).__name__} has no structural hash",
                notes=("give the class a method structural_key that returns a plain value",),
            )
        return _mix(text_hash(type(value).__name__), text_hash(text))


def structural_hash(node: Any, map_free_vars: bool = False) -> int:
    """Return a 64-bit number that is equal for nodes that are ``structural_equal``, in every
    process.
    """
    node = expression_of(node)
    is_part = isinstance(node, Node) and node.is_program_part
    with deep_recursion():
        return _Hasher(map_free_vars, is_part).data(node)

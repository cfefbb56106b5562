"""Plans how each class of nodes is compared and hashed, from the roles of its fields."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, NamedTuple

from tilesmith.ir.module import IRModule
from tilesmith.ir.node import Node, Role

__all__ = ["definition_steps", "plan_of"]


class Step(NamedTuple):
    """How one field is processed: ``action`` is "define", "child", "data" or "undo"."""

    action: str
    name: str
    shape: str
    binds: bool


class Plan(NamedTuple):
    """How a class is compared and hashed."""

    kind: str  # "variable", "leaf", "key", "module", "fields" or "data"
    steps: tuple[Step, ...]
    tag: int


PLANS: dict[type, Plan] = {}


def plan_of(cls: type) -> Plan:
    """Return the plan of a class, which is made once."""
    found = PLANS.get(cls)
    if found is None:
        found = PLANS[cls] = _make_plan(cls)
    return found


def _make_plan(cls: Any) -> Plan:
    if not issubclass(cls, Node):
        return Plan("data", (), 0)
    if hasattr(cls, "structural_key"):
        kind = "key"
    elif cls.is_variable:
        kind = "variable"
    elif cls.is_leaf:
        kind = "leaf"
    elif issubclass(cls, IRModule):
        kind = "module"
    else:
        kind = "fields"
    fields = [field for field in cls.node_fields if field.role is not Role.NOTE]
    order = getattr(cls, "structural_order", None)
    if order is not None:
        by_name = {field.name: field for field in fields}
        missing = set(by_name) ^ set(order)
        if missing:
            raise TypeError(f"{cls.__name__}.structural_order and the fields differ: {missing}")
        fields = [by_name[name] for name in order]
    else:
        fields = _definitions_first(fields)
    binds = getattr(cls, "structural_binds", ())
    steps = []
    for field in fields:
        action = {Role.CHILD: "child", Role.DATA: "data", Role.DEFINES: "define"}[field.role]
        steps.append(Step(action, field.name, field.shape, field.name in binds))
    if any(field.role is Role.DEFINES and field.scope is not None for field in fields):
        steps.append(Step("undo", "", "", False))
    return Plan(kind, tuple(steps), text_hash(cls.node_key))


def definition_steps(cls: type) -> tuple[Step, ...]:
    """Return the fields of a node class (notes left out), ordered such that definitions come before
    their uses; ``action`` "undo" ends the scopes.
    """
    return plan_of(cls).steps


def _definitions_first(fields: list[Any]) -> list[Any]:
    """Order fields: definitions without scope, then fields outside the scopes, then scoped
    definitions followed by the fields in their scopes.
    """
    scopes = {field.scope for field in fields if field.role is Role.DEFINES and field.scope}
    everywhere = [f for f in fields if f.role is Role.DEFINES and not f.scope]
    outside = [f for f in fields if f.role is not Role.DEFINES and f.name not in scopes]
    scoped = [f for f in fields if f.role is Role.DEFINES and f.scope]
    inside = [f for f in fields if f.name in scopes]
    return everywhere + outside + scoped + inside


def text_hash(text: str | bytes) -> int:
    """Return 64 bits of the hash of a text."""
    raw = text.encode() if isinstance(text, str) else text
    return int.from_bytes(blake2b(raw, digest_size=8).digest(), "little")


def expression_of(value: Any) -> Any:
    """Return the expression that a value stands for (an element of a tensor expression), else the
    value."""
    is_node = isinstance(value, Node) or not hasattr(value, "asobject")
    return value if is_node else value.asobject()


def as_array(value: Any) -> Any:
    """Return the numpy array behind an array or a tensor of the runtime; None for anything else."""
    if value.__class__.__module__ == "numpy":
        return value if hasattr(value, "tobytes") else None
    if callable(getattr(value, "numpy", None)) and hasattr(value, "shape"):
        import numpy

        return numpy.asarray(value)
    return None

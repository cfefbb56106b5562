"""What an analyzer knows and remembers; the parts of the analyzer share one such object.

Facts come from bindings of variables and from constraints; caches hold what follows from them. A
constraint scope opens a *layer*: facts are copied, caches start empty, and leaving the scope brings
the old ones back, so that nothing learnt inside survives.
"""

from __future__ import annotations

import math
from typing import Any

from tilesmith.arith.form_table import FormTable
from tilesmith.arith.forms import INT32, INT64, Atom, Leaf, Sum
from tilesmith.ir import (
    BinaryOp,
    Call,
    CallEffectKind,
    FloatImm,
    IntImm,
    Node,
    Op,
    PrimExpr,
    StringImm,
    Var,
)  # fmt: skip
from tilesmith.ir.node import Role
from tilesmith.runtime.dtype import DataType

INFINITY = math.inf

Interval = tuple[float, float]
"""Smallest and largest value: Python ints, or an infinity."""

_LAYERED_FACTS = (
    "values", "replacements", "var_bounds", "var_modular", "atom_facts", "sum_facts",
    "inequalities",
    "modular_facts", "literals", "extents",
)  # fmt: skip
_LAYERED_CACHES = ("memo", "rewritten", "bounds_cache", "modular_cache", "divisions", "rays")

_CACHE_LIMIT = 50_000


def is_index(dtype: DataType) -> bool:
    """Whether arithmetic in this dtype does not overflow: scalar int32 and int64."""
    return dtype is INT32 or dtype is INT64


class State:
    """Facts, caches and numbers of expressions."""

    def __init__(self) -> None:
        self.table = FormTable()
        # facts
        self.values: dict[Var, Sum] = {}
        self.replacements: dict[Var, PrimExpr] = {}  # of variables that are no scalar integers
        self.var_bounds: dict[Var, Interval] = {}
        self.var_modular: dict[Var, tuple[int, int]] = {}
        self.atom_facts: dict[Atom, Interval] = {}
        self.sum_facts: dict[object, Any] = {}  # bounds; under (Sum, ...) what it is not
        self.inequalities: dict[Atom, tuple[Sum, ...]] = {}
        self.modular_facts: dict[Atom, tuple[int, int]] = {}
        self.literals: dict[int, bool] = {}
        self.extents: dict[Atom, Atom] = {}  # variable -> symbolic extent of its range
        # caches
        self.memo: dict[int, tuple[PrimExpr, Sum]] = {}
        self.rewritten: dict[int, tuple[PrimExpr, PrimExpr]] = {}
        self.bounds_cache: dict[Atom, Interval] = {}
        self.modular_cache: dict[Atom, tuple[int, int]] = {}
        self.divisions: dict[tuple[int, int], tuple[tuple[Sum, Sum], Sum]] = {}  # and of what
        self.rays: dict[int, tuple[PrimExpr, Any]] = {}
        # numbers of opaque expressions; an impure call gets a new one each time it is met
        self._numbers: dict[object, int] = {}
        self._numbered: dict[int, tuple[Any, int]] = {}
        self.impure = 0
        self.visited = 0

    # Layers

    def open_layer(self) -> list[Any]:
        """Start a layer; give what comes back to ``close_layer``."""
        saved = [getattr(self, name) for name in _LAYERED_FACTS + _LAYERED_CACHES]
        for name in _LAYERED_FACTS:
            setattr(self, name, dict(getattr(self, name)))
        self.forget()
        return saved

    def close_layer(self, saved: list[Any]) -> None:
        """Drop what was learnt since ``open_layer``."""
        for name, value in zip(_LAYERED_FACTS + _LAYERED_CACHES, saved):
            setattr(self, name, value)

    def forget(self) -> None:
        """Drop the caches, for facts have changed."""
        for name in _LAYERED_CACHES:
            setattr(self, name, {})

    def trim(self) -> None:
        """Keep the memory of a long-lived analyzer bounded."""
        if len(self.memo) + len(self.rewritten) > _CACHE_LIMIT:
            self.memo = {}
            self.rewritten = {}
            self.rays = {}
            self._numbered = {}

    # Leaves

    def leaf(self, expr: PrimExpr) -> Leaf:
        """The atom of a variable or an opaque expression."""
        if isinstance(expr, Var):
            return self.table.leaf(expr, expr)
        return self.table.leaf(expr, ("leaf", self.number(expr)))

    def number(self, node: Any) -> int:
        """The same number for expressions of the same structure."""
        found = self._numbered.get(id(node))
        if found is not None:
            return found[1]
        impure = self.impure
        key = self._key(node)
        number = self._numbers.setdefault(key, len(self._numbers))
        if self.impure == impure:
            self._numbered[id(node)] = (node, number)
        return number

    def _key(self, node: Any) -> object:
        kind = node.__class__
        if isinstance(node, BinaryOp):
            return kind, self.number(node.a), self.number(node.b)
        if kind is IntImm or kind is StringImm:
            return kind, node.dtype, node.value
        if kind is FloatImm:
            return kind, node.dtype, repr(node.value)  # tells -0.0 from 0.0, equates NaNs
        if kind is Call and is_impure(node):
            self.impure += 1
            return "impure", self.impure
        if not isinstance(node, PrimExpr) or isinstance(node, Var):
            return "object", id(node), _Keep(node)
        key: list[object] = [kind, node.dtype]
        for field, value in node.field_values():
            if field.role is Role.NOTE:
                continue
            if field.role is Role.DEFINES:  # binds variables: equal only to itself
                return "object", id(node), _Keep(node)
            if field.shape == "tuple" and field.role is Role.CHILD:
                key.append(tuple([self.number(item) for item in value]))
            elif isinstance(value, Node):
                key.append(self.number(value))
            elif value is None or isinstance(value, (str, int, float, tuple)):
                key.append(value)
            else:
                return "object", id(node), _Keep(node)
        return tuple(key)


class _Keep:
    """Keeps an object alive inside a key, so that its ``id`` stays taken; always equal."""

    __slots__ = ("node",)

    def __init__(self, node: object) -> None:
        self.node = node

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Keep)

    def __hash__(self) -> int:
        return 0


_HARMLESS = frozenset(
    (
        CallEffectKind.ExprAnnotation,
        CallEffectKind.Pure,
        CallEffectKind.ReadState,
        CallEffectKind.SpecialCallArg,
        CallEffectKind.EmbedInfo,
    )
)


def is_impure(call: Call) -> bool:
    """Whether evaluating the call twice may differ from once."""
    op = call.op
    if isinstance(op, Op):
        return op.get_attr("TCallEffectKind", CallEffectKind.Opaque) not in _HARMLESS
    return True

"""Numbers expressions by structure: equal structure gives equal numbers."""

from __future__ import annotations

from typing import Any

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

__all__ = ["Numbering", "is_impure"]


class Numbering:
    """Returns expressions of the same structure the same number.

    A call with side effects gets a new number each time it is met; ``impure`` counts those, so
    that callers can tell whether an answer may be kept.
    """

    __slots__ = ("_numbered", "_numbers", "impure")

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}
        self._numbered: dict[int, tuple[Any, int]] = {}
        self.impure = 0

    def trim(self) -> None:
        """Drops the cache of numbered objects; equal structures keep their numbers."""
        self._numbered = {}

    def number(self, node: Any) -> int:
        """Returns the number of an expression."""
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
    """Returns True if evaluating the call twice may differ from evaluating it once."""
    op = call.op
    if isinstance(op, Op):
        return op.get_attr("TCallEffectKind", CallEffectKind.Opaque) not in _HARMLESS
    return True

"""Defines operators, which a Call names.

An operator is compared by identity and there is one object per name. What passes, back ends and
the script want to know about it are attributes (``Op.get("tir.exp").get_attr("TCallEffectKind")``).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

from tilesmith.ir.node import Node, data
from tilesmith.support.lazy import resolve
from tilesmith.support.registry import Registry

__all__ = ["CallEffectKind", "Op", "OpArgument", "register_intrin_lowering", "register_op_attr"]


class CallEffectKind(IntEnum):
    """The possible side effects of evaluating a call."""

    ExprAnnotation = 0
    Pure = 1
    ReadState = 2
    UpdateState = 3
    SpecialCallArg = 4
    EmbedInfo = 5
    ControlJump = 6
    Opaque = UpdateState


class OpArgument(NamedTuple):
    """What an operator says about one of its arguments."""

    name: str
    type_info: str
    description: str


class OpFacts:
    """What relay asks about an operator; -1 and "" say that nobody has stated it."""

    def __init__(self) -> None:
        self.arguments: tuple[OpArgument, ...] = ()
        self.num_inputs = -1
        self.support_level = 10
        self.attrs_type_key = ""
        self.op_type: Any = None


_OPS: Registry[Op] = Registry(
    "operator", providers={"relax.": "tilesmith.relax.op", "tir.": "tilesmith.ir.intrinsics"}
)


class _FunctionalOperators:
    """Loads the operators of the functional door, whose names have no prefix."""

    def load(self, name: str) -> None:
        """Import them unless the name is one of another family."""
        if name.startswith("qnn."):
            resolve("tilesmith.relay.qnn.op")
        elif not name.startswith(("relax.", "tir.")):
            resolve("tilesmith.relay.op")

    def load_all(self) -> None:
        """Import them."""
        resolve("tilesmith.relay.op")
        resolve("tilesmith.relay.qnn.op")


_OPS.provide("", _FunctionalOperators())


class Op(Node, key="ir.Op", slots=("_attrs", "_facts", "_levels", "spec")):
    """A named operator. Make one with ``Op.register``, find it with ``Op.get``."""

    name: str = data()

    def __init__(self, name: str) -> None:
        self.name = name
        self._attrs: dict[str, Any] = {}
        self._facts = OpFacts()
        self._levels: dict[str, int] = {}
        self.spec: Any = None

    @staticmethod
    def get(op_name: str) -> Op:
        """Return the operator of that name; the error for an unknown name suggests the nearest
        one.
        """
        return _OPS.get(op_name)

    @staticmethod
    def register(name: str, **attrs: Any) -> Op:
        """Make and register an operator with attributes."""
        op = Op(name)
        op._attrs.update(attrs)
        _OPS.register(name, op)
        return op

    @staticmethod
    def list_op_names() -> list[str]:
        """Return the names of all operators registered so far."""
        return _OPS.names()

    @staticmethod
    def exists(name: str) -> bool:
        """True if an operator of that name is registered (providers are asked)."""
        return name in _OPS

    def get_attr(self, attr_name: str, default: Any = None) -> Any:
        """Return an attribute, or ``default``."""
        return self._attrs.get(attr_name, default)

    def has_attr(self, attr_name: str) -> bool:
        """True if the attribute is set."""
        return attr_name in self._attrs

    @property
    def has_attrs(self) -> bool:
        """True if any attribute is set."""
        return bool(self._attrs)

    def set_attr(self, attr_name: str, value: Any, plevel: int = 10) -> None:
        """Set an attribute; a value set at a higher level stays."""
        if plevel >= self._levels.get(attr_name, 0):
            self._attrs[attr_name] = value
            self._levels[attr_name] = plevel

    def reset_attr(self, attr_name: str) -> None:
        """Remove an attribute."""
        self._attrs.pop(attr_name, None)
        self._levels.pop(attr_name, None)

    # What relay asks.

    @property
    def arguments(self) -> tuple[OpArgument, ...]:
        """The arguments that `add_argument` declared."""
        return self._facts.arguments

    @property
    def num_inputs(self) -> int:
        """The number of arguments; -1 for any number."""
        return self._facts.num_inputs

    @property
    def support_level(self) -> int:
        """How commonly frameworks have this operator: 1 for the most basic ones."""
        return self._facts.support_level

    @property
    def attrs_type_key(self) -> str:
        """The name of the class of a call's attributes, or ""."""
        return self._facts.attrs_type_key

    @property
    def op_type(self) -> Any:
        """The FuncType that `add_type_rel` made, or None."""
        return self._facts.op_type

    def add_argument(self, name: str, type: str, description: str) -> None:
        """Declare the next argument: ``add_argument("data", "Tensor", "The input.")``."""
        self._facts.arguments = (*self._facts.arguments, OpArgument(name, type, description))

    def set_num_inputs(self, n: int) -> None:
        """State the number of arguments; -1 for any number."""
        self._facts.num_inputs = int(n)

    def set_support_level(self, level: int) -> None:
        """State how commonly frameworks have this operator."""
        self._facts.support_level = int(level)

    def set_attrs_type_key(self, key: str) -> None:
        """State the class of a call's attributes."""
        self._facts.attrs_type_key = key

    def add_type_rel(self, rel_name: str, type_rel_func: Callable[..., Any] | None = None) -> None:
        """State how the types of the arguments and of the result are related: by the global
        function ``rel_name``, which is registered here if ``type_rel_func`` is given.

        It makes `op_type`: a function from one type per argument (or, without arguments that are
        declared, one per input) to another. Raises UnknownNameError for a name that is not
        registered, ConfigError where the operator has a relation, or any number of arguments.
        """
        self._facts.op_type = resolve("tilesmith.ir.type_relation:type_of_operator")(
            self, rel_name, type_rel_func
        )

    def astext(self, show_meta_data: bool = True, annotate: Any = None) -> str:
        """Return the operator's name."""
        return self.name

    def map_children(self, f: Callable[[Any], Any]) -> Op:
        return self


def register_op_attr(op_name: str, attr_key: str, value: Any = None, level: int = 10) -> Any:
    """Set an attribute of an operator, which is made if it is new; a decorator without
    ``value``.
    """
    op = Op.get(op_name) if Op.exists(op_name) else Op.register(op_name)

    def set_value(attribute: Any) -> Any:
        op.set_attr(attr_key, attribute, level)
        return attribute

    return set_value if value is None else set_value(value)


def register_intrin_lowering(op_name: str, target: str, *, f: Any = None, level: int = 10) -> Any:
    """Set the lowering of calls of an operator on targets of a kind ("llvm", or "default" for all).

    ``f(call)`` returns the expression that replaces the call, or None to keep it. Without ``f``
    this is a decorator.
    """
    return register_op_attr(op_name, f"{target}.FLowerIntrinsic", f, level)

"""Defines what an operator says about the types of its arguments and its result."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilesmith.ir.env_func import EnvFunc
from tilesmith.ir.node import child, data
from tilesmith.ir.types import FuncType, Type, TypeCall, TypeConstraint, TypeVar
from tilesmith.runtime.registry import get_global_func, register_func
from tilesmith.support.errors import ConfigError

if TYPE_CHECKING:
    from tilesmith.ir.op import Op

__all__ = ["TypeCall", "TypeRelation", "type_of_operator"]


class TypeRelation(TypeConstraint, key="ir.TypeRelation"):
    """The function ``func`` relates ``args``: the first ``num_inputs`` are the types of arguments,
    the others follow from them; ``attrs`` are the attributes of the call.
    """

    func: EnvFunc = child()
    args: tuple[Type, ...] = child()
    num_inputs: int = data(convert=int)
    attrs: Any = data(default=None)


def type_of_operator(op: Op, relation: str, function: Callable[..., Any] | None) -> FuncType:
    """Return the type of an operator whose types the global function ``relation`` relates; with
    ``function`` that one is registered under the name. Relations that are known already have a
    short name: "Identity", "Broadcast".

    Raises ConfigError where the operator has a relation already, or any number of arguments.
    """
    names = [argument.name for argument in op.arguments]
    names = names or [f"in{number}" for number in range(op.num_inputs)]
    if op.op_type is not None or (not names and op.num_inputs != 0):
        raise ConfigError(
            f"the operator '{op.name}' "
            + ("has a type relation already" if op.op_type is not None else "states no arguments"),
            notes=("set_num_inputs or add_argument come first, add_type_rel once",),
        )
    if function is not None:
        register_func(relation, function)
    arguments, result = tuple([TypeVar(name) for name in names]), TypeVar("out")
    if get_global_func(relation, allow_missing=True) is None:
        predefined = f"tvm.relay.type_relation.{relation}"
        if get_global_func(predefined, allow_missing=True) is not None:
            relation = predefined
    related = TypeRelation(EnvFunc.get(relation), (*arguments, result), len(arguments))
    return FuncType(arguments, result, (*arguments, result), (related,))

"""Defines names that stood at the top of the package until 2019, where a row is not enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tilesmith.contrib.graph_executor import create
from tilesmith.ir import Call, Op, PrimExpr, convert
from tilesmith.ir.op import register_intrin_lowering
from tilesmith.target import Target

__all__ = [
    "call_intrin", "create_graph_runtime",
    "current_target", "float32", "handle", "int32", "intrinsic",
    "register_intrin_rule",
]  # fmt: skip


def create_graph_runtime(graph_json_str: str, libmod: Any, ctx: Any = None, **named: Any) -> Any:
    """Return a GraphModule; ``ctx`` is what ``device`` was called until 2020."""
    return create(graph_json_str, libmod, named.pop("device", ctx), **named)


int32, float32, handle = "int32", "float32", "handle"

_ABOVE_BUILT_IN, _OVERRIDE = 11, 99


def intrinsic(name: str) -> Op:
    """Return the operator of a name that may lack its prefix: ``exp`` is ``tir.exp``.

    A name that nobody knows is registered: a rule (``register_intrin_rule``) gives it its meaning.
    """
    full = name if "." in name else "tir." + name
    return Op.get(full) if Op.exists(full) else Op.register(full)


def call_intrin(dtype: Any, func_name: Any, *args: Any) -> PrimExpr:
    """Return a call of an intrinsic by its name, also of one that programs define."""
    op = intrinsic(func_name) if isinstance(func_name, str) else func_name
    return Call(dtype, op, tuple([convert(arg) for arg in args]))


class _CallByName(NamedTuple):
    """A call as rules of that time see it: its name lacks the prefix."""

    dtype: Any
    name: str
    args: tuple[PrimExpr, ...]


def register_intrin_rule(
    target: str, intrin: str, f: Callable[[Any], Any] | None = None, override: bool = False
) -> Any:
    """Set how calls of an intrinsic are lowered for a target: ``f(call)`` returns the replacement.

    ``target`` is a kind of target or "default". A decorator without ``f``.
    """

    def register(rule: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def lowered(call: Call) -> Any:
            return rule(_CallByName(call.dtype, call.op.name.rpartition(".")[2], call.args))

        level = _OVERRIDE if override else _ABOVE_BUILT_IN
        register_intrin_lowering(intrinsic(intrin).name, target, f=lowered, level=level)
        return rule

    return register if f is None else register(f)


def current_target(allow_none: bool = True) -> Target | None:
    """Return the target that was entered last."""
    return Target.current(allow_none)

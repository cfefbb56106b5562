"""Removes what is not needed: dead bindings, unused functions, values computed twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tilesmith.ir import GlobalVar, IRModule, Op, structural_hash
from tilesmith.relay.expr import Call, Constant, Let, Tuple, TupleGetItem, Var
from tilesmith.relay.function import Function
from tilesmith.relay.rewriting import rewrite
from tilesmith.relay.transform.normal_form import Effects, without_lets
from tilesmith.relay.transform.pass_classes import relay_pass
from tilesmith.relay.walks import functions_of, parts, post_order

__all__ = ["DeadCodeElimination", "EliminateCommonSubexpr", "RemoveUnusedFunctions"]


def _live(function: Function, effects: Effects | None) -> set[Any]:
    """Return the variables whose lets are needed."""
    lets = {node.var: node for node in post_order(function) if isinstance(node, Let)}
    live: set[Any] = set()
    seen: set[int] = set()
    stack: list[Any] = [function]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Let):
            stack.append(node.body)
            if effects is not None and effects.has_effect(node.value):
                live.add(node.var)
                stack.append(node.value)
        elif isinstance(node, Var) and node in lets and node not in live:
            live.add(node)
            stack.append(lets[node].value)
        else:
            stack.extend(parts(node))
    return live


@relay_pass("DeadCodeElimination", 1)
def DeadCodeElimination(
    mod: IRModule, inline_once: bool = False, ignore_impurity: bool = False
) -> IRModule:
    """Remove lets whose variable is not used and whose value has no effects; the value of one that
    is used once takes the place of the variable, with ``inline_once``.
    """
    effects = Effects(mod)
    for variable, function in functions_of(mod):
        new = _without_dead(function, _live(function, None if ignore_impurity else effects))
        mod[variable] = _inlined_once(new, effects) if inline_once else new
    return mod


def _without_dead(function: Function, live: set[Any]) -> Any:
    return rewrite(
        function,
        lambda node: node.body if isinstance(node, Let) and node.var not in live else node,
    )


def _inlined_once(function: Function, effects: Effects) -> Any:
    uses: dict[Any, int] = {}
    for node in post_order(function):
        for part in parts(node):
            if isinstance(part, Var):
                uses[part] = uses.get(part, 0) + 1
    return without_lets(
        function, lambda let: uses.get(let.var, 0) != 1 or effects.has_effect(let.value)
    )


def called_functions(function: Any) -> list[GlobalVar]:
    """Return the variables of functions that a function mentions."""
    return [node for node in post_order(function) if isinstance(node, GlobalVar)]


@relay_pass("RemoveUnusedFunctions", 1)
def RemoveUnusedFunctions(mod: IRModule, entry_functions: Iterable[str] | None = None) -> IRModule:
    """Remove the functions that no entry needs; the entry is "main" unless others are named."""
    entries = ["main"] if entry_functions is None else list(entry_functions)
    pending = [mod.get_global_var(name) for name in entries]
    needed: set[str] = set()
    while pending:
        variable = pending.pop()
        if variable.name_hint not in needed:
            needed.add(variable.name_hint)
            pending += [one for one in called_functions(mod[variable]) if one in mod]
    for variable in mod.get_global_vars():
        if variable.name_hint not in needed:
            del mod[variable]
    return mod


def _key(node: Any) -> Any:
    """Return what two expressions share that compute the same from the same parts; None for one
    that is kept as it is.
    """
    if isinstance(node, Call):
        if not isinstance(node.op, Op) or (node.op.spec is not None and not node.op.spec.is_pure):
            return None
        attrs = None if node.attrs is None else structural_hash(node.attrs)
        return id(node.op), tuple([id(arg) for arg in node.args]), attrs
    if isinstance(node, Tuple):
        return "tuple", tuple([id(field) for field in node.fields])
    if isinstance(node, TupleGetItem):
        return "field", id(node.tuple_value), node.index
    if isinstance(node, Constant) and not node.data.shape:
        return "constant", str(node.data.dtype), node.data.numpy().tobytes()
    return None


@relay_pass("EliminateCommonSubexpr", 3, ["InferType"])
def EliminateCommonSubexpr(mod: IRModule, fskip: Callable[[Any], bool] | None = None) -> IRModule:
    """Let expressions that compute the same share one node; ``fskip`` is true for calls to keep."""
    for variable, function in functions_of(mod):
        first: dict[Any, Any] = {}

        def merged(node: Any, first: dict[Any, Any] = first) -> Any:
            key = _key(node)
            if key is None or (isinstance(node, Call) and fskip is not None and fskip(node)):
                return node
            return first.setdefault(key, node)

        mod[variable] = rewrite(function, merged)
    return mod

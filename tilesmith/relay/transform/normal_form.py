"""Three forms of the same program: bindings for all, bindings where scopes ask for them, none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from tilesmith.ir import GlobalVar, IRModule, Op
from tilesmith.relax.struct_info import ObjectStructInfo
from tilesmith.relay.adt import Constructor
from tilesmith.relay.expr import Call, Constant, Let, RefCreate, RefRead, RefWrite, Var, with_lets
from tilesmith.relay.function import Function
from tilesmith.relay.scopes import Scopes, opens_scope
from tilesmith.relay.transform.pass_classes import relay_pass
from tilesmith.relay.walks import PLAIN, functions_of, parts, post_order, with_parts

__all__ = [
    "Effects",
    "ToANormalForm", "ToANormalFormExpr", "ToBasicBlockNormalForm", "ToGraphNormalForm",
]  # fmt: skip

_ATOMS = (Var, Constant, GlobalVar, Op, Constructor, *PLAIN)


class Effects:
    """What may read or change references: nothing at all in most programs. Where something does,
    calls of functions that are not known count, too.
    """

    def __init__(self, mod: IRModule) -> None:
        functions = [function for _, function in functions_of(mod)]
        self.is_pure = not [one for one in functions if _acts(post_order(one))]

    def has_effect(self, expr: Any) -> bool:
        """Return whether computing an expression may have an effect."""
        return not self.is_pure and self._may_act(expr)

    def _may_act(self, expr: Any) -> bool:
        inside = list(post_order(expr, lambda one: not isinstance(one, Function)))
        callees = [node.op for node in inside if isinstance(node, Call)]
        unknown = [one for one in callees if not isinstance(one, (Op, Constructor, Function))]
        bodies = [one.body for one in callees if isinstance(one, Function)]
        return bool(unknown) or _acts(inside) or bool([one for one in bodies if self._may_act(one)])


def _acts(nodes: Iterable[Any]) -> bool:
    for node in nodes:
        if isinstance(node, (RefCreate, RefRead, RefWrite)):
            return True
        if isinstance(node, Op) and node.spec is not None and not node.spec.is_pure:
            return True
    return False


class _Binder:
    """Rebuilds an expression with the bindings that ``wanted`` asks for."""

    def __init__(self, expr: Any, wanted: Callable[[Scopes, Any], bool]) -> None:
        self.scopes = Scopes(expr)
        self.wanted = wanted
        self.root = expr
        self.bindings: dict[int, list[tuple[Var, Any]]] = {}
        self.done: dict[Any, Any] = {}
        self.tasks: list[Callable[[], None]] = []

    def run(self) -> Any:
        """Return the rebuilt expression."""
        self.tasks.append(lambda: self.begin(self.root))
        while self.tasks:
            self.tasks.pop()()
        return self.closed(0, self.done[id(self.root)])

    def closed(self, scope: int, value: Any) -> Any:
        """Return the value of a scope with its bindings around it."""
        return with_lets(self.bindings.pop(scope, []), value)

    def begin(self, node: Any, var: Var | None = None) -> None:
        """Do what rebuilds a node; ``var`` is the variable that a let gives it."""
        if id(node) in self.done:
            if var is not None and self.done[id(node)] is not var:
                self.bind(self.scopes.of[id(node)], var, self.done[id(node)])
            return
        if isinstance(node, Let):
            self.tasks.append(lambda: self.finish_let(node))
            self.tasks.append(lambda: self.begin(node.body))
            self.tasks.append(lambda: self.bound(node))
            self.tasks.append(lambda: self.begin_value(node))
            return
        self.tasks.append(lambda: self.finish(node, var))
        for place in reversed(range(len(parts(node)))):
            part = parts(node)[place]
            if opens_scope(node, place):
                self.tasks.append(partial(self.close, node, place, part))
            self.tasks.append(partial(self.begin, part))

    def begin_value(self, let: Let) -> None:
        """Rebuild the value of a let, under its variable if both are in one scope."""
        same = self.scopes.of[id(let.value)] == self.scopes.of[id(let)]
        is_atom = isinstance(let.value, (*_ATOMS, Let))
        if same and not is_atom and id(let.value) not in self.done:
            self.begin(let.value, let.var)
        else:
            self.begin(let.value)

    def bound(self, let: Let) -> None:
        """Bind the variable of a let, unless its value got it."""
        value = self.done[id(let.value)]
        if value is not let.var:
            self.bind(self.scopes.of[id(let)], let.var, value)

    def finish_let(self, let: Let) -> None:
        """The value of a let is that of its body."""
        self.done[id(let)] = self.done[id(let.body)]

    def bind(self, scope: int, var: Var, value: Any) -> None:
        """Add a binding to a scope."""
        self.bindings.setdefault(scope, []).append((var, value))

    def close(self, node: Any, place: int, part: Any) -> None:
        """End the scope that a part of a node opened."""
        scope = self.scopes.inner[id(node), place]
        self.done[id(node), place] = self.closed(scope, self.done[id(part)])

    def finish(self, node: Any, var: Var | None) -> None:
        """Rebuild a node whose parts are rebuilt, and bind it."""
        new = []
        for place, part in enumerate(parts(node)):
            key: Any = (id(node), place) if opens_scope(node, place) else id(part)
            new.append(self.done[key])
        value = with_parts(node, new)
        if var is None and not isinstance(node, _ATOMS) and self.wanted(self.scopes, node):
            info = getattr(node, "_struct_info", None)
            known = None if isinstance(info, ObjectStructInfo) else info
            var = Var("x", known, None, "relay")
        if var is not None:
            self.bind(self.scopes.of[id(node)], var, value)
            value = var
        self.done[id(node)] = value


def _of_function(function: Function, wanted: Callable[[Scopes, Any], bool]) -> Function:
    if function.attrs.get("Primitive") or function.attrs.get("Compiler"):
        return function
    return with_parts(function, (_Binder(function.body, wanted).run(),))  # type: ignore[no-any-return]


def _all(scopes: Scopes, node: Any) -> bool:
    return True


def _shared(scopes: Scopes, node: Any) -> bool:
    return id(node) in scopes.shared


def _each(mod: IRModule, change: Callable[[Function], Function]) -> IRModule:
    for variable, function in functions_of(mod):
        mod[variable] = change(function)
    return mod


@relay_pass("ToANormalForm", 1)
def ToANormalForm(mod: IRModule) -> IRModule:
    """Bind each value that is computed to a variable, in the order of the computation."""
    return _each(mod, lambda function: _of_function(function, _all))


def ToANormalFormExpr(e: Any) -> Any:
    """Return an expression in which each value that is computed is bound to a variable."""
    return _of_function(e, _all) if isinstance(e, Function) else _Binder(e, _all).run()


@relay_pass("ToBasicBlockNormalForm", 1)
def ToBasicBlockNormalForm(mod: IRModule) -> IRModule:
    """Bind each value that several scopes share to a variable in the scope around them."""
    return _each(mod, lambda function: _of_function(function, _shared))


def without_lets(expr: Any, is_kept: Callable[[Let], bool]) -> Any:
    """Return an expression with variables that lets bind replaced by their values, but for lets
    that are kept and functions that refer to themselves.
    """
    lets = {node.var: node for node in post_order(expr) if isinstance(node, Let)}
    kept = {var for var, let in lets.items() if is_kept(let)}
    done: dict[int, Any] = {}
    for node in post_order(expr):
        if isinstance(node, Var) and node in lets and node not in kept:
            value = done.get(id(lets[node].value))
            if value is None:  # inside of its own value
                kept.add(node)
            done[id(node)] = node if value is None else value
        elif isinstance(node, Let) and node.var not in kept:
            done[id(node)] = done[id(node.body)]
        else:
            done[id(node)] = with_parts(node, [done[id(part)] for part in parts(node)])
    return done[id(expr)]


@relay_pass("ToGraphNormalForm", 1)
def ToGraphNormalForm(mod: IRModule) -> IRModule:
    """Replace variables that lets bind by their values, which users then share. Lets whose values
    have effects stay.
    """
    effects = Effects(mod)
    return _each(
        mod,
        lambda function: without_lets(function, lambda let: effects.has_effect(let.value)),
    )

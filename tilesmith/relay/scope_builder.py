"""Builds nested lets and choices in the order in which one thinks of them.

sb = ScopeBuilder()
with sb.if_scope(cond):
    one = sb.let("one", relay.const(1.0))
    sb.ret(one)
with sb.else_scope():
    sb.ret(x)
expr = sb.get()
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tilesmith.relax.expr import as_expr
from tilesmith.relay.expr import If, Var, var, with_lets
from tilesmith.relay.ty import Type
from tilesmith.support.errors import ConfigError, TypeMismatchError

__all__ = ["ScopeBuilder"]


class _Scope:
    """A scope that is being written: its bindings, and its value once there is one."""

    def __init__(self) -> None:
        self.bindings: list[tuple[Var, Any]] = []
        self.value: Any = None
        self.choice: list[Any] = []  # condition, branches that are done

    def closed(self) -> Any:
        if self.value is None:
            raise ConfigError(
                "the scope returns no value",
                notes=("end it with ret(value), or with an if_scope and an else_scope",),
            )
        return with_lets(self.bindings, self.value)


class ScopeBuilder:
    """Collects bindings; `get` returns the expression."""

    def __init__(self) -> None:
        self._scopes = [_Scope()]

    def let(self, var: Any, value: Any) -> Var:
        """Bind a value to a variable, or to a new one of a name, or of a name and a type."""
        if isinstance(var, (tuple, list)):
            if len(var) != 2:
                raise TypeMismatchError(f"expected a name and a type, got {var!r}")
            var = _typed(*var)
        elif isinstance(var, str):
            var = _typed(var, None)
        scope = self._open_scope("let")
        scope.bindings.append((var, as_expr(value)))
        made: Var = var
        return made

    def _open_scope(self, what: str) -> _Scope:
        scope = self._scopes[-1]
        if scope.value is not None or scope.choice:
            raise ConfigError(f"{what} follows the end of its scope")
        return scope

    @contextmanager
    def if_scope(self, cond: Any) -> Iterator[None]:
        """Yield the scope of what happens where ``cond`` is true; an else_scope has to follow."""
        self._open_scope("if_scope").choice = [as_expr(cond)]
        self._scopes.append(_Scope())
        yield
        self._scopes[-2].choice.append(self._scopes.pop().closed())

    @contextmanager
    def else_scope(self) -> Iterator[None]:
        """Yield the scope of what happens otherwise; the choice is the value of its scope."""
        if len(self._scopes[-1].choice) != 2:
            raise ConfigError("else_scope has to follow an if_scope")
        self._scopes.append(_Scope())
        yield
        false = self._scopes.pop().closed()
        scope = self._scopes[-1]
        condition, true = scope.choice
        scope.value, scope.choice = If(condition, true, false), []

    def type_of(self, expr: Any) -> Type | None:
        """Return the type of an expression as far as it is known before InferType."""
        if isinstance(expr, Var):
            return expr.type_annotation
        found: Type | None = expr.checked_type
        return found

    def ret(self, value: Any) -> None:
        """Set the value of the scope."""
        self._open_scope("ret").value = as_expr(value)

    def get(self) -> Any:
        """Return the expression. Raises ConfigError where a scope returns no value."""
        if len(self._scopes) != 1:
            raise ConfigError("get() is called inside an if_scope or else_scope")
        return self._scopes[0].closed()


def _typed(name: str, type_: Any) -> Var:
    return var(name, type_)

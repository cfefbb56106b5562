"""Names the variables of a function under construction, and checks where they can be seen."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from tilesmith.ir.queries import nodes
from tilesmith.relax.expr import Binding, BindingBlock, DataflowVar, Function, If, SeqExpr, Var
from tilesmith.support.errors import DiagnosticError

__all__ = ["NameSupply", "check_bound", "check_outputs", "check_visible"]


class NameSupply:
    """Supplies unique names: ``conv2d``, ``conv2d1``, ``conv2d2``."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.taken = set(taken)
        self._next: dict[str, int] = {}

    def reserve(self, name: str) -> None:
        """Mark a name as taken."""
        self.taken.add(name)

    def fresh(self, prefix: str) -> str:
        """Return ``prefix``, with a number if it is taken; invalid characters become ``_``."""
        prefix = re.sub(r"\W", "_", prefix) or "v"
        name, number = prefix, self._next.get(prefix, 0)
        while name in self.taken:
            number += 1
            name = f"{prefix}{number}"
        self._next[prefix] = number
        self.taken.add(name)
        return name


def check_outputs(name: str, blocks: Iterable[BindingBlock]) -> None:
    """Refuse dataflow blocks that compute values, none of which can be used after them."""
    for block in blocks:
        if all(isinstance(binding.var, DataflowVar) for binding in block.bindings):
            first = block.bindings[0]
            raise DiagnosticError(
                f"the dataflow block of '{first.var.name_hint}' in '{name}' has no output: nothing"
                " that it computes can be used",
                first.span,
                ("emit what is used after it with bb.emit_output(...)",),
            )


def check_visible(
    name: str, blocks: Iterable[BindingBlock], output: Any, advice: str | None = None
) -> None:
    """Refuse variables of a dataflow block that are used after its end; ``advice`` says how they
    leave it.
    """
    for block in blocks:
        own = {binding.var for binding in block.bindings}
        for binding in block.bindings:
            _refuse_hidden(name, binding.value, own, advice)
    _refuse_hidden(name, output, set(), advice)


def check_bound(name: str, params: Iterable[Any], body: SeqExpr) -> None:
    """Refuse a function that uses a variable which is neither a parameter nor bound inside."""
    bound = {binding.var for binding in nodes(body, Binding)}.union(params)
    for function in nodes(body, Function):
        bound.update(function.params)
    for block in body.blocks:
        for binding in block.bindings:
            _refuse_free(name, binding.value, bound, binding.span)
    _refuse_free(name, body.body, bound, None)


def _refuse_free(name: str, value: Any, bound: set[Any], span: Any) -> None:
    free = next((var for var in nodes(value, Var) if var not in bound), None)
    if free is not None:
        raise DiagnosticError(
            f"'{free.name_hint}' is used in '{name}', but is no parameter of it",
            span,
            (f"give it to bb.function('{name}', [...]), or bind it in the function",),
        )


def _refuse_hidden(name: str, value: Any, own: set[Any], advice: str | None) -> None:
    """Refuse an expression that uses a variable of a dataflow block, except for those in ``own``
    and those that the expression binds itself.
    """
    if isinstance(value, (SeqExpr, If, Function)):
        return
    hidden = next((var for var in nodes(value, DataflowVar) if var not in own), None)
    if hidden is not None:
        raise DiagnosticError(
            f"'{hidden.name_hint}' is used after the end of its dataflow block in '{name}'",
            notes=(
                advice
                or "what is used outside leaves the block with emit_output: "
                f"{hidden.name_hint} = bb.emit_output(...)",
            ),
        )

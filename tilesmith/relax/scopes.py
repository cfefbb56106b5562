"""Names the variables of a function under construction, and checks where they can be seen."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from tilesmith.ir.queries import nodes
from tilesmith.relax.expr import BindingBlock, DataflowVar, Function, If, SeqExpr
from tilesmith.support.errors import DiagnosticError

__all__ = ["NameSupply", "check_visible"]


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


def check_visible(name: str, blocks: Iterable[BindingBlock], output: Any) -> None:
    """Refuse variables of a dataflow block that are used after its end."""
    for block in blocks:
        own = {binding.var for binding in block.bindings}
        for binding in block.bindings:
            _refuse_hidden(name, binding.value, own)
    _refuse_hidden(name, output, set())


def _refuse_hidden(name: str, value: Any, own: set[Any]) -> None:
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
                "what is used outside leaves the block with emit_output: "
                f"{hidden.name_hint} = bb.emit_output(...)",
            ),
        )

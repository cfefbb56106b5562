"""Holds the tables of rules: how each kind of expression and each operator is written.

    @handles_node(Cast)
    def _cast(emit: Values, expr: Cast) -> str: ...

    @handles("likely", "tvm_thread_invariant")
    def _hint(emit: Values, call: Call) -> str: ...

A rule writes instructions and returns the operand. A new operator is one function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tilesmith.ir.rules import NodeRules, OperatorRules

__all__ = ["INTRINSICS", "NODE_RULES", "Processor", "Rule", "handles", "handles_node"]

Rule = Callable[[Any, Any], str]

NODE_RULES: NodeRules[Rule] = NodeRules("LLVM code of expressions")
INTRINSICS: OperatorRules[Rule] = OperatorRules()
handles_node, handles = NODE_RULES.handles, INTRINSICS.handles


class Processor(NamedTuple):
    """A kind of processor that code is written for: its name in messages, the rules of its calls.

    ``call_advice`` belongs to the error for an operator without a rule. ``no_errors`` says why code
    cannot report errors and what to do; None where it can.
    """

    name: str
    calls: Mapping[str, Rule]
    call_advice: tuple[str, ...] = ()
    no_errors: tuple[str, str] | None = None

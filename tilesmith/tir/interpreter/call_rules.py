"""The tables of call rules: how each operator is compiled, for one thread and for a group of
threads.

    @handles("assume")
    def _assume(compiler: ExpressionCompiler, call: Call) -> Evaluate: ...

    @handles_for_group("tvm_storage_sync")
    def _barrier(compiler: ExpressionCompiler, call: Call, span: Span | None) -> RunGroup: ...

A new operator is one function here, or one in the table of ``operators`` where only the values of
its arguments matter. An operator with a rule for groups, or one that ``is_collective``, makes the
threads of a kernel run side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tilesmith.ir import Call, GlobalVar, StringImm
from tilesmith.ir.rules import OperatorRules
from tilesmith.tir.interpreter.values import Evaluate, RunGroup

__all__ = [
    "CALLS", "GROUP_CALLS", "SHUFFLE_FUNCTIONS", "CallRule", "handles", "handles_for_group",
    "is_collective",
]  # fmt: skip

Rule = Callable[..., Evaluate]
GroupRule = Callable[..., RunGroup]


class CallRule(NamedTuple):
    """How a call is compiled for one thread; ``is_collective``: it needs the other threads."""

    compile: Rule
    is_collective: bool


CALLS: OperatorRules[CallRule] = OperatorRules()
"""Rules for one thread by the operator's full name."""

GROUP_CALLS: OperatorRules[GroupRule] = OperatorRules()
"""Rules for calls that are statements which threads carry out together."""

handles_for_group = GROUP_CALLS.handles

SHUFFLE_FUNCTIONS = ("__shfl", "__activemask")
"""How the names of CUDA's functions begin that exchange values within a warp."""


def handles(*names: str, is_collective: bool = False) -> Callable[[Rule], Rule]:
    """Register the rule of calls under operator names without ``tir.``."""

    def enter(rule: Rule) -> Rule:
        CALLS.handles(*names)(CallRule(rule, is_collective))
        return rule

    return enter


def is_collective(call: Call) -> bool:
    """Return whether a call needs several threads together."""
    if isinstance(call.op, GlobalVar):
        return False
    name = call.op.name
    if name in GROUP_CALLS:
        return True
    rule = CALLS.get(name)
    if rule is not None and rule.is_collective:
        return True
    if name in ("tir.call_extern", "tir.call_pure_extern"):
        function = call.args[0]
        return isinstance(function, StringImm) and function.value.startswith(SHUFFLE_FUNCTIONS)
    return False

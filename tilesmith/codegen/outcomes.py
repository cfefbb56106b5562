"""Finds the outcomes of functions: errors, calls of other functions, return values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tilesmith.ir import Call, GlobalVar, PointerType, PrimExpr, PrimType
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import Allocate, AssertStmt, Stmt

__all__ = ["ModuleOutcomes", "called_functions"]

IsOnStack = Callable[[Allocate], bool]
"""Whether an allocation needs no memory of the system, which may have none left."""

_FAILING_CALLS = frozenset(
    "tir." + name
    for name in (
        "tvm_call_packed", "tvm_call_cpacked", "tvm_call_trace_packed",
        "tvm_call_packed_lowered", "tvm_call_cpacked_lowered", "tvm_call_trace_packed_lowered",
        "tvm_check_return", "tvm_throw_last_error", "checked",
    )
)  # fmt: skip


class _Outcome(NamedTuple):
    """Possible outcomes of a statement: ``can_fail`` (by an assertion, a check, a packed call,
    memory from the system), the functions it calls, the dtype of the value of `tir.ret`.
    """

    can_fail: bool
    callees: set[str]
    returned: DataType | None


def _outcome_of(body: Stmt, is_on_stack: IsOnStack) -> _Outcome:
    """Find the outcome of a statement; shared expressions are visited once."""
    can_fail = False
    callees: set[str] = set()
    returned: DataType | None = None
    stack: list[Any] = [body]
    seen: set[int] = set()
    while stack:
        node = stack.pop()
        if node.is_leaf or id(node) in seen:
            continue
        if isinstance(node, PrimExpr):
            seen.add(id(node))
            if isinstance(node, Call):
                if isinstance(node.op, GlobalVar):
                    callees.add(node.op.name_hint)
                elif node.op.name in _FAILING_CALLS:
                    can_fail = True
                elif node.op.name == "tir.ret" and node.args:
                    returned = node.args[0].dtype
        elif isinstance(node, AssertStmt):
            can_fail = True
        elif isinstance(node, Allocate):
            can_fail = can_fail or not is_on_stack(node)
        node.push_children(stack)
    return _Outcome(can_fail, callees, returned)


class ModuleOutcomes:
    """What the functions of a module return, and which of them may fail."""

    def __init__(self, functions: Mapping[str, PrimFunc], is_on_stack: IsOnStack) -> None:
        self.functions = functions
        self.is_on_stack = is_on_stack
        self.returned: dict[str, DataType | None] = {}
        self._failing: set[str] = set()
        callees: dict[str, set[str]] = {}
        for name, function in functions.items():
            outcome = _outcome_of(function.body, is_on_stack)
            callees[name] = outcome.callees
            self.returned[name] = _returned_dtype(function, outcome)
            if outcome.can_fail or outcome.callees - functions.keys():
                self._failing.add(name)
        more = True
        while more:  # through what they call
            found = {n for n, called in callees.items() if called & self._failing} - self._failing
            self._failing |= found
            more = bool(found)

    def may_fail(self, name: str) -> bool:
        """True if a function may report an error; one of another object file may."""
        return name not in self.functions or name in self._failing

    def can_fail(self, body: Stmt) -> bool:
        """True if a statement can fail, alone or through functions that it calls."""
        outcome = _outcome_of(body, self.is_on_stack)
        return outcome.can_fail or any(self.may_fail(name) for name in outcome.callees)


def _returned_dtype(function: PrimFunc, outcome: _Outcome) -> DataType | None:
    """Return the dtype that a function returns, or None. Without a declared return type it is taken
    from the body.
    """
    if isinstance(function.ret_type, PrimType) and not function.ret_type.dtype.is_void:
        return function.ret_type.dtype
    if isinstance(function.ret_type, PointerType):
        return DataType("handle")
    found = outcome.returned
    return None if found is None or found.is_void else found


def called_functions(function: PrimFunc) -> set[str]:
    """Return the names of the functions of the module that a function calls."""
    return _outcome_of(function.body, lambda allocation: True).callees

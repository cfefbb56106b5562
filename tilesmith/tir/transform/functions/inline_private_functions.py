"""InlinePrivateFunctions: replaces calls of private functions by their bodies.

    @T.prim_func
    def main(A: ..., B: ...):                   def main(A: ..., B: ...):
        for i in range(16):                         for i in range(16):
            sub(A.data, B.data, i)                      B[i] = A[i] * 2.0

A private function (one without ``global_symbol``) that is not recursive, returns nothing and has
the target of its caller is inlined; it is dropped when no calls of it are left.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import (
    BaseFunc,
    Call,
    FloatImm,
    GlobalVar,
    IntImm,
    IRModule,
    PrimExpr,
    Var,
    VoidType,
)
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import any_node, is_call, nodes
from tilesmith.ir.structural import structural_equal
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import renew_defs, substitute
from tilesmith.tir.stmt import Evaluate, LetStmt, Stmt
from tilesmith.tir.transform.statement_rewriter import StatementRewriter

__all__ = ["inline_private_functions"]


def _callees(func: PrimFunc) -> list[GlobalVar]:
    return list(dict.fromkeys(nodes(func.body, GlobalVar)))


def _is_recursive(mod: IRModule, start: GlobalVar) -> bool:
    waiting, seen = [start], set()
    while waiting:
        func = mod.functions.get(waiting.pop())
        if not isinstance(func, PrimFunc):
            continue
        for callee in _callees(func):
            if callee is start:
                return True
            if callee not in seen:
                seen.add(callee)
                waiting.append(callee)
    return False


def _returns(func: PrimFunc) -> bool:
    gives_back = any_node(func.body, lambda node: is_call(node, "tir.ret"))
    return gives_back or not structural_equal(func.ret_type, VoidType())


class _Inliner(StatementRewriter):
    def __init__(self, candidates: dict[GlobalVar, PrimFunc], target: Any) -> None:
        self.candidates = candidates
        self.target = target

    def visit_Evaluate(self, evaluation: Evaluate) -> Stmt:
        call = evaluation.value
        if not isinstance(call, Call) or not isinstance(call.op, GlobalVar):
            return evaluation
        callee = self.candidates.get(call.op)
        if callee is None or callee.attrs.get("target", self.target) != self.target:
            return evaluation
        body = _inlined(callee, call.args)
        return evaluation if body is None else self.visit(body)


def _inlined(callee: PrimFunc, arguments: tuple[PrimExpr, ...]) -> Stmt | None:
    """Return the body of a function for some arguments; None where a buffer has symbolic sizes or
    the arguments do not fit."""
    func = renew_defs(callee)
    if len(arguments) != len(func.params):
        return None
    mapping: dict[Var, PrimExpr] = {}
    lets: list[tuple[Var, PrimExpr]] = []
    for param, argument in zip(func.params, arguments):
        buffer = func.buffer_map.get(param)
        variable = param
        if buffer is not None:
            parts = (*buffer.shape, *buffer.strides, buffer.elem_offset)
            if not isinstance(argument, Var) or not all(isinstance(p, IntImm) for p in parts):
                return None
            variable = buffer.data
        if isinstance(argument, (Var, IntImm, FloatImm)) and argument.dtype is variable.dtype:
            mapping[variable] = argument
        else:
            lets.append((variable, argument))
    body = substitute(func.body, mapping)
    for variable, argument in reversed(lets):
        body = LetStmt(variable, argument, body)
    return body


def _candidates(mod: IRModule) -> dict[GlobalVar, PrimFunc]:
    found = {}
    for variable, func in mod.functions.items():
        if not isinstance(func, PrimFunc) or "global_symbol" in func.attrs:
            continue
        if _returns(func) or _is_recursive(mod, variable):
            continue
        found[variable] = func
    return found


@compiler_pass("tir.InlinePrivateFunctions")
def inline_private_functions(mod: IRModule) -> IRModule:
    """Replaces calls of private functions by their bodies."""
    candidates = _candidates(mod)
    if not candidates:
        return mod
    for variable, func in list(mod.functions.items()):
        if isinstance(func, PrimFunc):
            inliner = _Inliner(candidates, func.attrs.get("target"))
            new = func.with_body(inliner.visit(func.body))
            if new is not func:
                mod[variable] = new
    return _without_unused(mod, candidates)


def _names_in(func: BaseFunc | None) -> list[GlobalVar]:
    """Return the functions that a function of the graph level mentions."""
    return [] if func is None else list(nodes(func, GlobalVar))


def _without_unused(mod: IRModule, candidates: dict[GlobalVar, PrimFunc]) -> IRModule:
    """Return the module without those functions of ``candidates`` that are unreachable."""
    reached: set[GlobalVar] = {variable for variable in mod.functions if variable not in candidates}
    if not reached:
        return mod  # a module of private functions only is a library
    waiting = list(reached)
    while waiting:
        func = mod.functions.get(waiting.pop())
        if isinstance(func, PrimFunc):
            names = _callees(func)
        else:
            names = _names_in(func)
        for name in names:
            if name not in reached and name in mod.functions:
                reached.add(name)
                waiting.append(name)
    for variable in candidates:
        if variable not in reached:
            del mod[variable]
    return mod

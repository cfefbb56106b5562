"""Rules of calls that the threads of a block run together: barriers, reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilesmith.ir import Call, PrimExpr, Var
from tilesmith.ir.span import Span
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.expr import CommReducer, IterVar
from tilesmith.tir.interpreter.call_rules import handles_for_group
from tilesmith.tir.interpreter.expressions import ExpressionCompiler
from tilesmith.tir.interpreter.frame import CONTEXT_SLOT, THREAD_SLOT
from tilesmith.tir.interpreter.strands import Left
from tilesmith.tir.interpreter.threads import (
    barrier_name,
    is_whole,
    line_of,
    meeting,
    require_whole,
    require_whole_grid,
)
from tilesmith.tir.interpreter.values import Environment, Evaluate, RunGroup


@handles_for_group("tvm_storage_sync")
def _storage_sync(compiler: ExpressionCompiler, call: Call, span: Span | None) -> RunGroup:
    scope = str(call.args[0].value)  # type: ignore[attr-defined]
    warp_only = scope == "warp"
    name, others_come = barrier_name(scope), compiler.scope.waits and scope != "global"

    def require(envs: list[Environment]) -> None:
        require_whole(envs, name, span, warp_only)

    def whole(envs: list[Environment]) -> bool:
        return is_whole(envs, warp_only)

    def wait(envs: list[Environment]) -> Left:
        if others_come and not whole(envs):
            return meeting(envs, wait, whole, require, name + line_of(span), warp_only)
        if scope == "global":
            require_whole_grid(envs, name, span)
        else:
            require_whole(envs, name, span, warp_only)
        watch = envs[0][CONTEXT_SLOT].watch
        if watch is not None:
            watch.barrier(envs, scope)
        return None

    return wait


@handles_for_group("tvm_global_barrier_kinit")
def _global_barrier_init(compiler: ExpressionCompiler, call: Call, span: Span | None) -> RunGroup:
    return lambda envs: None


@handles_for_group("tvm_thread_allreduce")
def _allreduce(compiler: ExpressionCompiler, call: Call, span: Span | None) -> RunGroup:
    scope = compiler.scope
    if not scope.reducers or not isinstance(scope.reducers[-1], CommReducer):
        raise UnsupportedError(
            "tvm_thread_allreduce needs an attribute 'reduce_scope' with a reducer around it",
            span=span,
        )
    count = call.args[0].value  # type: ignore[attr-defined]
    sources = [compiler.visit(arg) for arg in call.args[1 : 1 + count]]
    condition = compiler.visit(call.args[1 + count])
    results = [compiler.stores.result(arg) for arg in call.args[2 + count : 2 + 2 * count]]
    reduced = {scope.axis_of.get(_variable(arg), "") for arg in call.args[2 + 2 * count :]}
    reduce_party = _reduction(compiler, scope.reducers[-1], sources, condition)

    def run(envs: list[Environment]) -> None:
        require_whole(envs, "a reduction over threads (tvm_thread_allreduce)", span)
        for party in _parties(envs, reduced):
            total = reduce_party(party)
            for env in party:
                for store, value in zip(results, total):
                    store(env, value)

    return run


def _reduction(
    compiler: ExpressionCompiler, reducer: CommReducer, sources: list[Evaluate], condition: Evaluate
) -> Callable[[list[Environment]], Sequence[Any]]:
    """Return the function that combines the values of threads, in their order."""
    left = [compiler.frame.slot(var) for var in reducer.lhs]
    right = [compiler.frame.slot(var) for var in reducer.rhs]
    combine = [compiler.visit(value) for value in reducer.result]
    neutral = [compiler.visit(value) for value in reducer.identity_element]

    def reduce_party(party: list[Environment]) -> Sequence[Any]:
        first = party[0]
        total: list[Any] | None = None
        for env in party:
            given = sources if condition(env) else neutral
            values = [value(env) for value in given]
            if total is None:
                total = values
                continue
            for slot, value in zip([*left, *right], [*total, *values]):
                first[slot] = value
            total = [part(first) for part in combine]
        return total or ()

    return reduce_party


def _variable(arg: PrimExpr | IterVar) -> Var:
    return arg.var if isinstance(arg, IterVar) else arg  # type: ignore[return-value]


def _parties(envs: list[Environment], reduced: set[str]) -> list[list[Environment]]:
    """Return the groups of threads of a block that differ only in the axes of the reduction."""
    parties: dict[Any, list[Environment]] = {}
    for env in envs:
        axes = env[THREAD_SLOT].axes
        key = tuple([(tag, place[0]) for tag, place in axes.items() if tag not in reduced])
        parties.setdefault(key, []).append(env)
    return list(parties.values())

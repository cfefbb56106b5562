"""Chooses the implementation of an operator for a call: tuning records first, then the levels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import Op
from tilesmith.ir.operators import is_const
from tilesmith.relay.op.op_strategy import OpImplementation, OpStrategy
from tilesmith.relay.op.strategy.computes import OwnCompute
from tilesmith.relay.op.strategy.own import OwnStrategy, search_implementation
from tilesmith.support.errors import TypeMismatchError, UnsupportedError
from tilesmith.target import Target
from tilesmith.target.generic_func import GenericFunc

__all__ = [
    "TUNED", "best_implementation", "get_valid_implementations", "has_choice",
    "has_users_implementation", "select_implementation",
]  # fmt: skip

TUNED: list[Callable[..., OpImplementation | None]] = []
"""Where tuning records are asked: functions of the operator, the implementations, the tensors that
go in and the target, which return the implementation that was measured to be the best, or None.
What tunes adds its own."""


def has_users_implementation(op: Op) -> bool:
    """Return whether a program has stated how an operator is computed on the current target."""
    return _stated(op) is not None


def has_choice(op: Op) -> bool:
    """Return whether there may be something better than the static search for an operator."""
    return bool(TUNED) or has_users_implementation(op)


def _stated(op: Op) -> Callable[..., Any] | None:
    """Return the strategy that a program has stated for an operator and the current target: the
    one itself, or the one that its compute and schedule make.
    """
    strategy: Callable[..., Any] | None = op.get_attr("FTVMStrategy")
    compute = op.get_attr("FTVMCompute")
    version = strategy.find_version() if isinstance(strategy, GenericFunc) else strategy
    if version is not None and not isinstance(version, OwnStrategy):
        return strategy
    if compute is None or isinstance(compute, OwnCompute):
        return None

    def of_compute(attrs: Any, inputs: Any, out_type: Any, target: Any) -> OpStrategy:
        made = OpStrategy()
        made.add_implementation(compute, op.get_attr("FTVMSchedule"), f"{op.name}.compute")
        return made

    return of_compute


def get_valid_implementations(
    op: Op, attrs: Any, inputs: Sequence[Any], out_type: Any, target: Any
) -> list[OpImplementation]:
    """Return the implementations that may be taken for a call: those without a condition, and those
    whose condition holds.

    For an operator of ours the static search is one of them, at level 10.
    """
    target = Target(target)
    with target:
        strategy = _stated(op) or (OwnStrategy(op) if op.spec is not None else None)
        if strategy is None:
            raise UnsupportedError(
                f"nothing states how the operator '{op.name}' is computed",
                notes=("register_compute(name, compute) or register_strategy(name, strategy)",),
            )
        offered = strategy(attrs, list(inputs), out_type, target)
    if not isinstance(offered, OpStrategy):
        raise TypeMismatchError(
            f"the strategy of '{op.name}' gave {type(offered).__name__}",
            notes=("it returns an OpStrategy, to which implementations were added",),
        )
    analyzer = Analyzer()
    found = [
        implementation
        for specialization in offered.specializations
        if specialization.condition is None
        or all(is_const(analyzer.simplify(one), True) for one in specialization.condition.clauses)
        for implementation in specialization.implementations
    ]
    if op.spec is not None and not any(one.is_search for one in found):
        found.append(search_implementation(op))
    return found


def select_implementation(
    op: Op,
    attrs: Any,
    inputs: Sequence[Any],
    out_type: Any,
    target: Any,
    use_autotvm: bool = True,
) -> tuple[OpImplementation, list[Any]]:
    """Return the best implementation for a call (see `best_implementation`) and the tensors that it
    gives.
    """
    best = best_implementation(op, attrs, inputs, out_type, target, use_autotvm)
    with Target(target):
        return best, best.compute(attrs, inputs, out_type)


def best_implementation(
    op: Op,
    attrs: Any,
    inputs: Sequence[Any],
    out_type: Any,
    target: Any,
    use_tuned: bool = True,
) -> OpImplementation:
    """Return the best implementation for a call: the one that tuning records name (unless
    ``use_tuned`` is False), else that with the highest level.

    Among equals a program's own comes before the static search, and the first before others.
    """
    target = Target(target)
    found = get_valid_implementations(op, attrs, inputs, out_type, target)
    if not found:
        raise UnsupportedError(
            f"the strategy of '{op.name}' has no implementation whose condition holds",
            notes=("add one without a te.SpecializedCondition",),
        )
    best = _measured_best(op, found, inputs, target) if use_tuned else None
    return best or max(found, key=lambda one: (one.plevel, not one.is_search))


def _measured_best(
    op: Op, found: list[OpImplementation], inputs: Sequence[Any], target: Target
) -> OpImplementation | None:
    for ask in TUNED:
        best = ask(op, found, inputs, target)
        if best is not None:
            return best
    return None

"""Passes and analyses of ``tvm.relax.testing.transform``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilesmith.ir import IRModule
from tilesmith.ir.transform import Pass, module_pass
from tilesmith.relax import transform
from tilesmith.relax.analysis import in_place
from tilesmith.relax.analysis.in_place import (
    InplaceOpportunity,
    dataflow_alias_analysis,
    dataflow_liveness_analysis,
)
from tilesmith.relax.expr import Function
from tilesmith.relax.expr_functor import PyExprMutator
from tilesmith.relax.transform.in_place import dataflow_single_inplace_call
from tilesmith.target import Target

__all__ = [
    "ApplyEmptyCppMutator", "InplaceOpportunity", "LowerWithRelayOpStrategyPass",
    "dataflow_alias_analysis", "dataflow_inplace_analysis", "dataflow_liveness_analysis",
    "dataflow_single_inplace_call",
]  # fmt: skip


@module_pass(opt_level=0, name="LowerWithRelayOpStrategyPass")
class LowerWithRelayOpStrategyPass:
    """Turns operators into calls of kernels for a target: the operators' own, whose schedules are
    chosen when the model is built, as those of Relay's strategies are.
    """

    def __init__(self, target: Any) -> None:
        self.target = Target(target)

    def transform_module(self, mod: IRModule, ctx: Any) -> IRModule:
        """Lower the operators of a module."""
        with self.target:
            made: IRModule = transform.LegalizeOps()(mod)
        return made


def ApplyEmptyCppMutator() -> Pass:
    """Return a pass that visits all functions with a mutator that changes nothing."""

    def apply(function: Function, mod: IRModule, ctx: Any) -> Any:
        return PyExprMutator(mod).visit_expr(function)

    made: Pass = transform.function_pass(apply, opt_level=0, name="ApplyEmptyCppMutator")
    return made


def dataflow_inplace_analysis(
    block: Any, inputs: Iterable[Any], mod: IRModule
) -> tuple[list[tuple[int, set[int]]], list[tuple[int, set[int]]]]:
    """Return the bindings whose arguments may be overwritten, with the places of these arguments:
    those that are large enough, and those of exactly the result's shape and dtype.
    """
    by_size, exact = in_place.dataflow_inplace_analysis(block, inputs, mod)
    pairs = [[(one.binding_idx, set(one.arg_idxs)) for one in found] for found in (by_size, exact)]
    return pairs[0], pairs[1]

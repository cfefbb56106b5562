"""Pass classes that work on each function, or on each dataflow block, of the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir.module import IRModule
from tilesmith.ir.transform import (
    FunctionLevelPass,
    Pass,
    PassContext,
    PassInfo,
    pass_decorator,
)
from tilesmith.relax.expr import DataflowBlock, Function
from tilesmith.relax.expr_functor import PyExprMutator

__all__ = [
    "DataflowBlockPass", "FunctionPass", "dataflowblock_pass", "function_pass",
]  # fmt: skip


class FunctionPass(FunctionLevelPass):
    """A pass that works on each function of the graph by itself."""

    function_class = Function

    def wanted(self, function: Any) -> bool:
        """Return whether a function has a body and is not left to an external code generator."""
        return _has_own_body(function)


def _has_own_body(function: Any) -> bool:
    return (
        isinstance(function, Function)
        and function.body is not None
        and "Codegen" not in function.attrs
    )


class _BlockMutator(PyExprMutator):
    def __init__(self, mod: Any, apply: Callable[[DataflowBlock], DataflowBlock]) -> None:
        super().__init__(mod)
        self.apply = apply

    def visit_dataflow_block_(self, block: DataflowBlock) -> Any:
        return super().visit_dataflow_block_(self.apply(block))


class DataflowBlockPass(Pass):
    """A pass that works on each dataflow block by itself."""

    def __init__(
        self,
        function: Callable[[DataflowBlock, IRModule, PassContext], DataflowBlock],
        info: PassInfo,
    ) -> None:
        self.function = function
        self.info = info

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Apply the pass's own function to each dataflow block."""
        for variable, old in list(mod.functions.items()):
            if _has_own_body(old):
                mutator = _BlockMutator(mod, lambda block: self.function(block, mod, ctx))
                new = mutator.visit_expr(old)
                if new is not old:
                    mod[variable] = new
        return mod


function_pass = pass_decorator(FunctionPass, "transform_function", "function_pass")
dataflowblock_pass = pass_decorator(
    DataflowBlockPass, "transform_dataflowblock", "dataflowblock_pass"
)

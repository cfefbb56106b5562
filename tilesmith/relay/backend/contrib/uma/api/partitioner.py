"""Divides programs between a backend and the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilesmith.ir import IRModule
from tilesmith.ir.transform import Pass, Sequential
from tilesmith.relay.backend.contrib.library_support import with_params
from tilesmith.relay.backend.contrib.uma.api.utils import PassPhase
from tilesmith.relay.dataflow_pattern import DFPattern
from tilesmith.relay.expr import Call, Constant, Var
from tilesmith.relay.function import Function
from tilesmith.relay.infer_type import infer_module
from tilesmith.relay.op.contrib.register import register_pattern_table
from tilesmith.relay.rewriting import renewed, rewrite, substitute
from tilesmith.relay.transform.annotate_target import AnnotateTarget
from tilesmith.relay.transform.compiler_regions import MergeCompilerRegions
from tilesmith.relay.transform.merge_composite import MergeComposite
from tilesmith.relay.transform.partition_graph import PartitionGraph
from tilesmith.relay.transform.types import InferType
from tilesmith.relay.walks import functions_of, post_order

__all__ = ["UMAPartitioner", "flattened"]


class UMAPartitioner:
    """The patterns of a backend, and the passes around the division of a program."""

    def __init__(self, target_name: str, merge_compiler_regions: bool = True) -> None:
        self.target_name = target_name
        self.merge_compiler_regions = merge_compiler_regions
        self._passes: list[tuple[PassPhase, Pass]] = []
        self._patterns: list[tuple[Any, ...]] = []

    def add_relay_pass(self, phase: PassPhase, relay_pass: Pass) -> None:
        """Add a pass over the program."""
        self._passes.append((phase, relay_pass))

    def add_pattern(
        self, name: str, pattern: DFPattern, predicate: Callable[..., Any] | None = None
    ) -> None:
        """Add a pattern; ``predicate(root)`` may refuse a match."""
        row = (f"{self.target_name}.{name}", pattern)
        self._patterns.append(row if predicate is None else (*row, predicate))

    def register(self) -> None:
        """Register the table of patterns."""
        register_pattern_table(self.target_name, lambda: list(self._patterns))

    def _in(self, phase: PassPhase) -> list[Pass]:
        return [one for own, one in self._passes if own is phase]

    def partition(self, mod: IRModule, params: Mapping[str, Any] | None = None) -> IRModule:
        """Return a module whose matches are functions for the backend; ``params`` become constants
        of ``main``.
        """
        steps = [
            *self._in(PassPhase.PRE_PARTITIONING),
            InferType(),
            MergeComposite(self._patterns),
            AnnotateTarget(self.target_name),
            *([MergeCompilerRegions()] if self.merge_compiler_regions else []),
            PartitionGraph(bind_constants=False),
            *self._in(PassPhase.POST_PARTITIONING_0),
            *self._in(PassPhase.POST_PARTITIONING_1),
        ]
        divided: IRModule = Sequential(steps)(with_params(mod, params))
        return _with_constants_given(divided, self.target_name)


def _with_constants_given(mod: IRModule, compiler: str) -> IRModule:
    """Return a module whose functions for a compiler get their constant tensors as arguments."""
    more: dict[str, list[Constant]] = {}
    for variable, function in functions_of(mod):
        if function.attrs.get("Compiler") == compiler:
            constants = [
                one
                for one in post_order(function.body)
                if isinstance(one, Constant) and one.data.shape
            ]
            if constants:
                more[variable.name_hint] = constants
                mod[variable] = _lifted(function, constants)

    def change(node: Any) -> Any:
        name = getattr(node.op, "name_hint", None) if isinstance(node, Call) else None
        if name not in more:
            return node
        return Call(mod.get_global_var(str(name)), [*node.args, *more[str(name)]], span=node.span)

    if more:
        for variable, function in functions_of(mod):
            if variable.name_hint not in more:
                mod[variable] = rewrite(function, change)
    return infer_module(mod)


def _lifted(function: Function, constants: list[Constant]) -> Function:
    table = {
        id(one): Var(f"constant_{place}", one.struct_info, dialect="relay")
        for place, one in enumerate(constants)
    }
    flat = flattened(function)
    body = rewrite(flat.body, lambda node: table.get(id(node), node))
    return flat.with_fields(params=[*flat.params, *table.values()], body=body)


def flattened(function: Function) -> Function:
    """Return a function without composite functions inside: their bodies stand in their place."""

    def change(node: Any) -> Any:
        callee = node.op if isinstance(node, Call) else None
        if not isinstance(callee, Function):
            return node
        inner: Any = renewed(callee)
        return substitute(inner.body, dict(zip(inner.params, node.args)))

    return function.with_fields(body=rewrite(function.body, change))

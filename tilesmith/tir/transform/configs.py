"""The values of options as objects, for programs that write them so.

``LoopPartitionConfig(partition_const_loop=True)`` is what ``{"partition_const_loop": True}`` is in
``PassContext(config={"tir.LoopPartition": ...})``; both are accepted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from tilesmith.support.errors import UnknownNameError
from tilesmith.tir.transform import options

__all__ = [
    "HoistExpressionConfig", "HoistIfThenElseConfig", "InjectDoubleBufferConfig",
    "LoopPartitionConfig", "RemoveNoOpConfig", "ReduceBranchingThroughOvercomputeConfig",
    "SimplifyConfig", "StmtSimplifyConfig", "UnrollLoopConfig",
]  # fmt: skip


class OptionValues(Mapping[str, Any]):
    """The values of one option: given ones, and the defaults for the others; attributes too."""

    defaults: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, **values: Any) -> None:
        unknown = [name for name in values if name not in self.defaults]
        if unknown:
            raise UnknownNameError(
                f"{type(self).__name__} has no '{unknown[0]}'",
                notes=("it has: " + ", ".join(self.defaults),),
            )
        self._values = {**self.defaults, **values}

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_values"][name]
        except KeyError:
            raise AttributeError(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        values = ", ".join([f"{name}={value!r}" for name, value in self._values.items()])
        return f"{type(self).__name__}({values})"


class UnrollLoopConfig(OptionValues):
    """Limits of unrolling (``tir.UnrollLoop``)."""

    defaults = options.UNROLL_DEFAULTS


class LoopPartitionConfig(OptionValues):
    """Which loops are divided (``tir.LoopPartition``)."""

    defaults = options.LOOP_PARTITION_DEFAULTS


class SimplifyConfig(OptionValues):
    """How hard the simplifier tries (``tir.Simplify``)."""

    defaults = options.SIMPLIFY_DEFAULTS


class StmtSimplifyConfig(SimplifyConfig):
    """How hard the simplifier tries (``tir.StmtSimplify``)."""


class RemoveNoOpConfig(OptionValues):
    """How hard to look for stores without effect (``tir.RemoveNoOp``)."""

    defaults = options.REMOVE_NO_OP_DEFAULTS


class ReduceBranchingThroughOvercomputeConfig(OptionValues):
    """How hard to look for branches that can go (``tir.ReduceBranchingThroughOvercompute``)."""

    defaults = options.REDUCE_BRANCHING_DEFAULTS


class HoistIfThenElseConfig(OptionValues):
    """Whether conditions leave thread blocks (``tir.HoistIfThenElse``)."""

    defaults = options.HOIST_IF_DEFAULTS


class HoistExpressionConfig(OptionValues):
    """What is hoisted out of loops (``tir.HoistExpression``)."""

    defaults = options.HOIST_EXPRESSION_DEFAULTS


class InjectDoubleBufferConfig(OptionValues):
    """How many iterations are split off (``tir.InjectDoubleBuffer``)."""

    defaults = options.DOUBLE_BUFFER_DEFAULTS

"""The strategies of our own operators: ``FTVMStrategy`` of each.

Each offers the program of the operator's record, which whole-model compilation schedules by its
static search, and beside it what `table` lists for the attributes of the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.ir import Op
from tilesmith.relay.op.op_strategy import OpImplementation, OpStrategy
from tilesmith.relay.op.strategy.computes import OwnCompute
from tilesmith.support.errors import InternalError
from tilesmith.support.lazy import resolve
from tilesmith.target.generic_func import GenericFunc, get_native_generic_func

__all__ = [
    "SEARCH_LEVEL", "OwnStrategy", "own_strategy", "search_implementation", "strategy_name",
]  # fmt: skip

SEARCH_LEVEL = 10
"""The level of the static search; an implementation of the user's at this level or above wins."""

_PREFIXES = ("nn.contrib_", "nn.", "image.", "vision.", "random.")
_SHORTER = {
    "nn.internal.sparse_dense_padded": "sparse_dense_padded",
    "vision.all_class_non_max_suppression": "all_class_nms",
    "vision.non_max_suppression": "nms",
    "vision.regular_non_max_suppression": "regular_nms",
}


def strategy_name(op_name: str) -> str:
    """Return the name of the generic function with an operator's strategies: conv2d_strategy."""
    short = _SHORTER.get(op_name)
    if short is None:
        prefix = next((one for one in _PREFIXES if op_name.startswith(one)), "")
        short = op_name.removeprefix(prefix)
    return f"{short}_strategy"


def own_strategy(op: Op) -> GenericFunc:
    """Return the generic function with an operator's strategies, which offers our own by default;
    programs register others for keys of targets.
    """
    function = get_native_generic_func(strategy_name(op.name))
    known = function.default
    if known is None:
        function.set_default(OwnStrategy(op))
    elif isinstance(known, OwnStrategy) and known.op is not op:
        raise InternalError(f"{op.name} and {known.op.name} share the name {function.name}")
    return function


class OwnStrategy:
    """Our own strategy of an operator: for the current target, or one family of targets."""

    def __init__(self, op: Op, family: str = "") -> None:
        self.op = op
        self.family = family

    def __call__(self, attrs: Any, inputs: Sequence[Any], out_type: Any, target: Any) -> OpStrategy:
        strategy = OpStrategy()
        strategy.add(search_implementation(self.op))
        listed = resolve("tilesmith.relay.op.strategy.table:listed_implementations")
        name = strategy_name(self.op.name)
        for implementation in listed(name, attrs, inputs, target, self.family):
            strategy.add(implementation)
        return strategy


def search_implementation(op: Op) -> OpImplementation:
    """Return the implementation that stands for the static search: the program of the operator's
    record, with a general classic schedule for those who ask for one.
    """
    return OpImplementation(
        OwnCompute(op), _general_schedule, f"{op.name}.search", SEARCH_LEVEL, is_search=True
    )


def _general_schedule(attrs: Any, outs: Any, target: Any) -> Any:
    return resolve("tilesmith.topi.generic:schedule_injective")(outs)

"""What a PassContext means for ``relay.build``: which passes run, by the names that users know.

    with PassContext(opt_level=3, disabled_pass=["FoldScaleAxis"], required_pass=["FastMath"]):
        relay.build(mod, target="llvm")

A program is translated first, then optimised by relax's passes, which have the names of those of
relay that do the same (`_NAMES`): so instruments show them, and so a context turns them on and off;
relax's own names are understood, too. `_LEVELS` has the levels at which relay runs its passes,
which hold where a context was entered. Passes that trade something for speed (level 4) run on the
program before it is translated, where the level or ``required_pass`` asks for them; so do those
that apply rules which a program has registered for operators.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from tilesmith.driver.pipelines import get_pipeline
from tilesmith.ir import IRModule, Op
from tilesmith.ir.pass_context import PassContext, PassInfo
from tilesmith.ir.transform import Sequential
from tilesmith.relay import transform
from tilesmith.relay.expr import Call
from tilesmith.relay.walks import functions_of, post_order
from tilesmith.target import Target

__all__ = ["chosen_passes", "requested"]

_NAMES = {
    "AlterOpLayout": ("PackForVectors",),
    "BackwardFoldScaleAxis": ("FoldScaleAxis",),
    "DeadCodeElimination": ("DeadCodeElimination",),
    "ForwardFoldScaleAxis": ("FoldScaleAxis",),
    "FuseOps": ("FuseOps", "FuseTIR"),
    "Inline": ("InlinePrivateFunctions",),
    "LabelOps": ("AnnotateTIROpPattern",),
    "SimplifyInference": ("DecomposeOpsForInference",),
    "ToBasicBlockNormalForm": ("ConvertToDataflow",),
}
"""relay's name of a pass → relax's names of those that do its work."""

_SHOWN = {name: known for known, names in _NAMES.items() for name in names if len(names) == 1}
"""relax's name of a pass → the one that instruments are shown."""
_SHOWN.update(FoldScaleAxis="FoldScaleAxis", FuseTIR="FuseOps")

_LEVELS = {"FuseOps": 1, "FoldConstant": 2, "EliminateCommonSubexpr": 3, "FoldScaleAxis": 3}
"""The lowest ``opt_level`` at which relay runs a pass; those of other names always run."""

_ON_REQUEST: tuple[Callable[..., Any], ...] = (
    transform.CombineParallelConv2D,
    transform.CombineParallelDense,
    transform.CombineParallelBatchMatmul,
    transform.FastMath,
)


_BY_RULE = {"FTVMLegalize": transform.Legalize, "FTVMAlterOpLayout": transform.AlterOpLayout}
"""What programs register for operators → the pass that applies it."""


def requested(module: IRModule) -> IRModule:
    """Return a program after those passes on it that the context asks for by name or level, and
    those for which a program has registered rules of operators that occur.
    """
    context = PassContext.current()
    passes = [make() for make in _ON_REQUEST]
    if any(context.pass_enabled(one.info) for one in passes):
        passes.insert(0, transform.SimplifyInference())
    else:
        passes = []
    stated = _stated(module)
    by_rule = [make() for key, make in _BY_RULE.items() if key in stated]
    if not passes and not by_rule:
        return module
    return Sequential([*by_rule, *passes], name="requested")(module)


def _stated(module: IRModule) -> set[str]:
    """Return which attributes of `_BY_RULE` the operators of a program have."""
    called = {
        node.op
        for _, function in functions_of(module)
        for node in post_order(function)
        if isinstance(node, Call) and isinstance(node.op, Op)
    }
    return {key for key in _BY_RULE for op in called if op.has_attr(key)}


def chosen_passes(target: Target) -> Any:
    """Return the graph passes for a target that the context does not turn off."""
    pipeline = get_pipeline("default", target=target)
    context = PassContext.current()
    if not isinstance(pipeline, Sequential):
        return pipeline
    off = {name for known in context.disabled_pass for name in _NAMES.get(known, (known,))}
    if PassContext.is_entered():
        off |= {
            one
            for name, level in _LEVELS.items()
            if context.opt_level < level and name not in context.required_pass
            for one in _NAMES.get(name, (name,))
        }
    kept = [_renamed(one) for one in pipeline.passes if one.info.name not in off]
    return Sequential(kept, name=pipeline.info.name)


def _renamed(one: Any) -> Any:
    """Return a pass with the name that users of relay know."""
    shown = _SHOWN.get(one.info.name, one.info.name)
    if shown == one.info.name:
        return one
    made = copy.copy(one)
    made.info = PassInfo(one.info.opt_level, shown, one.info.required, one.info.traceable)
    return made

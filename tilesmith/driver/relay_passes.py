"""What a PassContext means for ``relay.build``: which passes run, by the names that users know.

    with PassContext(opt_level=3, disabled_pass=["FoldScaleAxis"], required_pass=["FastMath"]):
        relay.build(mod, target="llvm")

A program is translated first, then optimised by relax's passes. Those of relay's names that have
other names there are in `_NAMES`; `_LEVELS` has the levels at which relay runs its passes, which
hold where a context was entered. Passes that trade something for speed (level 4) run on the program
before it is translated, where the level or ``required_pass`` asks for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.driver.pipelines import get_pipeline
from tilesmith.ir import IRModule
from tilesmith.ir.pass_context import PassContext
from tilesmith.ir.transform import Sequential
from tilesmith.relay import transform
from tilesmith.target import Target

__all__ = ["chosen_passes", "requested"]

_NAMES = {
    "AlterOpLayout": ("PackForVectors",),
    "SimplifyInference": ("DecomposeOpsForInference",),
}
"""relay's name of a pass → relax's names of those that do its work."""

_LEVELS = {"FuseOps": 1, "FoldConstant": 2, "EliminateCommonSubexpr": 3, "FoldScaleAxis": 3}
"""The lowest ``opt_level`` at which relay runs a pass; those of other names always run."""

_ON_REQUEST: tuple[Callable[..., Any], ...] = (
    transform.CombineParallelConv2D,
    transform.CombineParallelDense,
    transform.CombineParallelBatchMatmul,
    transform.FastMath,
)


def requested(module: IRModule) -> IRModule:
    """Return a program after those passes on it that the context asks for by name or level."""
    context = PassContext.current()
    passes = [make() for make in _ON_REQUEST]
    if not any(context.pass_enabled(one.info) for one in passes):
        return module
    return Sequential([transform.SimplifyInference(), *passes], name="requested")(module)


def chosen_passes(target: Target) -> Any:
    """Return the graph passes for a target that the context does not turn off."""
    pipeline = get_pipeline("default", target=target)
    context = PassContext.current()
    if not isinstance(pipeline, Sequential):
        return pipeline
    off = {name for known in context.disabled_pass for name in _NAMES.get(known, (known,))}
    if PassContext.is_entered():
        off |= {
            name
            for name, level in _LEVELS.items()
            if context.opt_level < level and name not in context.required_pass
        }
    kept = [one for one in pipeline.passes if one.info.name not in off]
    return Sequential(kept, name=pipeline.info.name)

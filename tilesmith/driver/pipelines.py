"""Lists of graph passes for whole-model compilation; users may name or replace the list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir import transform
from tilesmith.relax import transform as graph
from tilesmith.support.registry import Registry
from tilesmith.target import Target
from tilesmith.target.back_end import find_back_end, part

__all__ = [
    "PIPELINES", "PIPELINE_MAP", "default_build_pipeline", "default_passes", "get_pipeline",
    "register_pipeline", "simplifying_passes", "zero_passes", "zero_pipeline",
]  # fmt: skip

PIPELINES: Registry = Registry("pipeline")


def default_passes(target: Target, weights: str | None = None) -> list[Any]:
    """Return the passes that turn operators into calls of fused kernels. ``weights`` is the dtype
    that weights of float32 get where a kernel is faster for it: "bfloat16", "float16".
    """
    return [
        *simplifying_passes(),
        *(_narrowing_passes(weights) if weights else []),
        graph.CanonicalizeBindings(),  # layouts are seen through no second name of a value
        *_layout_passes(target),
        graph.CanonicalizeBindings(),
        graph.DeadCodeElimination(),
        graph.LegalizeOps(),
        graph.CheckLegalized(),
        graph.AnnotateTIROpPattern(),
        graph.FuseOps(),
        graph.FuseTIR(),
        graph.DeadCodeElimination(),
    ]


def simplifying_passes() -> list[Any]:
    """Return the passes that simplify a graph of operators, which is one afterwards as well."""
    return [
        graph.LambdaLift(),
        graph.InlinePrivateFunctions(),
        graph.CanonicalizeBindings(),
        graph.ConvertToDataflow(min_size=1),  # what follows looks at dataflow blocks
        graph.DecomposeOpsForInference(),
        graph.ComputeInIntegers(),  # before constants are dequantised
        graph.SimplifyExpr(),
        graph.EliminateCommonSubexpr(),  # so that weights which many steps share are folded once
        graph.FoldConstant(),  # before layouts and legalisation: on operators, by numpy
        graph.RecognizeOps(),  # once neighbours are joined and their scalars are folded
        graph.FoldScaleAxis(),
        graph.FoldConstant(),  # the weights that FoldScaleAxis has scaled
        graph.EliminateCommonSubexpr(),
        graph.DeadCodeElimination(),
    ]


def _narrowing_passes(dtype: str) -> list[Any]:
    """Return the passes that let products have weights of a dtype of 16 bits."""
    passes: list[Any] = [graph.NarrowWeights(dtype), graph.EliminateCommonSubexpr()]
    return [*passes, graph.StoreNarrow(dtype)] if dtype == "bfloat16" else passes


def _layout_passes(target: Target) -> list[Any]:
    """Return the passes that choose layouts, as the target's back end names them."""
    record = find_back_end(target)
    return [] if record is None else [part(make)(target) for make in record.graph_passes]


def zero_passes(target: Target) -> list[Any]:
    """Return the passes without which nothing runs: no fusion, no constant folding."""
    return [graph.LambdaLift(), graph.LegalizeOps(), graph.CheckLegalized()]


def register_pipeline(name: str) -> Callable[..., Any]:
    """Register a function that returns a pipeline (a pass) under a name."""
    return PIPELINES.register(name)


@PIPELINES.register("default")
def _default(target: Any = None) -> transform.Pass:
    return transform.Sequential(default_passes(_target(target)), name="default")


@PIPELINES.register("default_build")
def _default_build(target: Any = None) -> transform.Pass:
    return transform.Sequential(default_passes(_target(target)), name="default_build")


@PIPELINES.register("zero")
def _zero(target: Any = None) -> transform.Pass:
    return transform.Sequential(zero_passes(_target(target)), name="zero")


def _target(target: Any) -> Target:
    if target is not None:
        return Target(target)
    return Target.current(allow_none=True) or Target("llvm")


def get_pipeline(name: str = "default", **kwargs: Any) -> transform.Pass:
    """Return the pipeline registered under a name."""
    return PIPELINES.get(name)(**kwargs)


def zero_pipeline(*, enable_warning: bool = False) -> transform.Pass:
    """Return the passes without which nothing runs; ``enable_warning`` tells of operators that
    stay as they are.
    """
    passes = [graph.LambdaLift(), graph.LegalizeOps(None, enable_warning), graph.CheckLegalized()]
    return transform.Sequential(passes, name="zero")


def default_build_pipeline() -> transform.Pass:
    """Return the passes of `relax.build`, for the current target."""
    return get_pipeline("default_build")


PIPELINE_MAP = PIPELINES
"""Name of a pipeline → the function that makes it."""

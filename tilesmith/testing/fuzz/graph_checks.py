"""Checks a recipe as a graph module: graph passes one by one, then the compiled whole."""

from __future__ import annotations

import random
from typing import Any

import numpy

from tilesmith import relax
from tilesmith.driver.relax_build import build as build_model
from tilesmith.ir import IRModule
from tilesmith.relax import transform as graph
from tilesmith.relax.analysis import well_formed
from tilesmith.relax.interpreter import run
from tilesmith.support.errors import TilesmithError
from tilesmith.testing.fuzz.checks import Checker, Finding
from tilesmith.testing.fuzz.graph_programs import build_graph, graph_inputs, graph_sizes
from tilesmith.testing.fuzz.recipe import outputs_of
from tilesmith.testing.fuzz.values import differences

__all__ = ["FUSION", "GRAPH_PASSES", "check_graph", "draw_passes"]

FUSION = ("LegalizeOps", "AnnotateTIROpPattern", "FuseOps", "FuseTIR")
"""The passes that make fused kernels of operators, in their order."""

GRAPH_PASSES = (
    "CanonicalizeBindings", "ConvertToDataflow", "DeadCodeElimination", "EliminateCommonSubexpr",
    "ExpandTupleArguments", "FoldConstant", "InlinePrivateFunctions", "Normalize",
    "NormalizeGlobalVar", "RemoveUnusedOutputs", "RemoveUnusedParameters", "RewriteDataflowReshape",
    "SimplifyExpr", "ToNonDataflow", "TopologicalSort",
)  # fmt: skip
"""Passes that may run anywhere between those of ``FUSION``."""

_MEMORY = ("ToNonDataflow", "RemovePurityChecking", "CallTIRRewrite", "StaticPlanBlockMemory")
"""The passes that make allocations of calls and plan them, in their order."""


def draw_passes(rng: random.Random) -> list[str]:
    """Return the names of graph passes: fusion or a beginning of it, with others between."""
    made: list[str] = []
    for name in FUSION[: rng.choice([0, 1, 3, 4, 4, 4])]:
        made += rng.choices(GRAPH_PASSES, k=rng.choice([0, 0, 1, 2]))
        made.append(name)
    made += rng.choices(GRAPH_PASSES, k=rng.choice([0, 1, 2]))
    if "LegalizeOps" in made and rng.random() < 0.3:
        made += _MEMORY[: rng.choice([3, 4, 4])]
    return made


def check_graph(checker: Checker, case: dict[str, Any]) -> None:
    """Check the graph module of a case: as it is, after each of its passes, and compiled."""
    recipe = case["recipe"]
    with checker.guarded("graph", "build"):
        module = build_graph(recipe, case["detours"])
        _check_module(checker, recipe, module)
    checker.check_script(module)
    lowered = module
    for name in case["passes"]:
        with checker.guarded("graph", name):
            made = getattr(graph, name)()(lowered)
            checker.counts[f"pass relax.{name}"] += 1
            if made is not lowered:
                checker.current = made
                _check_module(checker, recipe, made)
        if case.get("scripts") and made is not lowered:
            checker.check_script(made)
        lowered = made
    if case["only"] in ("pass", "primitive"):
        return
    memory = bool(set(_MEMORY[2:]) & set(case["passes"]))  # allocations are made by ``build`` later
    checker.current = module if memory else lowered
    with checker.guarded("graph", "compile"):
        built = build_model(checker.current, "llvm", pipeline=case["pipeline"])
        checker.counts["code graph"] += 1
        machine = relax.VirtualMachine(built)
        for number in range(len(checker.inputs)):
            results = machine["main"](*_arguments(checker, recipe, number))
            found = [result.numpy() for result in results]
            _compare(checker, recipe, number, found, rounded=True)


def _check_module(checker: Checker, recipe: dict[str, Any], module: IRModule) -> None:
    if not well_formed(module):
        raise Finding("", "", "is not well formed", module.script())
    for number in range(len(checker.inputs)):
        try:
            results = run(module, "main", *_arguments(checker, recipe, number))
        except TilesmithError as error:
            kind = type(error).__name__
            raise Finding("", "", f"then running fails ({kind})", str(error)) from error
        _compare(checker, recipe, number, list(results), rounded=False)


def _arguments(checker: Checker, recipe: dict[str, Any], number: int) -> list[Any]:
    """Return the arguments of ``main``: copies of the inputs, then the shape of free sizes."""
    values = checker.by_name(number)
    inputs = [numpy.array(values[name]) for name in graph_inputs(recipe)]
    sizes = graph_sizes(recipe)
    return [*inputs, tuple([values[name] for name in sizes])] if sizes else inputs


def _compare(
    checker: Checker, recipe: dict[str, Any], number: int, found: list[Any], rounded: bool
) -> None:
    wanted = checker.by_name(number, expected=True)
    names = [argument.get("name") for argument in checker.arguments[number]]
    for name, one in zip(outputs_of(recipe), found, strict=True):
        ulp = checker.ulps[names.index(name)] if rounded else 0
        text = differences(one, wanted[name], ulp)
        if text is not None:
            raise Finding("", "", "wrong result", f"output '{name}': {text}")

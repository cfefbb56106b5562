"""Makes cases: from a seed to a program with a schedule, and the result of checking it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tilesmith.ir import IRModule, const
from tilesmith.support.errors import InternalError
from tilesmith.testing.fuzz import intrinsics
from tilesmith.testing.fuzz.arithmetic import check_arithmetic
from tilesmith.testing.fuzz.checks import Checker, Finding
from tilesmith.testing.fuzz.fields import CONDITION_OPTIONS, apply_field, draw_field
from tilesmith.testing.fuzz.generator import generate
from tilesmith.testing.fuzz.graph_checks import check_graph
from tilesmith.testing.fuzz.loop_programs import build_loops
from tilesmith.testing.fuzz.memory_programs import build_memory
from tilesmith.testing.fuzz.recipe import arguments_of, build, check_recipe
from tilesmith.testing.fuzz.rules.checks import check_rules, rules_checker
from tilesmith.testing.fuzz.scalars import lift_constants
from tilesmith.testing.fuzz.schedules import SAMPLERS
from tilesmith.testing.fuzz.tensor_programs import build_tensors
from tilesmith.tir import PrimFunc
from tilesmith.tir.analysis import verify_well_formed
from tilesmith.tir.stmt import Evaluate

__all__ = ["ONLY", "Case", "make_case", "run_case"]

Case = dict[str, Any]
PLACES = ("tir.FlattenBuffer", "tir.Simplify", "tir.VectorizeLoop", "tir.RemoveNoOp")
"""After which passes of the pipeline further ones run."""

EXTRA_PASSES = (
    "AnnotateIrregularLoop", "CanonicalizeLoop", "CombineContextCall", "CommonSubexprElimTIR",
    "ConvertForLoopsToSerial", "ConvertSSA", "HoistExpression", "HoistIfThenElse",
    "HoistIfThenElseBasic", "InjectDoubleBuffer", "InjectVirtualThread",
    "LoopPartition", "PeelVectorTails", "PointerValueTypeRewrite",
    "ReduceBranchingThroughOvercompute", "RemoveNoOp", "RenormalizeSplitPattern",
    "RewriteUnsafeSelect", "Simplify", "SkipAssert", "StorageRewrite", "UnrollLoop",
    "UseAssumeToReduceBranches", "VectorizeLoop",
)  # fmt: skip
"""Passes over flat loops that keep what a program computes, wherever they run."""

CONFIGS: tuple[tuple[str, Any], ...] = (
    ("tir.LoopPartition", {"partition_const_loop": True}),
    ("tir.UnrollLoop", {"auto_max_step": 16, "auto_max_extent": 4, "explicit_unroll": True}),
    ("tir.disable_vectorize", True),
    ("tir.disable_storage_rewrite", True),
    ("tir.instrument_bound_checkers", True),
    ("tir.enable_buffer_level_predication", True),
    ("tir.InjectDoubleBuffer", {"split_loop": 2}),
    *CONDITION_OPTIONS,
)
"""Options of the pass context to try."""

ONLY = ("primitive", "pass", "codegen")


def make_case(seed: int, only: str | None = None, field: str | None = None) -> Case:
    """Return the case of a seed: the same in every process, as long as no primitive is added.
    ``field`` is one of ``FIELDS``; by default the seed decides.
    """
    rng = random.Random(seed * 7919 + 1)
    kinds = list(SAMPLERS)
    weights = [SAMPLERS[kind][0] for kind in kinds]
    count = rng.choice([0, 1, 2, 3, 4, 6, 8, 12]) if only != "primitive" else rng.randint(4, 14)
    chosen = rng.choices(kinds, weights, k=count)
    back_ends = ["llvm", "c"] if rng.random() < 0.2 else ["llvm"]
    case: Case = {
        "seed": seed, "recipe": generate(seed), "only": only, "back_ends": back_ends,
        "steps": [[kind, rng.randrange(1 << 30)] for kind in chosen],
        "extra": [
            [rng.choice(PLACES), rng.choice(EXTRA_PASSES)] for _ in range(rng.choice([0, 0, 1, 2]))
        ],
        "config": dict([rng.choice(CONFIGS)]) if rng.random() < 0.25 else {},
    }  # fmt: skip
    apply_field(case, field or draw_field(random.Random(seed * 31 + 5)))
    rng = random.Random(seed * 613 + 3)
    if rng.random() < 0.15 and case.get("program") is None and case.get("device") is None:
        lift_constants(case["recipe"], rng)
    return case


def argument_sets(recipe: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Return the arguments of the function: two sets, with different sizes, where sizes are
    symbolic.
    """
    made = [arguments_of(recipe)]
    if recipe["symbolic"]:
        dims = {name: recipe["dims"][name] for name in recipe["symbolic"]}
        smaller = {name: 1 + (7 * size + ord(name)) % size for name, size in dims.items()}
        made.append(arguments_of(recipe, smaller))
    return made


_prepared = False


def run_case(case: Case) -> dict[str, Any]:
    """Run a case; return counts, and the finding (None if everything is correct)."""
    global _prepared
    if not _prepared:
        intrinsics.register()
        _prepared = True
    recipe, only = case["recipe"], case["only"]
    check_recipe(recipe)
    try:
        if "rules" in case:
            checker = rules_checker(case)
        elif case.get("program") == "arithmetic":
            checker = Checker(PrimFunc([], Evaluate(const(0, "int32"))), [[]])
        else:
            checker = Checker(build(recipe), argument_sets(recipe))
    except Exception as error:
        raise InternalError(f"the generator made a program that cannot run: {error}") from error
    checker.counts[f"field {case.get('field', 'blocks')}"] += 1
    try:
        _check(checker, case, only)
    except Finding as finding:
        return {"counts": dict(checker.counts), "finding": describe(finding, checker, case)}
    return {"counts": dict(checker.counts), "finding": None}


PROGRAMS: dict[str, Callable[[dict[str, Any]], PrimFunc]] = {
    "tensors": build_tensors, "loops": build_loops, "memory": build_memory,
}  # fmt: skip
"""Other programs that a recipe stands for; they compute what its program of blocks does."""


def _check(checker: Checker, case: Case, only: str | None) -> None:
    checker.without = case.get("without", [])
    if case.get("program") == "graph":
        check_graph(checker, case)
        return
    if case.get("program") == "arithmetic":
        check_arithmetic(checker, case)
        return
    if case.get("program") == "rules":
        checker.config, checker.seed = case.get("config", {}), case["seed"]
        check_rules(checker, case)
        return
    if case.get("program") is not None:
        with checker.guarded("program", case["program"]):
            checker.program = PROGRAMS[case["program"]](case["recipe"])
            verify_well_formed(checker.program, strict=False)
            checker.compare(checker.program)
    if only is None:
        checker.check_script(checker.program)
    checker.extra, checker.config = case.get("extra", []), case.get("config", {})
    checker.device, checker.seed = case.get("device"), case["seed"]
    checker.compared_from = case.get("compared_from", "")
    checker.scripts, checker.is_planted = bool(case.get("scripts")), bool(case.get("planted"))
    if case.get("program") in ("loops", "memory"):
        checker.check_lowering(
            IRModule({"main": checker.function}), case["back_ends"], only != "codegen",
            only != "pass",
        )  # fmt: skip
        return
    module = checker.check_steps(case["steps"], case["recipe"], only in (None, "primitive"))
    if module is None:
        return
    if only in (None, "primitive"):
        checker.check_script(module)
        checker.check_trace(module)
    if only != "primitive":
        checker.check_lowering(module, case["back_ends"], only != "codegen", only != "pass")


def describe(finding: Finding, checker: Checker, case: Case) -> dict[str, Any]:
    """Return a finding as plain data, with the program, the schedule and the details."""
    try:
        after = checker.current.script() if checker.current is not None else ""
    except Exception as error:
        after = f"(cannot be printed: {error})"
    return {
        "signature": finding.signature, "phase": finding.phase, "name": finding.name,
        "failure": finding.failure, "detail": finding.detail, "case": case,
        "script": checker.program.script(),
        "schedule": checker.recorder.source() if checker.recorder is not None else [],
        "arguments": checker.arguments, "after": after, "choices": checker.choices,
    }  # fmt: skip

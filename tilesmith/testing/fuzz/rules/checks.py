"""Checks what the schedule rules make of a program: its results, its trace, further primitives on
it, and its code for the target.
"""

from __future__ import annotations

import re
from typing import Any

from tilesmith.ir import IRModule, structural_equal
from tilesmith.lowering.check_inputs import calls_outside
from tilesmith.schedule_rules.default import prepare_for_rules, schedule_by_rules
from tilesmith.support.fallbacks import capture_fallbacks
from tilesmith.target import Target
from tilesmith.testing.fuzz.checks import Checker, Finding
from tilesmith.testing.fuzz.rules.programs import build_for_rules
from tilesmith.testing.fuzz.steps import Recorder
from tilesmith.tir import PrimFunc
from tilesmith.tir.analysis import verify_well_formed
from tilesmith.tir.schedule import Schedule

__all__ = ["check_rules", "rules_checker"]


def rules_checker(case: dict[str, Any]) -> Checker:
    """Return the checker of a case for the schedule rules."""
    return Checker(*build_for_rules(case["rules"]))


def scheduled(checker: Checker, target: Target, form: str, is_repeated: bool) -> Schedule:
    """Return the schedule that the rules make, which computes what the program does, and is the
    same each time.
    """
    function = checker.function
    with checker.guarded("rules", form):
        with capture_fallbacks() as report:
            sch = schedule_by_rules(function, target)
        if sch is None:
            raise Finding("", "", f"there are no rules for {target.kind.name}")
        for fallback, count in report.rows():
            reason = re.sub(r"\d+", "_", fallback.reason)
            checker.counts[f"fallback {reason[:80]}"] += count
        checker.current = sch.mod
        checker.program = prepare_for_rules(function, target)  # what the trace is about
        verify_well_formed(sch.mod, strict=False)
        again = schedule_by_rules(function, target) if is_repeated else sch
        if again is None or not structural_equal(again.mod, sch.mod):
            raise Finding("", "", "another schedule when asked again")
        if can_be_interpreted(checker, sch.mod):
            checker.compare(sch.mod)
            checker.compare_orders(sch.mod)
    return sch


def can_be_interpreted(checker: Checker, module: IRModule) -> bool:
    """Return whether the interpreter can run a module, within reasonable time."""
    function = module["main"]
    assert isinstance(function, PrimFunc)
    return calls_outside(function) is None and not checker.is_too_large(module)


def check_rules(checker: Checker, case: dict[str, Any]) -> None:
    """Check a case up to the code for its target, and for C at times."""
    rules, only = case["rules"], case["only"]
    target = Target(rules["target"])
    checker.device = case.get("device")
    sch = scheduled(checker, target, rules["form"], case["watched"])
    checker.counts[f"form {rules['form']}"] += 1
    module = sch.mod
    checker.verified, checker.recorder = case["verified"], Recorder(sch)
    if case["verified"] or case["steps"]:
        with checker.guarded("trace", "rules"):
            checker.begin = sch.trace
            replayed = checker.schedule()
            if not structural_equal(replayed.mod, module):
                raise Finding("", "", "the replayed program differs", replayed.mod.script())
    if case["steps"]:
        small = can_be_interpreted(checker, module)
        scheduled_further = checker.check_steps(case["steps"], case["recipe"], small)
        if scheduled_further is None:
            return
        module = scheduled_further
    if only in (None, "primitive"):
        checker.check_script(module)
        checker.check_trace(module)
    if only == "primitive":
        return
    small = can_be_interpreted(checker, module)
    watched = small and (case["watched"] or only == "pass")
    try:
        checker.check_lowering(module, case["back_ends"], watched, only != "pass")
    except Finding as finding:
        if small and not watched and finding.failure == "wrong result":
            checker.check_lowering(module, case["back_ends"], True, False)  # which pass is it?
        raise

"""Shrinks the case of a finding as long as it fails in the same way.

Steps are dropped and choose simpler arguments, stages become inputs, sizes become numbers and
small, expressions become one of their operands, dtypes float32 or int32. Each attempt runs in an
isolated process; a recipe that cannot be built does not fail in the same way.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from typing import Any

from tilesmith.testing.fuzz.cases import Case
from tilesmith.testing.fuzz.rules.programs import simpler_for_rules
from tilesmith.testing.fuzz.stages import all_loads

__all__ = ["shrink"]

Finding = dict[str, Any]
Again = Callable[[Case], Finding | None]
"""Runs a case; returns its finding if it fails in the same way."""
_KEEP_RANGE = {"add", "sub", "mul", "select", "if", "let", "land", "lor", "neg", "not", "bitand",
               "bitor", "bitxor", "shl", "shr", "likely", "min", "max"}  # fmt: skip


_NEEDED = {"threads: rest"}
"""Steps that a program for a device cannot do without."""


class _Shrinker:
    def __init__(self, finding: Finding, again: Again, seconds: float) -> None:
        self.finding = finding
        self.again = again
        self.end = time.monotonic() + seconds
        self.attempts = 0

    @property
    def case(self) -> Case:
        case: Case = self.finding["case"]
        return case

    @property
    def late(self) -> bool:
        return time.monotonic() > self.end

    def attempt(self, case: Case) -> bool:
        """Keep a case if it fails in the same way."""
        if self.late or case == self.case:
            return False
        self.attempts += 1
        found = self.again(case)
        if found is not None:
            self.finding = found
        return found is not None

    def run(self) -> Finding:
        before = None
        while before != self.case and not self.late:
            before = self.case
            self.drop_steps()
            self.simplify_choices()
            self.greedy(_without_stage)
            self.greedy(_simpler_stage)
            self.greedy(_smaller_sizes)
            self.greedy(_simpler_expressions)
            self.greedy(_plain_dtypes)
            self.greedy(_fewer_back_ends)
            self.greedy(_simpler_rules)
            self.greedy(_shorter_graph)
            self.greedy(_fewer_situations)
        return self.finding

    def drop_steps(self) -> None:
        """Drop halves, quarters, …, single steps."""
        size = max(1, len(self.case["steps"]) // 2)
        while size:
            start = 0
            while start < len(self.case["steps"]):
                steps = self.case["steps"]
                kept = [step for step in steps[start : start + size] if step[0] in _NEEDED]
                rest = steps[:start] + kept + steps[start + size :]
                if not self.attempt({**self.case, "steps": rest}):
                    start += size
            size //= 2

    def simplify_choices(self) -> None:
        """Let each step choose simpler arguments: the first of several, the smallest number."""
        number = 0
        while number < len(self.finding["choices"]):
            place = 0
            while number < len(self.finding["choices"]) and not self.late:
                choices = self.finding["choices"][number]
                if place >= len(choices):
                    break
                for simpler in sorted({0, choices[place] // 2, choices[place] - 1}):
                    if 0 <= simpler < choices[place]:
                        given = [*choices[:place], simpler, *choices[place + 1 :]]
                        if self.attempt(_with_choices(self.case, number, given)):
                            break
                place += 1
            number += 1

    def greedy(self, candidates: Callable[[Case], Iterator[Case]]) -> None:
        """Take the first candidate that fails, and start again from it."""
        found = True
        while found and not self.late:
            found = False
            for case in candidates(self.case):
                if self.attempt(case):
                    found = True
                    break


def shrink(finding: Finding, again: Again, seconds: float = 30.0) -> Finding:
    """Return the finding of the smallest case found within some seconds that still fails."""
    return _Shrinker(finding, again, seconds).run()


def _with_choices(case: Case, number: int, choices: list[int]) -> Case:
    """Return the case with the choices of one of its steps."""
    kind, seed, *_ = case["steps"][number]
    steps = [*case["steps"][:number], [kind, seed, choices], *case["steps"][number + 1 :]]
    return {**case, "steps": steps}


def _changed(case: Case) -> Case:
    return {**case, "recipe": copy.deepcopy(case["recipe"])}


def _without_stage(case: Case) -> Iterator[Case]:
    """Remove a stage: its results become inputs of other stages."""
    for number in reversed(range(len(case["recipe"]["stages"]))):
        if len(case["recipe"]["stages"]) == 1:
            return
        made = _changed(case)
        recipe = made["recipe"]
        stage = recipe["stages"].pop(number)
        produced = {t["name"] for other in recipe["stages"] for t in other["tensors"]}
        used: set[str] = set()
        for other in recipe["stages"]:
            used |= all_loads(other)
        for tensor in stage["tensors"]:
            if tensor["name"] in used and tensor["name"] not in produced:
                low, high = max(tensor["low"], -4), min(tensor["high"], 5)
                whole = {**tensor, "low": min(low, high), "high": max(low, high), "ulp": None}
                recipe["inputs"].append(whole)
        yield made


def _simpler_stage(case: Case) -> Iterator[Case]:
    plain = {
        "binding": "plain", "let": False, "out": False, "while": False, "tables_outside": False,
    }  # fmt: skip
    for number, stage in enumerate(case["recipe"]["stages"]):
        for key, value in plain.items():
            if stage.get(key, value) != value:
                made = _changed(case)
                made["recipe"]["stages"][number][key] = value
                yield made
        for key in ("loop_order", "condition", "start"):
            if stage.get(key) is not None:
                made = _changed(case)
                made["recipe"]["stages"][number].pop(key)
                made["recipe"]["stages"][number].pop("other", None)
                yield made
        for name in stage.get("form", {}):
            made = _changed(case)
            made["recipe"]["stages"][number]["form"].pop(name)
            yield made
        for name in ("factor",):
            if stage.get(name, 2) != 2:
                made = _changed(case)
                made["recipe"]["stages"][number][name] = 2
                yield made


def _smaller_sizes(case: Case) -> Iterator[Case]:
    recipe = case["recipe"]
    for name in recipe.get("layouts", {}):
        made = _changed(case)
        made["recipe"]["layouts"].pop(name)
        yield made
    for name in recipe["symbolic"]:
        made = _changed(case)
        made["recipe"]["symbolic"].remove(name)
        yield made
    if recipe["index"] != "int32":
        made = _changed(case)
        made["recipe"]["index"] = "int32"
        yield made
    for name, size in recipe["dims"].items():
        for smaller in sorted({1, 2, 3, 4, size // 2, size - 1}):
            if 0 < smaller < size:
                made = _changed(case)
                made["recipe"]["dims"][name] = smaller
                yield made


def _paths(expr: Any, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], list[Any]]]:
    if isinstance(expr, list) and expr and isinstance(expr[0], str):
        yield path, expr
        for number, part in enumerate(expr[1:], 1):
            yield from _paths(part, (*path, number))


def _replaced(expr: Any, path: tuple[int, ...], value: Any) -> Any:
    if not path:
        return value
    made = list(expr)
    made[path[0]] = _replaced(expr[path[0]], path[1:], value)
    return made


def _simpler_expressions(case: Case) -> Iterator[Case]:
    for number, stage in enumerate(case["recipe"]["stages"]):
        for key in ("value", "other", "condition", "start"):
            if stage.get(key) is None:
                continue
            for path, expr in _paths(stage[key]):
                for simpler in _simpler(expr):
                    made = _changed(case)
                    made["recipe"]["stages"][number][key] = _replaced(stage[key], path, simpler)
                    yield made


def _simpler(expr: list[Any]) -> Iterator[list[Any]]:
    kind = expr[0]
    if kind in ("const", "int", "axis", "var", "size"):
        return
    if kind == "load":
        for number, index in enumerate(expr[2:], 2):
            if index[0] not in ("int", "axis"):
                yield [*expr[:number], ["int", 0], *expr[number + 1 :]]
        return
    if kind in _KEEP_RANGE:
        operands = [part for part in expr[1:] if isinstance(part, list)]
        if kind in ("select", "if"):
            operands = operands[1:]
        if kind == "let":
            operands = operands[:1]
        yield from operands


def _plain_dtypes(case: Case) -> Iterator[Case]:
    plain = {"float16": "float32", "bfloat16": "float32", "int64": "int32", "int8": "int32",
             "int16": "int32", "uint8": "int32", "uint16": "int32", "uint32": "int32",
             "float64": "float32"}  # fmt: skip

    def rename(value: Any, old: str, new: str) -> Any:
        if isinstance(value, dict):
            return {key: rename(one, old, new) if key != "index" else one
                    for key, one in value.items()}  # fmt: skip
        if isinstance(value, list):
            return [rename(one, old, new) for one in value]
        return new if value == old else value

    for old, new in plain.items():
        made = _changed(case)
        made["recipe"] = rename(made["recipe"], old, new)
        yield made


def _fewer_back_ends(case: Case) -> Iterator[Case]:
    if case["recipe"].get("spare"):
        yield {**case, "recipe": {**case["recipe"], "spare": []}}
    if case.get("config"):
        yield {**case, "config": {}}
    for number in range(len(case.get("extra", []))):
        yield {**case, "extra": case["extra"][:number] + case["extra"][number + 1 :]}
    if len(case["back_ends"]) > 1:
        for name in case["back_ends"]:
            yield {**case, "back_ends": [name]}


def _simpler_rules(case: Case) -> Iterator[Case]:
    """Make a program for the schedule rules, or its target, simpler."""
    if "rules" in case:
        for rules in simpler_for_rules(case["rules"]):
            yield {**case, "rules": rules, "back_ends": [rules["target"]]}


def _shorter_graph(case: Case) -> Iterator[Case]:
    """Leave out a pass over the graph, or a detour of a tensor."""
    passes, detours = case.get("passes", []), case.get("detours", {})
    for number in range(len(passes)):
        yield {**case, "passes": passes[:number] + passes[number + 1 :]}
    for name, taken in detours.items():
        for number in range(len(taken)):
            rest = taken[:number] + taken[number + 1 :]
            yield {**case, "detours": {**detours, name: rest}}
    if case.get("pipeline", "zero") != "zero":
        yield {**case, "pipeline": "zero"}


def _fewer_situations(case: Case) -> Iterator[Case]:
    """Ask the analyzer about one of several situations."""
    seeds = case.get("arithmetic", {}).get("seeds", [])
    if len(seeds) > 1:
        for seed in seeds:
            yield {**case, "arithmetic": {"seeds": [seed]}}

"""The facts of `facts.py`: found by the simplifier, and true."""

from __future__ import annotations

import random
import re
from typing import Any

import numpy
import pytest

from tests.arith.facts import FACTS
from tests.arith.meaning import meaning, same
from tilesmith.arith import Analyzer
from tilesmith.ir import (
    Add,
    And,
    Broadcast,
    Not,
    Or,
    PrimExpr,
    Ramp,
    Range,
    Select,
    SizeVar,
    Var,
    const,
    convert,
    intrinsics,
)  # fmt: skip
from tilesmith.ir import operators as op
from tilesmith.ir.structural import structural_equal

VARIABLES = {name: Var(name, "int32") for name in "abcxyznmk"}
VARIABLES |= {name: SizeVar(name, "int32") for name in "st"}
VARIABLES |= {name: Var(name, "float32") for name in "fg"}
VARIABLES |= {name: Var(name, "bool") for name in "pq"}
VARIABLES |= {"l": Var("l", "int64"), "u": Var("u", "uint8")}
NAMES: dict[str, Any] = {
    **VARIABLES,
    "min": op.minimum, "max": op.maximum, "cast": op.cast,
    "floordiv": op.floordiv, "floormod": op.floormod,
    "truncdiv": op.truncdiv, "truncmod": op.truncmod, "Add": Add, "And": And, "Or": Or, "Not": Not,
    "Select": lambda c, a, b: Select(c, *op.match_types(a, b)),
    "likely": intrinsics.likely, "if_then_else": intrinsics.if_then_else,
    "ceildiv": lambda a, b: op.floordiv(a + (b - 1), b),
    "int64": lambda v: const(v, "int64"), "uint8": lambda v: const(v, "uint8"),
    "ramp": lambda base, stride: Ramp(convert(base), stride, 4),
    "four": lambda value: Broadcast(convert(value), 4),
    "True_": const(True, "bool"), "False_": const(False, "bool"), "__builtins__": {},
}  # fmt: skip


def read(text: str) -> PrimExpr:
    return convert(eval(text, NAMES))


def size(expr: PrimExpr) -> int:
    return 1 + sum([size(child) for child in expr.children() if isinstance(child, PrimExpr)])


class Known:
    """What a row says is known."""

    def __init__(self, text: str) -> None:
        self.ranges: dict[Var, tuple[PrimExpr, PrimExpr]] = {}
        self.conditions: list[PrimExpr] = []
        for part in re.split(r",\s+", text) if text else ():
            found = re.fullmatch(r"(\w) in (\S+) (.+)", part)
            if found is None:
                self.conditions.append(read(part))
            else:
                var = VARIABLES[found[1]]
                ends = [op.cast(var.dtype, read(end)) for end in found.groups()[1:]]
                self.ranges[var] = (ends[0], ends[1])

    def simplified(self, *exprs: PrimExpr) -> list[PrimExpr]:
        analyzer = Analyzer()
        for var, (low, high) in self.ranges.items():
            analyzer.bind(var, Range(low, high))
        with analyzer.constraint_scope(op.all_of(*self.conditions)):
            return [analyzer.simplify(expr) for expr in exprs]

    def holds(self, env: dict[Any, Any]) -> bool:
        for var, ends in self.ranges.items():
            low, high = [meaning(end, env) for end in ends]
            if low is None or high is None or not low <= env[var] < high:
                return False
        return all(meaning(condition, env) for condition in self.conditions)

    def environment(self, rng: random.Random) -> dict[Any, Any]:
        """Values of which most are in the ranges."""
        env: dict[Any, Any] = {}
        wide = rng.random() < 0.3
        for var in VARIABLES.values():
            lowest = 0 if isinstance(var, SizeVar) else rng.choice((-40, 0, 0))
            env[var] = rng.randint(lowest, 200 if wide else 9)
            if var.dtype.is_bool:
                env[var] = rng.randrange(2)
            elif var.dtype.is_float:
                env[var] = numpy.float32(rng.choice((0.0, -0.0, 1.5, -2.25, 3e8, "nan", "inf")))
            elif var.dtype.is_uint:
                env[var] = rng.randrange(256)
        for var, ends in self.ranges.items():
            low, high = [meaning(end, env) for end in ends]
            if high > low:
                env[var] = rng.randrange(low, high)
        for condition in self.conditions:
            if type(condition).__name__ == "EQ" and isinstance(condition.a, Var):
                env[condition.a] = meaning(condition.b, env)
        return env


@pytest.mark.parametrize("fact", FACTS, ids=["; ".join(fact) for fact in FACTS])
def test_fact(fact: tuple[str, str, str]) -> None:
    before, after, known = read(fact[0]), read(fact[1]), Known(fact[2])
    check_true(before, after, known)
    found, wanted = known.simplified(before, after)
    assert structural_equal(found, wanted), (str(found), str(wanted))
    assert size(found) <= size(after), (str(found), str(after))


def check_true(before: PrimExpr, after: PrimExpr, known: Known) -> None:
    rng = random.Random(0)
    tried = 0
    for _ in range(600):
        env = known.environment(rng)
        value = meaning(before, env) if known.holds(env) else None
        if value is None:
            continue
        tried += 1
        assert same(value, meaning(after, env, strict=False)), str(env)
        if tried == 60:
            return
    assert tried >= 5

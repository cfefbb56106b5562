"""Random loop nests: what find_out_of_bounds says against what the interpreter meets."""

import random

import numpy as np
import pytest

from tilesmith.ir import And, Let, Or, Range, Select
from tilesmith.support.errors import ExecutionError, OutOfBoundsError
from tilesmith.tir import (
    AssertStmt,
    Block,
    BlockRealize,
    BufferRegion,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    IterVar,
    LetStmt,
    PrimFunc,
    StringImm,
    Var,
    decl_buffer,
    if_then_else,
)
from tilesmith.tir.analysis.out_of_bounds import find_out_of_bounds
from tilesmith.tir.interpreter import run

PLACES = 12
OUT = decl_buffer((PLACES,), "int32", "B")


class Draw:
    """Draws statements; ``plain``: only loops with constant bounds and linear indices."""

    def __init__(self, seed, size, plain):
        self.random, self.plain, self.size = random.Random(seed), plain, size
        self.data = decl_buffer((size,), "int32", "A")

    def number(self, low, high):
        return self.random.randint(low, high)

    def index(self, names):
        made = self.number(-1, 9)
        for name in names[-3:]:
            made = made + name * self.number(-1, 3)
        if not self.plain and self.number(0, 4) == 4:
            made = made // 2
        return made

    def condition(self, names):
        name = names[self.number(0, len(names) - 1)]
        kind = self.number(0, 3)
        if kind == 0:
            return name < self.number(0, 5)
        if kind == 1:
            return self.index(names) >= 0
        inside = And(self.index(names) >= 0, self.index(names) < self.size)
        return inside if kind == 2 else And(inside, self.data[self.index(names)] < 100)

    def value(self, names):
        read = self.data[self.index(names)]
        kind = 0 if self.plain else self.number(0, 4)
        if kind == 1:
            return if_then_else(self.condition(names), read, 0)
        if kind == 2:
            return Select(self.condition(names), read, 0)
        if kind == 3:
            var = Var("x", "int32")
            return Let(var, self.index(names), if_then_else(var >= 0, self.data[var], 1))
        if kind == 4:
            index = self.index(names)
            return Or(index >= self.size, self.data[index] > 3).astype("int32")
        return read

    def statement(self, names, depth):
        kinds = [0, 1, 2] if self.plain else list(range(8))
        kind = kinds[self.number(0, len(kinds) - 1)] if depth else 0
        if kind == 0:
            return BufferStore(OUT, self.value(names), [self.number(0, PLACES - 1)])
        inner = lambda *new: self.statement([*names, *new], depth - 1)
        if kind in (1, 2, 3):
            var = Var(f"i{depth}", "int32")
            low, extent = self.number(0, 2), self.number(0, 5)
            if kind == 3:  # bounds that depend on other loops
                low, extent = 0, names[-1] + self.number(0, 1)
            return For(var, low, extent, ForKind.SERIAL, inner(var))
        if kind == 4:
            other = inner() if self.number(0, 1) else None
            return IfThenElse(self.condition(names), inner(), other)
        if kind == 5:
            var = Var(f"l{depth}", "int32")
            return LetStmt(var, self.index(names), inner(var))
        if kind == 6:
            return AssertStmt(self.condition(names), StringImm("no"), inner())
        var = Var(f"v{depth}", "int32")
        iterator = IterVar(Range(0, 32), var, IterVar.DataPar)
        block = Block([iterator], [], [BufferRegion(OUT, [Range(0, PLACES)])], "b", inner(var))
        value = names[-1] + self.number(0, 3)
        return BlockRealize([value], value < self.number(1, 8), block)


def program(seed, size, plain):
    drawer = Draw(seed, size, plain)
    var = Var("o", "int32")
    extent = drawer.number(1, 4)
    loop = For(var, 0, extent, ForKind.SERIAL, drawer.statement([var], 3))
    params = [Var("a", "handle"), Var("b", "handle")]
    buffers = dict(zip(params, (drawer.data, OUT)))
    return PrimFunc(params, loop, None, buffers, {"global_symbol": "main"})


def leaves_its_buffers(function, size):
    try:
        run(function, np.arange(size, dtype="int32"), np.zeros(PLACES, "int32"))
    except OutOfBoundsError:
        return True
    except ExecutionError:
        return False
    return False


def is_refused(function):
    return any(access.is_reached for access in find_out_of_bounds(function))


@pytest.mark.parametrize("part", range(8))
def test_valid_programs_are_not_refused(part):
    """Sizes on both sides of what each program needs."""
    for seed in range(part * 40, part * 40 + 40):
        for size in range(2, 30, 3):
            function = program(seed, size, plain=False)
            if is_refused(function):
                assert leaves_its_buffers(function, size), f"seed {seed}, size {size}:\n{function}"


@pytest.mark.parametrize("part", range(4))
def test_loops_with_constant_bounds_are_decided(part):
    for seed in range(part * 20, part * 20 + 20):
        for size in range(2, 26, 3):
            function = program(seed, size, plain=True)
            assert is_refused(function) == leaves_its_buffers(function, size), str(function)

"""Generated programs do what the interpreter says: random expressions, scalar and in vectors."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.codegen.harness import Compiled, kernel, like
from tilesmith import tir
from tilesmith.ir import Broadcast, Call, Cast, Ramp, Select, Var, const
from tilesmith.runtime.dtype import DataType
from tilesmith.tir import BufferLoad, BufferStore, For, ForKind, LetStmt, decl_buffer
from tilesmith.tir.interpreter import run

COUNT, LANES = 16, 4


class Program:
    """One loop that stores a random expression of loaded data, indices and a parameter."""

    def __init__(self, draw, lanes):
        self.draw, self.lanes = draw, lanes
        self.a = decl_buffer((COUNT,), "int32", "a")
        self.f = decl_buffer((COUNT,), "float32", "f")
        self.out = decl_buffer((COUNT,), "int32", "out")
        self.n, self.i, self.x = Var("n", "int32"), Var("i", "int32"), Var("x", "int32")
        self.index = Ramp(self.i * lanes, 1, lanes) if lanes > 1 else self.i

    def wide(self, value):
        return Broadcast(value, self.lanes) if self.lanes > 1 else value

    def integer(self, depth):
        """An int32 expression whose values stay small."""
        if depth == 0:
            kind = self.draw(st.integers(0, 5))
            leaf = [
                lambda: BufferLoad(self.a, [self.index]),
                lambda: self.index,
                lambda: self.wide(self.n),
                lambda: self.wide(self.x),
                lambda: self.wide(const(self.draw(st.integers(-9, 9)), "int32")),
                lambda: self.rounded(1),
            ][kind]
            return leaf()
        kind = self.draw(st.integers(0, 9))
        a = self.integer(depth - 1)
        if kind < 4:
            b = self.integer(depth - 1)
            return [tir.Add, tir.Sub, tir.Min, tir.Max][kind](a, b)
        if kind == 4:
            return tir.Mul(self.small(a), self.small(self.integer(depth - 1)))
        if kind == 5:
            operator = self.draw(st.sampled_from([tir.FloorDiv, tir.FloorMod, tir.Div, tir.Mod]))
            divisor = self.draw(st.sampled_from([1, 2, 3, 5, 8, -2, -7]))
            return operator(a, like(divisor, a))
        if kind == 6:
            operator = self.draw(st.sampled_from([tir.FloorDiv, tir.FloorMod, tir.Div, tir.Mod]))
            b = self.small(self.integer(depth - 1))
            safe = Select(tir.EQ(b, like(0, b)), like(3, b), b)
            return operator(a, safe)
        if kind == 7:
            return Select(self.condition(depth - 1), a, self.integer(depth - 1))
        if kind == 8:
            place = tir.FloorMod(a, like(COUNT, a))
            return BufferLoad(self.a, [place])
        if self.lanes > 1:
            return Call(a.dtype, "tir.bitwise_xor", (a, like(5, a)))
        condition = self.condition(depth - 1)
        return Call("int32", "tir.if_then_else", (condition, a, self.integer(depth - 1)))

    def small(self, value):
        """The value without its high digits."""
        return tir.Mod(value, like(50, value))

    def rounded(self, depth):
        """A float expression as an integer."""
        value = self.number(depth)
        limit = tir.Min(tir.Max(value, like(-90.0, value)), like(90.0, value))
        return Cast(DataType("int32").with_lanes(self.lanes), limit)

    def number(self, depth):
        """A float32 expression."""
        if depth == 0:
            return BufferLoad(self.f, [self.index])
        a, b = self.number(depth - 1), self.number(depth - 1)
        kind = self.draw(st.integers(0, 4))
        if kind < 3:
            return [tir.Sub, tir.Min, tir.Max][kind](a, b)
        if kind == 3:
            name = self.draw(
                st.sampled_from(["floor", "ceil", "trunc", "nearbyint", "round", "fabs"])
            )
            return Call(a.dtype, "tir." + name, (a,))
        return Select(self.condition(0), a, b)

    def condition(self, depth):
        """A comparison, or two of them."""
        operator = self.draw(st.sampled_from([tir.EQ, tir.NE, tir.LT, tir.LE, tir.GT, tir.GE]))
        first = operator(self.integer(depth), self.integer(depth))
        if depth and self.draw(st.booleans()):
            join = self.draw(st.sampled_from([tir.And, tir.Or]))
            return join(tir.Not(first), self.condition(depth - 1))
        return first

    def function(self):
        value = self.integer(self.draw(st.integers(1, 4)))
        store = BufferStore(self.out, value, [self.index])
        loop = For(self.i, 0, COUNT // self.lanes, ForKind.SERIAL, store)
        body = LetStmt(self.x, self.n * 3 - 2, loop)
        return kernel([self.a, self.f, self.out, self.n], body)


def check(function, n):
    a = np.array([3, -8, 0, 5, 7, -1, 2, 11, -30, 4, 9, -6, 1, 8, -2, 14], "int32")
    f = np.array(
        [0.5, -1.5, 2.25, 3, -0.25, 7.75, -8.5, 1, 0, 2.5, -3.5, 4, 9.5, -7, 6, 0.75], "f4"
    )
    expected, got = np.zeros(COUNT, "int32"), np.zeros(COUNT, "int32")
    run(function, a, f, expected, n)
    assert Compiled(function)(a, f, got, n) == 0
    np.testing.assert_array_equal(got, expected)


@given(st.data(), st.integers(-20, 20))
def test_scalar_expressions(data, n):
    check(Program(data.draw, 1).function(), n)


@given(st.data(), st.integers(-20, 20))
def test_vector_expressions(data, n):
    check(Program(data.draw, LANES).function(), n)

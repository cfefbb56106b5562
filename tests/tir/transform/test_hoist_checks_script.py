"""HoistChecks: what leaves a loop, what stays, and that programs give the results and errors they
gave before."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tir.transform.harness import apply
from tilesmith.ir import assert_structural_equal
from tilesmith.script import tir as T
from tilesmith.support.errors import TilesmithError
from tilesmith.tir import (
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    PrimFunc,
    Var,
    checked,
    decl_buffer,
    if_then_else,
    stmt_seq,
    transform,
)
from tilesmith.tir.interpreter import run


def hoisted(function):
    return apply(function.with_attr("tir.noalias", True), transform.HoistChecks())


def assert_hoisted(before, after):
    wanted = after.with_attr({**before.attrs, "tir.noalias": True})
    assert_structural_equal(hoisted(before), wanted)


def assert_stays(before):
    function = before.with_attr("tir.noalias", True)
    assert hoisted(before) is function or str(hoisted(before)) == str(function)


def test_columns_and_rows():
    @T.prim_func
    def before(
        A: T.Buffer((9, 9), "float32"), P: T.Buffer((8,), "int32"), B: T.Buffer((100, 8), "float32")
    ):
        for i in T.parallel(100):
            for j in range(8):
                B[i, j] = A[T.checked(P[2], P[2] < 9, "no row ", P[2]),
                            T.checked(P[j], P[j] < 9, "no column ", P[j])]  # fmt: skip

    @T.prim_func
    def after(
        A: T.Buffer((9, 9), "float32"), P: T.Buffer((8,), "int32"), B: T.Buffer((100, 8), "float32")
    ):
        for j in range(8):
            T.evaluate(T.checked(0, P[2] < 9, "no row ", P[2]))
            T.evaluate(T.checked(0, P[j] < 9, "no column ", P[j]))
        for i in T.parallel(100):
            for j in range(8):
                B[i, j] = A[P[2], P[j]]

    assert_hoisted(before, after)


def test_loops_without_iterations():
    @T.prim_func
    def before(A: T.Buffer((9,), "int32"), B: T.Buffer((8,), "int32"), n: T.int32):
        for i in range(n):
            B[i] = A[T.checked(n, n < 9, "no")] // T.checked(A[0], A[0] != 0, "zero")

    @T.prim_func
    def after(A: T.Buffer((9,), "int32"), B: T.Buffer((8,), "int32"), n: T.int32):
        if n > 0:
            T.evaluate(T.checked(0, n < 9, "no"))
            T.evaluate(T.checked(0, A[0] != 0, "zero"))
        for i in range(n):
            B[i] = A[n] // A[0]

    assert_hoisted(before, after)


def test_conditions_stay_around_checks():
    @T.prim_func
    def before(A: T.Buffer((9,), "int32"), B: T.Buffer((8,), "int32"), n: T.int32):
        for i in range(8):
            if n < 5:
                B[i] = T.if_then_else(A[1] > 0, A[T.checked(n, n >= 0, "no")], 0)

    @T.prim_func
    def after(A: T.Buffer((9,), "int32"), B: T.Buffer((8,), "int32"), n: T.int32):
        if n < 5:
            if A[1] > 0:
                T.evaluate(T.checked(0, n >= 0, "no"))
        for i in range(8):
            if n < 5:
                B[i] = T.if_then_else(A[1] > 0, A[n], 0)

    assert_hoisted(before, after)


@T.prim_func
def reads_what_it_writes(A: T.Buffer((9,), "int32"), B: T.Buffer((8,), "int32"), n: T.int32):
    for i in range(8):
        B[i] = A[T.checked(n, B[0] < 3, "no")]


@T.prim_func
def differs(A: T.Buffer((9,), "int32"), B: T.Buffer((8,), "int32"), n: T.int32):
    for i in range(8):
        B[i] = A[T.checked(n, n < 3, "no")] + A[T.checked(i, i < n, "too large")]


@T.prim_func
def depends_on_the_iteration(A: T.Buffer((9,), "int32"), B: T.Buffer((8,), "int32"), n: T.int32):
    for i in range(8):
        if i > 3:
            B[i] = A[T.checked(n, n < 3, "no")]


@T.prim_func
def asserts(A: T.Buffer((9,), "int32"), B: T.Buffer((8,), "int32"), n: T.int32):
    for i in range(8):
        assert n < i, "other"
        B[i] = A[T.checked(n, n < 3, "no")]


@T.prim_func
def calls_others(A: T.Buffer((9,), "int32"), B: T.Buffer((8,), "int32"), n: T.int32):
    for i in range(8):
        T.evaluate(T.call_packed("print", i))
        B[i] = A[T.checked(n, n < 3, "no")]


@T.prim_func
def on_threads(A: T.Buffer((9,), "int32"), B: T.Buffer((8,), "int32"), n: T.int32):
    for t in T.thread_binding(4, "threadIdx.x"):
        for i in range(2):
            B[t * 2 + i] = A[T.checked(n, n < 3, "no")]


@T.prim_func
def small_parallel(A: T.Buffer((9,), "int32"), P: T.Buffer((8,), "int32"), n: T.int32):
    for i in T.parallel(4):
        for j in range(8):
            P[i] = A[T.checked(A[j], A[j] < 3, "no")]


@T.prim_func
def returns(A: T.Buffer((9,), "int32"), B: T.Buffer((8,), "int32"), n: T.int32):
    for i in range(8):
        B[i] = A[T.checked(n, n < 3, "no")]
    T.ret(B[0])


STAYS = [reads_what_it_writes, differs, depends_on_the_iteration, asserts, calls_others, on_threads,
         small_parallel, returns]  # fmt: skip


@pytest.mark.parametrize("function", STAYS, ids=lambda f: f.attrs["global_symbol"])
def test_what_stays(function):
    assert_stays(function)


def test_overlapping_buffers():
    @T.prim_func
    def before(A: T.Buffer((9,), "int32"), B: T.Buffer((8,), "int32")):
        for i in range(8):
            B[i] = A[T.checked(A[0], A[0] < 3, "no")]

    function = before.with_attr("tir.noalias", False)
    assert apply(function, transform.HoistChecks()).body is function.body


# Random nests: indices, conditions and divisors from data, loops that may have no iterations.

SIZE = 6
DATA, OTHER, OUT = [decl_buffer((SIZE,), "int32", name) for name in ("A", "P", "B")]
N = Var("n", "int32")


class Draw:
    """Draws statements and expressions from the loops around them."""

    def __init__(self, draw):
        self.draw = draw
        self.count = 0

    def pick(self, *choices):
        return self.draw(st.sampled_from(choices))

    def index(self, loops):
        """An index that is inside of its buffer, whatever the data."""
        return self.pick(*loops, 0, 1) % SIZE

    def value(self, loops):
        read = self.pick(DATA, OTHER, OUT, OTHER)
        return self.pick(N, *loops, read[self.index(loops)], read[self.index(loops)])

    def check(self, loops):
        self.count += 1
        value = self.value(loops)
        condition = value < self.draw(st.integers(1, 12))
        if self.draw(st.integers(0, 3)) == 3:
            condition = self.check(loops) > condition.astype("int32") - 7
        return checked(value, condition, f"check {self.count}: ", value.astype("int64"))

    def element(self, loops):
        found = self.check(loops)
        match self.draw(st.integers(0, 3)):
            case 3:
                return if_then_else(self.value(loops) > 1, found, self.check(loops))
            case 1:
                return found + self.check(loops)
            case 2:
                return found + self.value(loops)
        return found

    def store(self, loops):
        return BufferStore(OUT, self.element(loops), [self.index(loops)])

    def statement(self, loops, depth):
        kind = self.draw(st.integers(0, 6)) if depth else 0
        if kind == 0:
            return self.store(loops)
        if kind == 1:
            return stmt_seq(self.statement(loops, depth - 1), self.statement(loops, depth - 1))
        if kind == 2:
            condition = self.value(loops) < 4
            other = self.pick(None, self.store(loops))
            return IfThenElse(condition, self.statement(loops, depth - 1), other)
        if kind == 3:
            var = Var(f"v{depth}", "int32")
            return LetStmt(var, self.element(loops), self.statement([*loops, var], depth - 1))
        var = Var(f"i{depth}", "int32")
        extent = self.pick(N, 0, 1, 2, 3, *[loop + 1 for loop in loops[:1]])
        low = self.pick(0, 0, 1)
        body = self.statement([*loops, var], depth - 1)
        return For(var, low, extent, ForKind.SERIAL, body)


@st.composite
def programs(draw):
    drawer = Draw(draw)
    body = For(Var("o", "int32"), 0, drawer.pick(2, 3, N), ForKind.SERIAL, Evaluate(0))
    inner = drawer.statement([body.loop_var], 4)
    params = [Var(name, "handle") for name in "apb"]
    mapped = dict(zip(params, (DATA, OTHER, OUT)))
    attributes = {"global_symbol": "main", "tir.noalias": True}
    return PrimFunc([*params, N], body.with_fields(body=inner), None, mapped, attributes)


def outcome(function, arrays, n):
    copies = [array.copy() for array in arrays]
    try:
        run(function, *copies, n)
    except TilesmithError as error:
        return str(error.message)
    return [copy.tolist() for copy in copies]


@settings(max_examples=150)
@given(programs(), st.integers(0, 2**16))
def test_random_programs(function, seed):
    """The same results, or the same error."""
    new = apply(function, transform.HoistChecks())
    random = np.random.default_rng(seed)
    for n in (0, 1, 3):
        for largest in (3, 6, 12):
            arrays = [random.integers(0, largest, SIZE, "int32") for _ in range(3)]
            assert outcome(function, arrays, n) == outcome(new, arrays, n)
            if n == 1:
                cleaned = apply(new, transform.RemoveNoOp())
                assert outcome(function, arrays, n) == outcome(cleaned, arrays, n)


@T.prim_func
def only_checks(A: T.Buffer((8,), "int32")):
    for i in range(8):
        T.evaluate(T.checked(0, A[i] < 5, "OutOfBoundsError: at ", i))


def test_checks_without_use_are_kept():
    """A check has an effect, even if nothing uses its value."""
    cleaned = apply(only_checks, transform.RemoveNoOp())
    assert cleaned.body is only_checks.body
    with pytest.raises(TilesmithError, match="at 3"):
        run(cleaned, np.int32([0, 1, 2, 9, 0, 0, 0, 9]))

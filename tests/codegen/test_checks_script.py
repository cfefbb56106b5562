"""Checks that programs make while they run: divisors that may be zero, indices from data."""

import operator

import numpy as np
import pytest

import tilesmith
from tests.codegen.harness import compile_strictly
from tilesmith import te, tir
from tilesmith.codegen.c_compiler import find_compiler
from tilesmith.script import tir as T
from tilesmith.support.errors import DivisionByZeroError, OutOfBoundsError
from tilesmith.tir import interpreter

TARGETS = ["llvm", "c"]
LOOPS = ["serial", "vectorize", "parallel"]
SIZE = 16


def built(function, target):
    if target == "c" and find_compiler() is None:
        pytest.skip("no C compiler here")
    module = tilesmith.build(function, target=target)
    if target == "c":
        compile_strictly(module.get_source("c"))
    return module


def scheduled(function, loop):
    """Return a function whose only loop is vectorized or parallel."""
    schedule = tir.Schedule(function)
    if loop != "serial":
        (outer,) = schedule.get_loops(schedule.get_child_blocks(schedule.get_block("root"))[0])
        getattr(schedule, loop)(outer)
    return schedule.mod


def truncated(a, b):
    quotient = abs(int(a)) // abs(int(b))
    return quotient if (a < 0) == (b < 0) else -quotient


DIVISIONS = {
    "floordiv": (tir.floordiv, operator.floordiv),
    "floormod": (tir.floormod, operator.mod),
    "truncdiv": (tir.truncdiv, truncated),
    "truncmod": (tir.truncmod, lambda a, b: a - b * truncated(a, b)),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
@pytest.mark.parametrize("name", DIVISIONS)
def test_divisors(name, dtype, loop, target):
    """Dividing the smallest number by -1 wraps around, dividing by zero is an error."""
    compute, reference = DIVISIONS[name]
    a, b = [te.placeholder((SIZE,), dtype, letter) for letter in "ab"]
    function = te.create_prim_func([a, b, te.compute((SIZE,), lambda i: compute(a[i], b[i]))])
    module = built(scheduled(function, loop), target)
    info = np.iinfo(dtype)
    generator = np.random.default_rng(0)
    x = generator.integers(info.min, info.max, SIZE, dtype)
    y = generator.integers(1, 9, SIZE).astype(dtype)
    x[3] = info.min
    if info.min < 0:
        y[3:5] = -1, -3
    wanted = [reference(int(p), int(q)) & (2**info.bits - 1) for p, q in zip(x, y)]
    result = np.zeros(SIZE, dtype)
    module(x, y, result)
    np.testing.assert_array_equal(result, np.array(wanted, f"uint{info.bits}").view(dtype))
    y[7] = 0
    with pytest.raises(DivisionByZeroError, match="integer division by zero"):
        module(x, y, result)
    with pytest.raises(DivisionByZeroError):
        interpreter.run(function, x, y, result)


@T.prim_func
def guarded(A: T.Buffer((SIZE,), "int32"), B: T.Buffer((SIZE,), "int32")):
    for i in range(SIZE):
        with T.block("b"):
            v = T.axis.spatial(SIZE, i)
            B[v] = T.Select(A[v] != 0 and 100 // A[v] > 10, 100 // A[v], -1)


@pytest.mark.parametrize("target", TARGETS)
def test_conditions_guard_divisions(target):
    values = np.arange(SIZE, dtype="int32") - 5
    with np.errstate(divide="ignore"):
        quotients = 100 // values
    wanted = np.where((values != 0) & (quotients > 10), quotients, -1)
    result = np.zeros(SIZE, "int32")
    built(guarded, target)(values, result)
    np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("thread", [None, "threadIdx.x"])
def test_kernels_divide_without_checks(thread):
    """They have no way to report an error, and their text would grow with each check of a lane."""
    a = te.placeholder((SIZE,), "int32", "a")
    schedule = tir.Schedule(te.create_prim_func([a, te.compute((SIZE,), lambda i: 100 // a[i])]))
    (loop,) = schedule.get_loops(schedule.get_block("compute"))
    if thread:
        schedule.bind(loop, thread)
    assert ("checked" in str(tilesmith.lower(schedule.mod))) == (thread is None)


def test_known_divisors_cost_nothing():
    n = tir.Var("n", "int32")
    a = te.placeholder((n, 8), "int32", "a")
    made = te.compute((n * 8,), lambda i: a[i // 8, i % 8] // 3 + i // (n + 1))
    assert "checked" not in str(tilesmith.lower(te.create_prim_func([a, made])))


def picked(loop):
    data = te.placeholder((8,), "float32", "data")
    indices = te.placeholder((SIZE,), "int64", "indices")

    def element(i):
        index = indices[i]
        inside = tir.all(index >= 0, index < 8)
        text = "OutOfBoundsError: pick: the index "
        return data[tir.checked(index, inside, text, index, " is outside")] * 2.0

    return te.create_prim_func([data, indices, te.compute((SIZE,), element)])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("loop", LOOPS)
def test_indices(loop, target):
    """The message names the index, of a vector the first one that fails."""
    function = picked(loop)
    module = built(scheduled(function, loop), target)
    data = np.arange(8, dtype="float32")
    indices = np.random.default_rng(0).integers(0, 8, SIZE)
    result = np.zeros(SIZE, "float32")
    module(data, indices, result)
    np.testing.assert_array_equal(result, data[indices] * 2)
    for place, wrong in ((0, 8), (5, -1), (15, 2**40)):
        broken = indices.copy()
        broken[place] = wrong
        with pytest.raises(OutOfBoundsError, match=f"^pick: the index {wrong} is outside(\n|$)"):
            module(data, broken, result)
        with pytest.raises(OutOfBoundsError, match=f"^pick: the index {wrong} is outside(\n|$)"):
            interpreter.run(function, data, broken, result)


@pytest.mark.parametrize("target", TARGETS)
def test_tails_are_checked_up_to_their_end(target):
    """Lanes beyond the end take no part in a check."""
    data = te.placeholder((8,), "float32", "data")
    indices = te.placeholder((11,), "int32", "indices")

    def element(i):
        index = indices[i]
        return data[tir.checked(index, tir.all(index >= 0, index < 8), "OutOfBoundsError: no")]

    schedule = tir.Schedule(te.create_prim_func([data, indices, te.compute((11,), element, "b")]))
    _, inner = schedule.split(schedule.get_loops("b")[0], [None, 8])
    schedule.vectorize(inner)
    module = built(schedule.mod, target)
    values, result = np.arange(8, dtype="float32"), np.zeros(11, "float32")
    places = np.arange(11, dtype="int32") % 8
    module(values, places, result)
    np.testing.assert_array_equal(result, values[places])
    places[10] = 8
    with pytest.raises(OutOfBoundsError):
        module(values, places, result)


@pytest.mark.parametrize("target", TARGETS)
def test_divisors_in_local_memory(target):
    @T.prim_func
    def halves(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        width = T.decl_buffer((1,), "int32", scope="local")
        width[0] = A[0]
        for i in range(8):
            B[i] = i // width[0]

    module, result = built(halves, target), np.zeros(8, "int32")
    module(np.full(8, 3, "int32"), result)
    np.testing.assert_array_equal(result, np.arange(8) // 3)
    with pytest.raises(DivisionByZeroError):
        module(np.zeros(8, "int32"), result)


def wide(n, width):
    """A look-up in which the check of a column does not depend on the inner loop."""
    index, data = te.placeholder((width,), "int32", "P"), te.placeholder((9, n), "float32", "A")

    def element(j, i):
        place = index[j]
        inside = tir.all(place >= 0, place < 9)
        return data[tir.checked(place, inside, "OutOfBoundsError: no row ", place), i]

    return te.create_prim_func([data, index, te.compute((width, n), element, "b")])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("width", [8, 11])
def test_checks_in_front_of_loops(width, target):
    """Checks leave the inner loop and are vectors; the lanes of a tail take no part."""
    schedule = tir.Schedule(wide(5, width))
    rows, _ = schedule.get_loops("b")
    schedule.vectorize(schedule.split(rows, [None, 8])[1])
    assert str(tilesmith.lower(schedule.mod)).count("T.checked(T.Broadcast(0, 8)") == -(-width // 8)
    module = built(schedule.mod, target)
    values, result = np.arange(45, dtype="float32").reshape(9, 5), np.zeros((width, 5), "float32")
    places = np.arange(width, dtype="int32") % 9
    module(values, places, result)
    np.testing.assert_array_equal(result, values[places])
    places[width - 2 :] = 11, 12
    with pytest.raises(OutOfBoundsError, match="no row 11"):
        module(values, places, result)


@T.prim_func
def by_size(a: T.handle, B: T.Buffer((4,), "int32")):
    n = T.int32()
    A = T.match_buffer(a, (n,), "int32")
    for i in range(4):
        B[i] = i % n + i // ((n + 3) // 4)


@T.prim_func
def over_sizes(a: T.handle, b: T.handle):
    n, m = T.int32(), T.int32()
    A = T.match_buffer(a, (n, m), "int32")
    B = T.match_buffer(b, (n * m,), "int32")
    for i in range(n * m):
        B[i] = A[i // m, i % m]
    for i in range((n + 7) // 8):
        for j in range(8):
            if i * 8 + j < n:
                B[i * 8 + j] = (i * 8 + j) % n


@pytest.mark.parametrize("target", TARGETS)
def test_sizes_as_divisors(target):
    """A size is a divisor like any other, unless the loops around have no iterations if it is 0."""
    assert "checked" not in str(tilesmith.lower(over_sizes))
    module, result = built(by_size, target), np.zeros(4, "int32")
    module(np.zeros(3, "int32"), result)
    np.testing.assert_array_equal(result, np.arange(4) % 3 + np.arange(4))
    with pytest.raises(DivisionByZeroError):
        module(np.zeros(0, "int32"), result)


@T.prim_func
def by_cut_sizes(a: T.handle, B: T.Buffer((256,), "int32")):
    n = T.int32()
    A = T.match_buffer(a, (n,), "int32")
    for i in range(n):
        B[i] = A[i] // T.Cast("int32", T.Cast("int8", n))


@T.prim_func
def by_cut_products(a: T.handle, B: T.Buffer((256,), "int32")):
    n = T.int32()
    A = T.match_buffer(a, (n,), "int32")
    for i in range(n):
        B[i] = A[i] // T.Cast("int32", T.Cast("uint32", n) * T.Cast("uint32", n) * T.uint32(65536))


@pytest.mark.parametrize("function", [by_cut_sizes, by_cut_products], ids=["size", "product"])
def test_divisors_that_are_cut_to_zero(function):
    """256 in 8 bits, and 2 to the power of 32 in 32 bits, are zero, which their factors are not."""
    module, result = built(function, "c"), np.zeros(256, "int32")
    module(np.ones(3, "int32"), result)
    with pytest.raises(DivisionByZeroError):
        module(np.ones(256, "int32"), result)

"""PrecomputeAddresses: what becomes a table, what stays in the loop, and that results stay."""

from tests.tir.transform.harness import apply, assert_same_results
from tilesmith.ir import FloorDiv, FloorMod, assert_structural_equal
from tilesmith.ir.queries import any_node, nodes
from tilesmith.script import tir as T
from tilesmith.tir import transform
from tilesmith.tir.stmt import Allocate, For


def rewritten(func):
    got = apply(func, transform.PrecomputeAddresses(), transform.Simplify())
    assert_same_results(func, got)
    return got


def step_loop(func):
    """The loop that the annotation stood at."""
    return next(loop for loop in nodes(func.body, For) if loop.loop_var.name == "k")


def divides_by_seven(node):
    return any_node(node, lambda one: isinstance(one, FloorDiv | FloorMod) and one.b.value == 7)


def test_addresses_and_conditions_become_tables():
    @T.prim_func
    def before(A: T.Buffer((49,), "float32"), B: T.Buffer((144,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for k in T.serial(9, annotations={"precompute_addresses": 1}):
            for p in range(16):
                B[k * 16 + p] = T.if_then_else(
                    1 <= p * 3 // 7 + k // 3 and p * 3 // 7 + k // 3 < 8
                    and 1 <= p * 3 % 7 + k % 3 and p * 3 % 7 + k % 3 < 8,
                    A[p * 3 // 7 * 7 + k // 3 * 7 + p * 3 % 7 + k % 3 - 8], T.float32(0),
                )  # fmt: skip

    got = rewritten(before)
    loop = step_loop(got)
    assert not divides_by_seven(loop.body) and divides_by_seven(got.body)
    tables = list(nodes(got.body, Allocate))
    assert [one.extents[0].value for one in tables] == [16, 16]
    assert all(one.buffer_var.storage_scope == "local" for one in tables)
    assert "outside[p]" in loop.script() and "k // 3 * 7 + k % 3 + place[p]" in loop.script()
    assert not loop.annotations


def test_what_is_aligned_stays_visibly_so():
    @T.prim_func
    def before(A: T.Buffer((512,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for k in T.serial(2, annotations={"precompute_addresses": 1}):
            for p in range(8):
                B[T.Ramp(k * 32 + p * 4, 1, 4)] = A[
                    T.Ramp(p * 5 // 7 * 64 + p * 5 % 7 * 8 + k * 4, 1, 4)
                ]

    got = rewritten(before)
    assert "place[p] * 8" in step_loop(got).script()


def test_conditions_with_too_many_answers_stay():
    @T.prim_func
    def before(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for k in T.serial(64, annotations={"precompute_addresses": 1}):
            B[k] = T.if_then_else(k < 60, A[k], T.float32(0))

    got = rewritten(before)
    assert not list(nodes(got.body, Allocate))
    assert "k < 60" in got.script()


def test_addresses_that_depend_on_memory_stay():
    @T.prim_func
    def before(
        A: T.Buffer((64,), "float32"), N: T.Buffer((8,), "int32"), B: T.Buffer((16,), "float32")
    ):
        T.func_attr({"global_symbol": "main"})
        for k in T.serial(2, annotations={"precompute_addresses": 1}):
            for p in range(8):
                B[k * 8 + p] = A[T.max(0, T.min(N[p], 8)) * 7 // 3 + k]

    got = apply(before, transform.PrecomputeAddresses())
    assert not list(nodes(got.body, Allocate))


def test_other_loops_stay():
    @T.prim_func
    def before(A: T.Buffer((64,), "float32"), B: T.Buffer((16,), "float32")):
        for k, p in T.grid(2, 8):
            B[k * 8 + p] = A[p * 5 // 7 * 8 + k]

    assert_structural_equal(apply(before, transform.PrecomputeAddresses()), before)

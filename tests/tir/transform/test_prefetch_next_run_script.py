"""PrefetchNextRun: what is prefetched where, what is left alone, and that results stay."""

import pytest

from tests.tir.transform.harness import apply, assert_same_results
from tilesmith.ir import assert_structural_equal
from tilesmith.ir.queries import calls
from tilesmith.script import tir as T
from tilesmith.tir import transform


def test_all_passes_over_a_run_bring_the_next_one():
    @T.prim_func
    def before(A: T.Buffer((64,), "float32"), B: T.Buffer((512,), "float32"), y: T.handle):
        T.func_attr({"global_symbol": "main"})
        Y = T.match_buffer(y, (256,))
        for j, i in T.grid(4, 4):
            for k in T.serial(8, annotations={"prefetch_next": True}):
                for v in T.vectorized(16):
                    Y[i * 64 + j * 16 + v] += A[i * 16 + k] * B[j * 128 + k * 16 + v]

    @T.prim_func
    def expected(A: T.Buffer((64,), "float32"), B: T.Buffer((512,), "float32"), y: T.handle):
        Y = T.match_buffer(y, (256,))
        for j, i in T.grid(4, 4):
            for k in range(8):
                T.prefetch(T.address_of(B[j * 128 + i * 32 + k * 4 + 128]), 0, 2, 1)
                for v in T.vectorized(16):
                    Y[i * 64 + j * 16 + v] += A[i * 16 + k] * B[j * 128 + k * 16 + v]

    got = apply(before, transform.PrefetchNextRun(), transform.Simplify())
    assert_structural_equal(got, expected.with_attr(before.attrs))
    assert_same_results(before, got)


def product(rows, order, panels=3, depth=8, width=16, gap=0):
    """Return a product of panels; ``order`` says which of their loops is the outer one, ``gap`` how
    much lies between two steps of a panel."""
    step = width + gap

    @T.prim_func
    def panels_outside(
        A: T.Buffer((rows * depth,), "float32"),
        B: T.Buffer((panels * depth * step,), "float32"),
        Y: T.Buffer((rows * panels * width,), "float32"),
    ):
        T.func_attr({"global_symbol": "main"})
        for j, i in T.grid(panels, rows):
            for k in T.serial(depth, annotations={"prefetch_next": True}):
                for v in T.vectorized(width):
                    Y[i * panels * width + j * width + v] += (
                        A[i * depth + k] * B[j * depth * step + k * step + v]
                    )

    @T.prim_func
    def rows_outside(
        A: T.Buffer((rows * depth,), "float32"),
        B: T.Buffer((panels * depth * step,), "float32"),
        Y: T.Buffer((rows * panels * width,), "float32"),
    ):
        T.func_attr({"global_symbol": "main"})
        for i, j in T.grid(rows, panels):
            for k in T.serial(depth, annotations={"prefetch_next": True}):
                for v in T.vectorized(width):
                    Y[i * panels * width + j * width + v] += (
                        A[i * depth + k] * B[j * depth * step + k * step + v]
                    )

    return panels_outside if order == "panels" else rows_outside


@pytest.mark.parametrize(
    ("rows", "width", "hints"),
    [(2, 16, 1), (40, 16, 1), (2, 48, 2), (1, 16, 0), (2, 256, 0)],
)
def test_the_steps_share_the_lines_of_a_run(rows, width, hints):
    """A run that one pass reads has nobody to bring the next one, and a step brings few lines."""
    func = product(rows, "panels", width=width)
    got = apply(func, transform.PrefetchNextRun())
    assert len(list(calls(got, "tir.prefetch"))) == hints
    assert "prefetch_next" not in got.script()
    assert_same_results(func, got)


@pytest.mark.parametrize(("order", "gap"), [("rows", 0), ("panels", 16)])
def test_what_is_no_run_that_loops_repeat_is_left_alone(order, gap):
    func = product(4, order, gap=gap)
    assert not list(calls(apply(func, transform.PrefetchNextRun()), "tir.prefetch"))


@pytest.mark.parametrize("rows", [1, 3, 50])
def test_an_open_number_of_passes_shares_a_run(rows):
    @T.prim_func
    def func(a: T.handle, B: T.Buffer((384,), "float32"), Y: T.Buffer((48,), "float32")):
        T.func_attr({"global_symbol": "main"})
        n = T.int32()
        A = T.match_buffer(a, (n,))
        for j, i in T.grid(3, n):
            for k in T.serial(8, annotations={"prefetch_next": True}):
                for v in T.vectorized(16):
                    Y[j * 16 + v] += A[i] * B[j * 128 + k * 16 + v]

    got = apply(func, transform.PrefetchNextRun())
    assert "share" in got.script() and len(list(calls(got, "tir.prefetch"))) == 1
    assert_same_results(func, got, {"n": rows})


def test_loops_without_the_annotation_stay():
    @T.prim_func
    def func(A: T.Buffer((64,), "float32"), Y: T.Buffer((16,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for j, _i, k in T.grid(2, 2, 2):
            for v in T.vectorized(16):
                Y[v] += A[j * 32 + k * 16 + v]

    assert apply(func, transform.PrefetchNextRun()).body is func.body

"""Kernels whose warps have different roles: thread by thread and in lockstep, right and wrong."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

import tilesmith as ts
from tests.tir.warp_roles_script import (
    arrays_of_product,
    arrays_of_tiles,
    by_copies,
    by_stores,
    by_tensor_maps,
    in_one_loop,
    product,
)
from tilesmith.lowering.gpu_checks import run_checks
from tilesmith.script import tir as T
from tilesmith.support.errors import ExecutionError
from tilesmith.tir.interpreter import Options, run
from tilesmith.tir.interpreter.lockstep import LockstepOptions, run_kernels
from tilesmith.tir.interpreter.lockstep.counters import KernelCounters

CHECKED = Options(check_races=True, check_undefined=True)
KERNELS = {
    "tensor maps, 2 stages": (by_tensor_maps(2, 5), 5),
    "tensor maps, 3 stages": (by_tensor_maps(3, 7, warps=4), 7),
    "tensor maps, 1 stage": (by_tensor_maps(1, 3, warps=1), 3),
    "stores": (by_stores(2, 5), 5),
    "one loop": (in_one_loop(4, lag=0), 4),
    "one loop, two turns behind": (in_one_loop(5, lag=2), 5),
}


def in_all_ways(func, arrays):
    """Return the last argument after runs thread by thread, with checks, and in lockstep."""
    found = []
    for options in (Options(), CHECKED):
        arguments = [one.copy() for one in arrays]
        run(func, *arguments, options=options)
        found.append(arguments[-1])
    arguments = [one.copy() for one in arrays]
    assert run_kernels(func, arguments).findings == ()
    return [*found, arguments[-1]]


@pytest.mark.parametrize("name", KERNELS)
def test_tiles_are_handed_on(name):
    func, turns = KERNELS[name]
    arrays, expected = arrays_of_tiles(turns)
    for result in in_all_ways(func, arrays):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("stages, turns, warps", [(2, 4, 2), (3, 7, 2), (3, 5, 4), (1, 2, 1)])
def test_all_threads_meet_behind_their_roles(stages, turns, warps):
    """The last threads add what two threads have kept since the time before they met."""
    arrays, expected = arrays_of_tiles(turns)
    numbers = np.arange(32 * warps, 32 * warps + 32)
    expected[0, :32] += numbers[::-1] + numbers
    for result in in_all_ways(by_copies(stages, turns, warps), arrays):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("elected", [False, True])
def test_a_warp_brings_tiles_to_a_warpgroup(elected):
    arrays, expected = arrays_of_product(64, 128, 256)
    func = product(64, 128, 256, 2 + elected, elected)
    assert run_kernels(func, arrays).findings == ()
    np.testing.assert_array_equal(arrays[2], expected)
    arrays, expected = arrays_of_product(64, 64, 192)
    run(product(64, 64, 192, 2, elected), *arrays, options=CHECKED)
    np.testing.assert_array_equal(arrays[2], expected)


def test_equal_runs():
    """The order of the threads is the same each time, and so is what is found and counted."""
    text = by_tensor_maps().script().replace("(2 + stage, 64)", "(2 + stage, 32)")
    found = []
    for _ in range(2):
        counters = KernelCounters()
        arrays, _ = arrays_of_tiles(5)
        result = run_kernels(ts.script.from_source(text), arrays, observers=[counters])
        (kernel,) = counters.kernels
        counts = [(one.instructions, one.transactions) for one in kernel.accesses.values()]
        found.append(([one.message for one in result.findings], counts, kernel.barriers))
    assert found[0] == found[1] and found[0][0]


def test_counters():
    """Accesses are counted by warp, whatever strand of threads makes them."""
    counters = KernelCounters()
    run_kernels(by_tensor_maps(2, 5, warps=2), arrays_of_tiles(5)[0], observers=[counters])
    (kernel,) = counters.kernels
    counts = {(one.site.kind, one.buffer): one for one in kernel.accesses.values()}
    reads, writes = counts["read", "S"], counts["write", "B"]
    assert (reads.instructions, reads.transactions, reads.degree) == (20, 20, 1)
    assert (writes.instructions, writes.transactions, writes.ideal) == (20, 80, 80)


def test_loops_that_count_their_turns_are_not_cut():
    """The producer's loop is short, the consumers' is long: either both would be cut or none."""
    arrays, expected = arrays_of_tiles(40)
    result = run_kernels(by_tensor_maps(2, 40), arrays, LockstepOptions(statements=50))
    assert result.findings == ()
    np.testing.assert_array_equal(arrays[1], expected)


def test_the_example_of_the_page(tmp_path, capsys):
    """The page about checks shows a program and what it prints."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "gpu_report.md").read_text("utf-8")
    section = page.partition("## Warps with different roles")[2]
    program, shown = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", section, re.S).groups()
    path = tmp_path / "roles.py"
    path.write_text(program, "utf-8")
    runpy.run_path(str(path))
    assert capsys.readouterr().out == shown


# Faults: the program, what to replace, by what, what lockstep finds, at which line.

TMA, COPIES, STORES = by_tensor_maps(2, 5), by_copies(3, 7), by_stores(2, 5)
PRODUCT, ELECTED = product(64, 64, 192), product(64, 64, 192, 2, True)
FULL, EMPTY = "T.ptx_wait_barrier(turn % 2)", "T.ptx_wait_barrier(2 + turn % 2)"
FAULTS = {
    "readers do not wait": (TMA, FULL, "pass", "missing wait", "= S[turn % 2"),
    "readers of copies do not wait":
        (COPIES, FULL.replace("2", "3"), "pass", "missing wait", "= S[turn % 3"),
    "readers of stores do not wait": (STORES, FULL, "pass", "race", "= S[turn % 2"),
    "some readers do not wait": (
        TMA, FULL, f"if tx < 64:\n                {FULL}", "race", "= S[turn % 2",
    ),
    "the writer does not wait": (TMA, EMPTY, "T.evaluate(0)", "race", "T.ptx_cp_async_bulk_tensor"),
    "the writer of copies does not wait": (
        COPIES, "T.ptx_wait_barrier(3 + turn % 3)", "T.evaluate(0)", "race", "T.ptx_cp_async(",
    ),
    "the writer waits for old phases": (
        TMA, "if turn >= 2", "if turn >= 4", "race", "T.ptx_cp_async_bulk_tensor",
    ),
    "the writer waits for a phase that has not begun": (
        TMA, "if turn >= 2", "if turn >= 1", "endless wait", EMPTY,
    ),
    "readers wait for another stage": (
        TMA, FULL, "T.ptx_wait_barrier((turn + 1) % 2)", "missing wait", "= S[turn % 2",
    ),
    "readers take another stage": (
        TMA, "S[turn % 2 *", "S[(turn + 1) % 2 *", "missing wait", "= S[(turn + 1) % 2",
    ),
    "too few arrive": (
        TMA, "T.ptx_arrive_barrier(2 + turn % 2)",
        "if tx < 95:\n                T.ptx_arrive_barrier(2 + turn % 2)", "endless wait", EMPTY,
    ),
    "a barrier counts too few": (
        STORES, "(2 + stage, 64)", "(2 + stage, 32)", "endless wait", EMPTY,
    ),
    "one warp of readers is not counted": (
        STORES, "T.ptx_arrive_barrier(2 + turn % 2)",
        "if tx < 64:\n                for i in range(2):\n"
        "                    T.ptx_arrive_barrier(2 + turn % 2)", "race", "S[turn % 2",
    ),
    "copies are bound to no barrier": (
        COPIES, "T.ptx_cp_async_barrier(turn % 3)", "pass", "missing wait", "= S[turn % 3",
    ),
    "products are not waited for": (
        PRODUCT, "T.ptx_wgmma_wait_group(0)", "pass", "race", "T.ptx_cp_async_bulk_tensor",
    ),
    "the last products are not waited for": (
        ELECTED, "T.ptx_wgmma_wait_group(0)", "T.ptx_wgmma_wait_group(1)", "race",
        "T.ptx_cp_async_bulk_tensor",
    ),
}  # fmt: skip
KINDS = {
    "missing wait": "was never written", "race": "^race", "endless wait": "waits forever at barrier"
}  # fmt: skip


def with_fault(name):
    func, old, new, _, _ = FAULTS[name]
    text = func.script()
    assert text.count(old) == 1
    lines = text.splitlines(keepends=True)
    if new == "pass":
        return ts.script.from_source("".join([line for line in lines if old not in line]))
    return ts.script.from_source(text.replace(old, new))


def arguments_of(func):
    if func in (PRODUCT, ELECTED):
        return arrays_of_product(64, 64, 192)[0]
    return arrays_of_tiles(7 if func is COPIES else 5)[0]


@pytest.mark.parametrize("name", FAULTS)
def test_both_ways_find_faults(name):
    func, _, _, kind, line = FAULTS[name]
    program = with_fault(name)
    result, notes = run_checks(program, "main", arguments_of(func))
    assert notes == []  # nothing was left to the threads one by one
    shown = [str(one.span) for one in result.findings if one.kind == kind]
    assert any(line in text for text in shown), [str(one) for one in result.findings]
    with pytest.raises(ExecutionError, match=KINDS[kind]):
        run(program, *arguments_of(func), options=CHECKED)


def test_copies_go_on_behind_a_barrier_of_the_block():
    """Half of the threads do not wait for the copy, though all meet after it has begun."""

    @T.prim_func
    def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        tx = T.launch_thread("threadIdx.x", 64)
        S = T.decl_buffer((64,), "float32", scope="shared")
        T.create_barriers(1)
        if tx == 0:
            T.ptx_init_barrier_thread_count(0, 1)
        T.tvm_storage_sync("shared")
        if tx == 0:
            T.ptx_arrive_barrier_expect_tx(0, 256)
            T.ptx_cp_async_bulk("float32", S.data, 0, A.data, 0, 256, 0)
        T.tvm_storage_sync("shared")
        if tx < 32:
            T.ptx_wait_barrier(0)
        B[tx] = S[tx]

    arrays = [np.ones(64, "float32"), np.zeros(64, "float32")]
    (found,) = run_kernels(main, arrays).findings
    assert found.kind == "race" and "a copy bound to barrier 0" in found.message
    assert "thread (threadIdx=(32, 0, 0)" in found.message
    with pytest.raises(ExecutionError, match=r"race: thread \(threadIdx.x=32\) reads S"):
        run(main, *arrays, options=CHECKED)
    text = main.script().replace("    B[tx] =", '    T.tvm_storage_sync("shared")\n    B[tx] =')
    for result in in_all_ways(ts.script.from_source(text), arrays):
        np.testing.assert_array_equal(result, arrays[0])


def test_who_waits_where():
    """All that wait are named, with the phase, the arrivals that are missing, and the line."""
    name = "too few arrive"
    first = r"waits forever at barrier 2 for phase 0: 63 of 64 arrivals"
    second = r"waits forever at barrier 0 for phase 1: 0 of 1 arrivals"
    with pytest.raises(ExecutionError) as caught:
        run(with_fault(name), *arguments_of(TMA))
    assert re.search(r"thread \(threadIdx.x=0\) " + first, caught.value.message)
    (note,) = caught.value.notes
    assert re.search(r"thread \(threadIdx.x=32\) \(and 63 more\) " + second + r", .*:22", note)
    messages = [one.message for one in run_kernels(with_fault(name), arguments_of(TMA)).findings]
    assert [bool(re.search(*both)) for both in zip((first, second), messages)] == [True, True]


def test_threads_at_a_barrier_of_the_block_are_named():
    """Those who have done their part wait for the others, who wait for them."""
    text = COPIES.script().replace("(3 + stage, 64)", "(3 + stage, 65)")
    turns = "if tx >= 32:\n        for turn in range({})"
    text = text.replace(turns.format(7), turns.format(1))
    with pytest.raises(ExecutionError) as caught:
        run(ts.script.from_source(text), *arguments_of(COPIES))
    assert "for phase 0: 64 of 65 arrivals" in caught.value.message
    assert 'waits at the barrier T.tvm_storage_sync("shared")' in caught.value.notes[0]
    (found,) = run_kernels(ts.script.from_source(text), arguments_of(COPIES)).findings
    assert found.kind == "endless wait" and 'at T.tvm_storage_sync("shared")' in found.message


def test_a_barrier_of_the_block_in_a_branch_is_an_error():
    @T.prim_func
    def main(A: T.Buffer((64,), "float32")):
        tx = T.launch_thread("threadIdx.x", 64)
        T.create_barriers(1)
        if tx == 0:
            T.ptx_init_barrier_thread_count(0, 32)
        T.tvm_storage_sync("shared")
        if tx < 32:
            T.ptx_arrive_barrier(0)
            T.tvm_storage_sync("shared")
        else:
            T.ptx_wait_barrier(0)
        A[tx] = T.float32(1)

    text = "only 32 of the 64 threads of a block reach the barrier"
    with pytest.raises(ExecutionError, match=text):
        run(main, np.zeros(64, "float32"))
    (found,) = run_kernels(main, [np.zeros(64, "float32")]).findings
    assert found.kind == "divergent barrier" and text in found.message


def test_branches_in_which_nobody_waits_run_one_after_the_other():
    """In a kernel with such barriers, too: who comes later finds what the first branch has stored,
    where each thread looks only after itself."""

    @T.prim_func
    def main(A: T.Buffer((64,), "int32")):
        tx = T.launch_thread("threadIdx.x", 64)
        T.create_barriers(1)
        if tx == 0:
            T.ptx_init_barrier_thread_count(0, 32)
        T.tvm_storage_sync("shared")
        if tx % 2 == 0:
            A[tx] = tx
            T.ptx_arrive_barrier(0)
        else:
            A[tx] = -tx
        T.ptx_wait_barrier(0)
        A[tx] = A[tx] * 2

    results = in_all_ways(main, [np.zeros(64, "int32")])
    numbers = np.arange(64)
    for result in results:
        np.testing.assert_array_equal(result, np.where(numbers % 2, -numbers, numbers) * 2)


def test_a_kernel_behind_one_with_barriers():
    """Kernels of a function have blocks of different sizes, and each has an order of its own."""

    @T.prim_func
    def main(A: T.Buffer((96,), "float32"), B: T.Buffer((96,), "float32")):
        with T.launch_thread("threadIdx.x", 32) as tx:
            S = T.decl_buffer((32,), "float32", scope="shared")
            T.create_barriers(1)
            if tx == 0:
                T.ptx_init_barrier_thread_count(0, 32)
            T.tvm_storage_sync("shared")
            S[tx] = A[tx]
            T.ptx_arrive_barrier(0)
            T.ptx_wait_barrier(0)
            B[tx] = S[31 - tx]
        with T.launch_thread("threadIdx.x", 96) as ty:
            R = T.decl_buffer((96,), "float32", scope="shared")
            R[ty] = B[ty % 32]
            T.tvm_storage_sync("shared")
            B[ty] = R[95 - ty]

    a = np.arange(96, dtype="float32")
    for result in in_all_ways(main, [a, np.zeros(96, "float32")]):
        np.testing.assert_array_equal(result, np.tile(a[:32], 3))


def test_loops_of_different_length():
    """Each warp takes as many turns as its number says; the first one waits for all of them."""

    @T.prim_func
    def main(A: T.Buffer((96, 4), "int32"), B: T.Buffer((4,), "int32")):
        tx = T.launch_thread("threadIdx.x", 96)
        S = T.decl_buffer((96,), "int32", scope="shared")
        T.create_barriers(2)
        if tx == 0:
            T.ptx_init_barrier_thread_count(0, 64)
            T.ptx_init_barrier_thread_count(1, 32)
        T.tvm_storage_sync("shared")
        for turn in range(tx // 32 * 2):
            S[tx] = A[tx, turn]
            if turn < 2:
                T.ptx_arrive_barrier(0)
                T.ptx_wait_barrier(1)
        if tx < 32:
            for turn in range(2):
                T.ptx_wait_barrier(0)
                if tx == 0:
                    B[turn] = S[32 + turn] + S[64 + turn]
                T.ptx_arrive_barrier(1)

    a = np.arange(96 * 4, dtype="int32").reshape(96, 4)
    expected = [a[32, 0] + a[64, 0], a[33, 1] + a[65, 1], 0, 0]
    for result in in_all_ways(main, [a, np.zeros(4, "int32")]):
        np.testing.assert_array_equal(result, expected)

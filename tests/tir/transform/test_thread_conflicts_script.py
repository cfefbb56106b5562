"""Which elements two threads may both touch: what is ruled out never happens."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tir.transform.harness import apply, arrays_for, assert_same
from tilesmith.ir import Range, Var
from tilesmith.script import from_source
from tilesmith.script import tir as T
from tilesmith.support.errors import UnsupportedError
from tilesmith.target import Target
from tilesmith.tir.interpreter import Options, run
from tilesmith.tir.transform import ThreadSync
from tilesmith.tir.transform.threads.thread_conflicts import Access, may_meet
from tilesmith.tir.transform.threads.thread_places import PlaceProver

CHECKED = Options(check_races=True, check_undefined=True)


@pytest.mark.parametrize("scope", ["shared", "warp"])
@pytest.mark.parametrize("distance, barriers", [(0, 0), (1, 1), (-1, 1)])
def test_a_loop_reads_what_another_loop_wrote(scope, distance, barriers):
    """Both loops have one form; only a constant tells that a thread reads its neighbour's."""

    @T.prim_func
    def func(A: T.Buffer((6,), "int32"), B: T.Buffer((3, 2), "int32")):
        T.func_attr({"global_symbol": "main"})
        tx = T.launch_thread("threadIdx.x", 2)
        S = T.decl_buffer((8,), "int32", scope=scope)
        for k in range(3):
            S[k * 2 + tx + 1] = A[k * 2 + tx]
        for k in range(3):
            if 0 <= k * 2 + tx + distance and k * 2 + tx + distance < 6:
                B[k, tx] = S[k * 2 + tx + (1 + distance)]

    after = apply(func, ThreadSync(scope))
    assert str(after).count("storage_sync") == barriers
    want = arrays_for(func)
    got = [array.copy() for array in want]
    run(func, *want)
    run(after, *got, options=CHECKED)
    assert_same(got, want)


# The threads (ty, tx), a loop around one access alone, and a loop around both, which for one of
# them may be an iteration ahead. A place is a sum of their multiples, or of the digits of one.
steps = st.sampled_from([0, 1, 2, 3, 4, 6, 8])
places = st.tuples(
    steps, steps, steps, steps,
    st.integers(-3, 3),  # constant
    st.sampled_from([None, (2, 4), (3, 5), (4, 4), (4, 8)]),  # digits of the sum, far apart
)  # fmt: skip


def place_of(place, ty, tx, inner, outer):
    a, b, c, d, constant, digits = place
    total = ty * a + tx * b + inner * c + outer * d
    if digits is not None:
        base, scale = digits
        total = total // base * scale + total % base
    return total + constant


@settings(max_examples=300, deadline=None)
@given(
    st.tuples(places, places) | places.map(lambda one: (one, one)),
    st.integers(-2, 2),
    st.tuples(st.integers(1, 3), st.integers(1, 4)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)) | st.integers(1, 3).map(lambda n: (n, n)),
    st.integers(0, 1),
    st.sampled_from([(1, 1), (2, 2), (1, 4)]),
)
def test_threads_whose_places_are_told_apart_never_meet(pair, shift, sizes, extents, ahead, lanes):
    pair = pair[0], (*pair[1][:4], pair[1][4] + shift, pair[1][5])
    ty, tx, outer, pointer = (Var(name, "int32") for name in ("ty", "tx", "outer", "S"))
    prover = PlaceProver()
    prover.common[outer] = Range(0, 3)
    accesses = []
    for number, (place, extent) in enumerate(zip(pair, extents)):
        inner = Var("inner", "int32")
        index = place_of(place, ty, tx, inner, outer + (ahead * number))
        loops = ((inner, Range(0, extent)),)
        accesses.append(Access(pointer, index, lanes[number], pointer.dtype, True, loops))
    if may_meet(*accesses, dict(zip((ty, tx), sizes)), prover):
        return
    threads = list(product(range(sizes[0]), range(sizes[1])))
    for first, second, together in product(threads, threads, range(3)):
        if first == second:
            continue
        for one, other in product(range(extents[0]), range(extents[1])):
            low = place_of(pair[0], *first, one, together)
            high = place_of(pair[1], *second, other, together + ahead)
            assert low + lanes[0] <= high or high + lanes[1] <= low


# A barrier of the warp orders the threads of a branch that one warp takes.

TAIL = """
@T.prim_func
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    T.func_attr({{"global_symbol": "main"}})
    ty = T.launch_thread("threadIdx.y", {rows})
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.decl_buffer((128,), scope="shared")
    S[tx] = A[tx]
    {between}
    if {condition}:
        S[tx] = S[tx] + S[tx + 32]
        {wait}
        B[tx] = S[31 - tx]
    B[tx] = B[tx] + {after}
"""
PLAIN = {
    "rows": 1, "between": "T.evaluate(0)", "condition": "tx < 32",
    "wait": 'T.tvm_storage_sync("warp")', "after": "A[tx]",
}  # fmt: skip


def tail(target="cuda", **changes):
    source = TAIL.format(**{**PLAIN, **changes})
    return from_source(source).with_attr("target", Target(target))


@pytest.mark.parametrize(
    "changes, barriers",
    [
        ({}, 1),
        ({"condition": "tx // 32 == 0"}, 1),
        ({"condition": "tx <= 31 and A[0] < T.float32(9)"}, 1),
        ({"between": 'T.tvm_storage_sync("shared")'}, 1),  # that of the program
        ({"after": "S[63 - tx]"}, 2),  # all threads read what the warp has written
    ],
)
def test_a_warp_waits_in_its_branch(changes, barriers):
    synced = apply(tail(**changes), ThreadSync("shared"))
    assert str(synced).count('tvm_storage_sync("shared")') == barriers
    a, b = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    run(synced, a, b, options=CHECKED)
    if "after" not in changes:
        np.testing.assert_array_equal(b[:32], (a[:32] + a[32:])[::-1] + a[:32])


@pytest.mark.parametrize(
    "changes",
    [
        {"wait": "T.evaluate(0)"},
        {"condition": "tx < 33"},
        {"condition": "tx > 31"},
        {"condition": "tx // 64 == 0 and A[tx] > T.float32(0)"},
        {"rows": 2},
        {"target": "opencl"},  # its barriers of warps are barriers of the block
    ],
)
def test_other_exchanges_in_branches_are_refused(changes):
    with pytest.raises(UnsupportedError, match="inside of a branch or loop that not all"):
        apply(tail(**changes), ThreadSync("shared"))

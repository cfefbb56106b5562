"""Threads that write one value do not race, in both ways to run kernels; a second value does."""

import numpy as np
import pytest

from tilesmith.script import tir as T
from tilesmith.testing.fuzz.planted import verdicts


@T.prim_func
def all_write_and_read(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    tx = T.launch_thread("threadIdx.x", 4)
    S = T.decl_buffer((4,), "int32", scope="shared")
    for _turn in range(2):
        for i in range(4):
            S[i] = A[i]
        B[tx] = S[3 - tx]


@T.prim_func
def one_reads_what_others_write(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    tx = T.launch_thread("threadIdx.x", 4)
    S = T.decl_buffer((4,), "int32", scope="shared")
    if tx > 0:
        for i in range(4):
            S[i] = A[i]
    B[tx] = S[3 - tx]


@T.prim_func
def one_writes_again(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    tx = T.launch_thread("threadIdx.x", 4)
    S = T.decl_buffer((4,), "int32", scope="shared")
    for i in range(4):
        S[i] = A[i]
    if tx == 3:
        S[0] = 77
    B[tx] = S[tx]


@pytest.mark.parametrize(
    ("func", "is_wrong"),
    [(all_write_and_read, False), (one_reads_what_others_write, True), (one_writes_again, True)],
)
def test_both_say_the_same(func, is_wrong):
    arrays = [np.arange(1, 5, dtype="int32"), np.zeros(4, "int32")]
    for wrong, results in verdicts(func, arrays):
        assert (wrong is not None) == is_wrong, wrong
        if not is_wrong:
            np.testing.assert_array_equal(results[1], [4, 3, 2, 1])

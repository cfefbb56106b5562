"""Copies in flight and memory never written: threads in lockstep find what threads one by one do.

A copy in flight says nothing about the elements beside it, and brings what its source held.
"""

import numpy as np
import pytest

from tilesmith.script import tir as T
from tilesmith.testing.fuzz.planted import faults, verdicts


@T.prim_func
def beside_a_copy(A: T.Buffer((64,), "int32"), B: T.Buffer((32,), "int32")):
    """A stage is read while the next one is in flight."""
    tx = T.launch_thread("threadIdx.x", 32)
    S = T.alloc_buffer((96,), "int32", scope="shared")
    for stage in T.unroll(2):
        with T.attr(0, "async_commit_queue_scope", 0):
            with T.attr(0, "async_scope", 1):
                S[stage * 33 + tx] = A[stage * 32 + tx]
    with T.attr(0, "async_wait_queue_scope", 0):
        with T.attr(0, "async_wait_inflight_count", 1):
            T.tvm_storage_sync("shared")
            B[tx] = S[tx] * 2
    with T.attr(0, "async_wait_queue_scope", 0):
        with T.attr(0, "async_wait_inflight_count", 0):
            T.tvm_storage_sync("shared")
            B[tx] = B[tx] + S[33 + tx]


@T.prim_func
def a_lane_beside_a_copy(A: T.Buffer((64,), "int32"), B: T.Buffer((32,), "int32")):
    tx = T.launch_thread("threadIdx.x", 32)
    S = T.alloc_buffer((66,), "int32", scope="shared")
    if tx < 31:
        T.ptx_cp_async("int32", S.data, tx * 2, A.data, tx * 2, 8)
    T.ptx_commit_group()
    T.ptx_wait_group(0)
    if tx < 2:
        T.ptx_cp_async("int32", S.data, 64 + tx, A.data, tx, 4)
    T.ptx_commit_group()
    T.tvm_storage_sync("shared")
    B[tx] = S[tx * 2 + 1] + 1
    T.ptx_wait_group(0)


@T.prim_func
def brings_nothing(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32")):
    """A copy in the background of memory that one thread never wrote."""
    tx = T.launch_thread("threadIdx.x", 32)
    S = T.alloc_buffer((32,), "int32", scope="shared")
    R = T.alloc_buffer((32,), "int32", scope="shared")
    if tx != 7:
        S[tx] = A[tx]
    with T.attr(0, "async_commit_queue_scope", 0):
        with T.attr(0, "async_scope", 1):
            R[tx] = S[tx]
    with T.attr(0, "async_wait_queue_scope", 0):
        with T.attr(0, "async_wait_inflight_count", 0):
            T.tvm_storage_sync("shared")
            B[tx] = R[31 - tx] + 1


@T.prim_func
def brings_nothing_to_the_caller(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32")):
    tx = T.launch_thread("threadIdx.x", 32)
    S = T.alloc_buffer((32,), "int32", scope="shared")
    if tx != 7:
        S[tx] = A[tx]
    with T.attr(0, "async_commit_queue_scope", 0):
        with T.attr(0, "async_scope", 1):
            B[tx] = S[tx]
    with T.attr(0, "async_wait_queue_scope", 0):
        with T.attr(0, "async_wait_inflight_count", 0):
            T.evaluate(0)


@T.prim_func
def copies_bytes_of_nothing(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32")):
    tx = T.launch_thread("threadIdx.x", 32)
    S = T.alloc_buffer((32,), "int32", scope="shared")
    R = T.alloc_buffer((32,), "int32", scope="shared")
    if tx != 7:
        S[tx] = A[tx]
    T.ptx_cp_async("int32", R.data, tx, S.data, tx, 4)
    T.ptx_commit_group()
    T.ptx_wait_group(0)
    B[tx] = A[tx]


@T.prim_func
def registers_too_early(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32")):
    tx = T.launch_thread("threadIdx.x", 32)
    R = T.alloc_buffer((2,), "int32", scope="local")
    R[0] = 5
    with T.attr(0, "async_commit_queue_scope", 0):
        with T.attr(0, "async_scope", 1):
            R[0] = A[tx]
    B[tx] = R[0] + 1
    with T.attr(0, "async_wait_queue_scope", 0):
        with T.attr(0, "async_wait_inflight_count", 0):
            B[tx] = R[0]


@T.prim_func
def parts_of_an_element(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32")):
    """Memory of bytes and of words: one word that was never written comes by a register."""
    tx = T.launch_thread("threadIdx.x", 32)
    S = T.allocate([256], "int8", "shared")
    words = T.decl_buffer((64,), "int32", data=S)
    small = T.decl_buffer((256,), "int8", data=S)
    R = T.alloc_buffer((1,), "int32", scope="local")
    if tx != 7:
        R[0] = A[tx]
    words[tx] = R[0]
    small[128 + tx] = T.int8(1)
    T.tvm_storage_sync("shared")
    B[tx] = words[31 - tx] + T.Cast("int32", small[128 + tx])


@T.prim_func
def unused_parts(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32")):
    """The same is no fault where the word is not used."""
    tx = T.launch_thread("threadIdx.x", 32)
    S = T.allocate([256], "int8", "shared")
    words = T.decl_buffer((64,), "int32", data=S)
    small = T.decl_buffer((256,), "int8", data=S)
    R = T.alloc_buffer((1,), "int32", scope="local")
    if tx != 7:
        R[0] = A[tx]
    words[tx] = R[0]
    small[128 + tx] = T.int8(1)
    T.tvm_storage_sync("shared")
    with T.attr(0, "async_commit_queue_scope", 0):
        with T.attr(0, "async_scope", 1):
            words[40 + tx % 16] = words[tx % 16]
    with T.attr(0, "async_wait_queue_scope", 0):
        with T.attr(0, "async_wait_inflight_count", 0):
            T.tvm_storage_sync("shared")
            if tx % 16 != 7:
                B[tx] = words[40 + tx % 16] + T.Cast("int32", small[128 + tx])


@T.prim_func
def a_lane_to_the_caller(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
    tx = T.launch_thread("threadIdx.x", 32)
    R = T.decl_buffer((2,), "int32", scope="local")
    R[0] = A[tx]
    B[T.Ramp(tx * 2, 1, 2)] = R[T.Ramp(0, 1, 2)]


@T.prim_func
def a_lane_inside(A: T.Buffer((64,), "int32"), B: T.Buffer((32,), "int32")):
    tx = T.launch_thread("threadIdx.x", 32)
    R = T.decl_buffer((2,), "int32", scope="local")
    S = T.decl_buffer((64,), "int32", scope="shared")
    R[0] = A[tx]
    S[T.Ramp(tx * 2, 1, 2)] = R[T.Ramp(0, 1, 2)]
    T.tvm_storage_sync("shared")
    B[tx] = S[tx] + 1


@T.prim_func
def a_lane_in_the_background(A: T.Buffer((64,), "int32"), B: T.Buffer((32,), "int32")):
    tx = T.launch_thread("threadIdx.x", 32)
    R = T.decl_buffer((64,), "int32", scope="shared")
    S = T.decl_buffer((64,), "int32", scope="shared")
    R[tx * 2] = A[tx]
    with T.attr(0, "async_commit_queue_scope", 0):
        with T.attr(0, "async_scope", 1):
            S[T.Ramp(tx * 2, 1, 2)] = R[T.Ramp(tx * 2, 1, 2)]
    with T.attr(0, "async_wait_queue_scope", 0):
        with T.attr(0, "async_wait_inflight_count", 0):
            B[tx] = S[tx * 2 + 1] + 1


def stored_under(lanes, factor=None):
    """A lane of two was never written; so many are stored by the first thread, all by others."""
    result = (lambda value: value) if factor is None else (lambda value: value * factor)

    @T.prim_func
    def masked(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
        tx = T.launch_thread("threadIdx.x", 32)
        R = T.decl_buffer((2,), "int32", scope="local")
        R[0] = A[tx]
        if tx > 0:
            R[1] = A[tx]
        mask = T.get_active_lane_mask("uint1x2", 0, T.min(tx + lanes, 2))
        B.vstore([T.Ramp(tx * 2, 1, 2)], result(R[T.Ramp(0, 1, 2)]), predicate=mask)

    return masked


FAULTS = [(a_lane_beside_a_copy, "undefined read"), (brings_nothing, "undefined read"),
          (brings_nothing_to_the_caller, "undefined read"),
          (copies_bytes_of_nothing, "undefined read"), (registers_too_early, "missing wait"),
          (parts_of_an_element, "undefined read"), (a_lane_to_the_caller, "undefined read"),
          (a_lane_inside, "undefined read"), (a_lane_in_the_background, "undefined read"),
          (stored_under(2), "undefined read")]  # fmt: skip
NAMES = [one.attrs["global_symbol"] for one, _ in FAULTS]


def arrays_of(func):
    sizes = [int(buffer.shape[0]) for buffer in func.buffer_map.values()]
    return [np.arange(1, size + 1, dtype="int32") for size in sizes]


@pytest.mark.parametrize("func, kind", FAULTS, ids=NAMES)
def test_both_find_what_never_came(func, kind):
    (alone, _), (together, _) = verdicts(func, arrays_of(func))
    assert "was never written" in alone
    assert together.startswith(kind)


@pytest.mark.parametrize("func", [beside_a_copy, unused_parts, stored_under(1), stored_under(1, 3)])
def test_both_find_nothing_in_correct_kernels(func):
    (alone, got), (together, again) = verdicts(func, arrays_of(func))
    assert alone is None and together is None
    np.testing.assert_array_equal(got[1], again[1])


def test_loads_one_element_further_are_found_beside_a_copy_in_flight():
    """Element 32 was never written: the copy of the next stage begins behind it."""
    found = [verdicts(broken, arrays_of(broken)) for _, broken in faults(beside_a_copy, "load")]
    assert len(found) == 2
    for (alone, _), (together, _) in found:
        assert "was never written" in alone and together.startswith("undefined read")


def test_lanes_computed_from_nothing_are_found_where_they_are_stored():
    func = stored_under(2, 3)
    _, (together, _) = verdicts(func, arrays_of(func))
    assert together.startswith("undefined read") and "computes a lane" in together

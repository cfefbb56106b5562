# mypy: ignore-errors
"""Draws from distributions by numbers that are given, on the CPU and on the threads of a GPU."""

from __future__ import annotations

from tilesmith.relax.backend_tir.cumsum import add_up, check_threads
from tilesmith.script import tir as T
from tilesmith.tir import PrimFunc

__all__ = ["generic_get_sample_index", "gpu_multinomial_from_uniform"]


def generic_get_sample_index(
    prob_dtype: str = "float32",
    sample_dtype: str = "float32",
    sample_indices_dtype: str = "int64",
    dtype: str = "int64",
) -> PrimFunc:
    """Return a kernel that finds in a row of running totals the first one larger than a number; the
    last place if there is none.
    """

    @T.prim_func(private=True)
    def get_sample_index(a: T.handle, b: T.handle, c: T.handle, d: T.handle):
        T.func_attr({"tir.noalias": True})
        batch, classes, count = T.int64(), T.int64(), T.int64()
        sums = T.match_buffer(a, (batch, classes), prob_dtype)
        uniform = T.match_buffer(b, (count, T.int64(1)), sample_dtype)
        rows = T.match_buffer(c, (count, T.int64(1)), sample_indices_dtype)
        found = T.match_buffer(d, (count, T.int64(1)), dtype)
        for i, k in T.grid(count, classes - T.int64(1)):
            with T.block("get_sample_index"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    found[vi, 0] = T.cast(0, dtype)
                found[vi, 0] = found[vi, 0] + T.cast(
                    T.cast(sums[T.cast(rows[vi, 0], "int64"), vk], sample_dtype) <= uniform[vi, 0],
                    dtype,
                )

    return get_sample_index


def gpu_multinomial_from_uniform(
    prob_dtype: str = "float32",
    sample_dtype: str = "float32",
    sample_indices_dtype: str = "int64",
    dtype: str = "int64",
    ty_len: int = 4,
    tx_len: int = 32,
    thread_elem: int = 4,
    eps: float = 1e-6,
) -> PrimFunc:
    """Return a kernel that draws one class for each number, by a block of ``ty_len * tx_len``
    threads for each.

    Each thread adds up ``thread_elem`` probabilities at a time; the one in whose part the running
    total exceeds the number writes the class. Where rounding leaves a number that nothing exceeds,
    the last class is taken; totals are compared as they are, so ``eps`` changes nothing.
    """
    threads = check_threads(ty_len, tx_len, thread_elem)
    steps = threads.bit_length() - 1

    @T.prim_func(private=True)
    def parallel_sampling_from_prob(a: T.handle, b: T.handle, c: T.handle, d: T.handle):
        T.func_attr({"tir.is_scheduled": 1, "tir.noalias": True})
        batch, classes, count = T.int64(), T.int64(), T.int64()
        prob = T.match_buffer(a, (batch, classes), prob_dtype)
        uniform = T.match_buffer(b, (count, T.int64(1)), sample_dtype)
        rows = T.match_buffer(c, (count, T.int64(1)), sample_indices_dtype)
        found = T.match_buffer(d, (count, T.int64(1)), dtype)
        for i in T.thread_binding(count, thread="blockIdx.x"):
            for tx in T.thread_binding(T.int64(threads), thread="threadIdx.x"):
                with T.block("sample"):
                    shared = T.alloc_buffer((T.int64(2), T.int64(threads)), scope="shared")
                    own = T.alloc_buffer((T.int64(1),), scope="local")
                    carry = T.alloc_buffer((T.int64(1),), scope="local")
                    carry[0] = T.float32(0)
                    row = T.cast(rows[i, 0], "int64")
                    if tx == 0:
                        found[i, 0] = T.cast(classes - 1, dtype)
                    T.tvm_storage_sync("shared")
                    for chunk in range(T.ceildiv(classes, T.int64(threads * thread_elem))):
                        own[0] = T.float32(0)
                        for k in range(T.int64(thread_elem)):
                            if (chunk * threads + tx) * thread_elem + k < classes:
                                own[0] = own[0] + T.cast(
                                    prob[row, (chunk * threads + tx) * thread_elem + k], "float32"
                                )
                        shared[0, tx] = own[0]
                        add_up(shared, tx, steps, T.float32(0))
                        own[0] = carry[0] + shared[steps % 2, tx] - own[0]
                        for k in range(T.int64(thread_elem)):
                            place = (chunk * threads + tx) * thread_elem + k
                            if place < classes and own[0] <= T.cast(uniform[i, 0], "float32"):
                                own[0] = own[0] + T.cast(prob[row, place], "float32")
                                if own[0] > T.cast(uniform[i, 0], "float32"):
                                    found[i, 0] = T.cast(place, dtype)
                        carry[0] = carry[0] + shared[steps % 2, threads - 1]
                        T.tvm_storage_sync("shared")

    return parallel_sampling_from_prob

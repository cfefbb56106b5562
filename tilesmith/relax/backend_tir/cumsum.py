# mypy: ignore-errors
"""Running totals of rows by the threads of a GPU."""

from __future__ import annotations

from typing import Any

from tilesmith.script import tir as T
from tilesmith.support.errors import ConfigError
from tilesmith.tir import PrimFunc

__all__ = ["add_up", "check_threads", "gpu_2d_continuous_cumsum"]


def check_threads(ty_len: int, tx_len: int, thread_elem: int) -> int:
    """Return how many threads work on one row. Raises ConfigError for numbers that do not fit."""
    threads = ty_len * tx_len
    if min(ty_len, tx_len, thread_elem) < 1 or threads & (threads - 1) or threads > 1024:
        raise ConfigError(
            f"{ty_len} times {tx_len} threads: their number is a power of two, 1024 at most"
        )
    return threads


@T.macro
def add_up(shared: Any, tx: Any, steps: Any, zero: Any) -> None:
    """Let row ``steps % 2`` of ``shared`` hold the running totals over threads of row 0."""
    T.tvm_storage_sync("shared")
    for step in T.unroll(T.int64(steps)):
        shared[1 - step % 2, tx] = shared[step % 2, tx] + T.if_then_else(
            tx >= T.shift_left(T.int64(1), step),
            shared[step % 2, T.max(tx - T.shift_left(T.int64(1), step), T.int64(0))],
            zero,
        )
        T.tvm_storage_sync("shared")


def gpu_2d_continuous_cumsum(
    ty_len: int = 4,
    tx_len: int = 32,
    thread_elem: int = 4,
    in_dtype: str = "int32",
    out_dtype: str | None = None,
) -> PrimFunc:
    """Return a kernel for running totals along the rows of a matrix.

    A block of ``ty_len * tx_len`` threads goes along a row, ``thread_elem`` elements for each
    thread at a time: the threads' own totals are added up in shared memory, in steps of 1, 2, 4, …
    """
    threads = check_threads(ty_len, tx_len, thread_elem)
    out: Any = out_dtype or in_dtype
    steps = threads.bit_length() - 1

    @T.prim_func(private=True)
    def cumsum(var_a: T.handle, var_out: T.handle):
        T.func_attr({"tir.is_scheduled": 1, "tir.noalias": True})
        m, n = T.int64(), T.int64()
        a = T.match_buffer(var_a, (m, n), dtype=in_dtype)
        total = T.match_buffer(var_out, (m, n), dtype=out)
        for row in T.thread_binding(m, thread="blockIdx.x"):
            for tx in T.thread_binding(T.int64(threads), thread="threadIdx.x"):
                with T.block("row"):
                    shared = T.alloc_buffer((T.int64(2), T.int64(threads)), out, scope="shared")
                    own = T.alloc_buffer((T.int64(1),), out, scope="local")
                    carry = T.alloc_buffer((T.int64(1),), out, scope="local")
                    carry[0] = T.cast(0, out)
                    for chunk in range(T.ceildiv(n, T.int64(threads * thread_elem))):
                        own[0] = T.cast(0, out)
                        for k in range(T.int64(thread_elem)):
                            if (chunk * threads + tx) * thread_elem + k < n:
                                own[0] = own[0] + T.cast(
                                    a[row, (chunk * threads + tx) * thread_elem + k], out
                                )
                        shared[0, tx] = own[0]
                        add_up(shared, tx, steps, T.cast(0, out))
                        own[0] = carry[0] + shared[steps % 2, tx] - own[0]
                        for k in range(T.int64(thread_elem)):
                            if (chunk * threads + tx) * thread_elem + k < n:
                                own[0] = own[0] + T.cast(
                                    a[row, (chunk * threads + tx) * thread_elem + k], out
                                )
                                total[row, (chunk * threads + tx) * thread_elem + k] = own[0]
                        carry[0] = carry[0] + shared[steps % 2, threads - 1]
                        T.tvm_storage_sync("shared")

    return cumsum

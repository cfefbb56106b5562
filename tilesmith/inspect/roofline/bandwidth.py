# mypy: ignore-errors
"""A kernel that reads memory as fast as it can, in TVMScript (whose words are no Python types)."""

from tilesmith.script import tir as T

__all__ = ["peak_bandwidth_tir"]


@T.prim_func
def peak_bandwidth_tir(a: T.handle, b: T.handle, threads: T.int32, vec_width: T.int32):
    """Add up a tensor, each thread a part of it, in four vectors."""
    count = T.int32()
    A = T.match_buffer(a, (threads, count, 4, vec_width), "float32")
    B = T.match_buffer(b, (threads, 4, vec_width), "float32")
    for thread in T.parallel(threads):
        for step in T.serial(count):
            for row in T.unroll(4):
                for lane in T.vectorized(vec_width):
                    B[thread, row, lane] += A[thread, step, row, lane]

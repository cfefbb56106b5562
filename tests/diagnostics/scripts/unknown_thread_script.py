"""A thread axis that GPUs do not have."""

from tilesmith.script import tir as T


@T.prim_func
def scale(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in T.thread_binding(16, thread="threadIdx.w"):
        B[i] = A[i] * 2.0

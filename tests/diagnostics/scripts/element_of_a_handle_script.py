"""A handle used as if it were the buffer behind it."""

from tilesmith.script import tir as T


@T.prim_func
def scale(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32"), offsets: T.handle):
    for i in range(16):
        B[i] = A[i] + offsets[i]

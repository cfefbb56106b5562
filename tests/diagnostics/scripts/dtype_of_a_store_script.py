"""A value of another data type than the buffer."""

from tilesmith.script import tir as T


@T.prim_func
def scale(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(16):
        B[i] = T.Cast("float16", A[i])

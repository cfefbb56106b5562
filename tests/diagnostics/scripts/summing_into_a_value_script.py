"""A sum in a variable, which is a value and no memory."""

from tilesmith.script import tir as T


@T.prim_func
def scale(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    total = T.float32(0)
    for i in range(16):
        total += A[i]
    B[0] = total

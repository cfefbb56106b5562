"""A sum that a loop would have to carry."""

from tilesmith.script import tir as T


@T.prim_func
def total(A: T.Buffer((16,), "float32"), B: T.Buffer((1,), "float32")):
    s = T.float32(0)
    for i in range(16):
        s = s + A[i]
    B[0] = s

"""A value that a branch makes and the rest of the program reads."""

from tilesmith.script import tir as T


@T.prim_func
def total(A: T.Buffer((16,), "float32"), B: T.Buffer((1,), "float32")):
    s = T.float32(0)
    if A[0] > T.float32(0):
        s = A[1]
    B[0] = s

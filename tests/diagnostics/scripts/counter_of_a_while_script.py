"""A counter that the condition of a loop never sees changed."""

from tilesmith.script import tir as T


@T.prim_func
def total(A: T.Buffer((16,), "float32"), B: T.Buffer((1,), "float32")):
    k = T.int32(0)
    while k < 16:
        B[0] = A[k]
        k = k + 1

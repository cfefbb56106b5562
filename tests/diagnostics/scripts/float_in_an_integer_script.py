"""A float stored to integers without a cast."""

from tilesmith.script import tir as T


@T.prim_func
def total(A: T.Buffer((16,), "float32"), B: T.Buffer((1,), "int32")):
    for i in range(16):
        B[0] = A[i]

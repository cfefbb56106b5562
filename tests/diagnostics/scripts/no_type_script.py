"""A parameter without a type."""

from tilesmith.script import tir as T


@T.prim_func
def scale(A, B: T.Buffer((16,), "float32")):
    for i in range(16):
        B[i] = A[i] * 2.0

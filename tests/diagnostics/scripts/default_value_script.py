"""A parameter with a default value."""

from tilesmith.script import tir as T


@T.prim_func
def scale(A: T.Buffer((16,), "float32"), n: T.int32 = 4):
    for i in range(n):
        A[i] = 0.0

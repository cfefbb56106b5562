"""A loop with a step."""

from tilesmith.script import tir as T


@T.prim_func
def scale(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(0, 16, 2):
        B[i] = A[i] * 2.0

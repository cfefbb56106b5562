"""Two names for three loops."""

from tilesmith.script import tir as T


@T.prim_func
def scale(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i, j in T.grid(2, 2, 4):
        B[i * 8 + j * 4] = A[i]

"""A nest of loops with one variable."""

from tilesmith.script import tir as T


@T.prim_func
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in T.grid(4, 4):
        B[i] = A[i]

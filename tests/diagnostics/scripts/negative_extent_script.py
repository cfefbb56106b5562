"""A loop of a negative extent."""

from tilesmith.script import tir as T


@T.prim_func
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in T.serial(-3):
        B[i] = A[i]

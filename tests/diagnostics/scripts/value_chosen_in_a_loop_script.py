"""A value that a branch in a loop would have to change."""

from tilesmith.script import tir as T


@T.prim_func
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    s: T.float32 = 0.0
    for i in range(16):
        if A[i] > 0.0:
            s = A[i]
    B[0] = s

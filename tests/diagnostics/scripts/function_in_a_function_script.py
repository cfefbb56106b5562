"""A plain function inside of a script."""

from tilesmith.script import tir as T


@T.prim_func
def scale(A: T.Buffer((16,), "float32")):
    def double(x):
        return x * 2.0

    for i in range(16):
        A[i] = double(A[i])

"""T.init in a loop."""

from tilesmith.script import tir as T


@T.prim_func
def scale(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    with T.init():
        B[0] = 0.0
    for i in range(16):
        B[0] += A[i]

"""A block with two T.init."""

from tilesmith.script import tir as T


@T.prim_func
def scale(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(16):
        with T.block("sum"):
            vi = T.axis.reduce(16, i)
            with T.init():
                B[0] = 0.0
            with T.init():
                B[0] = 1.0
            B[0] += A[vi]

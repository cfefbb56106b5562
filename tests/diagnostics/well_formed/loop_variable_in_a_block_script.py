"""A block that uses a loop variable in place of its axis."""

from tilesmith.script import tir as T


@T.prim_func
def scale(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(16):
        with T.block("scale"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[i] * 2.0

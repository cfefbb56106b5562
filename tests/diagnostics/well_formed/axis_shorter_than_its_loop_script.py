"""An axis with fewer values than the loop that it is bound to."""

from tilesmith.script import tir as T


@T.prim_func
def scale(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(16):
        with T.block("scale"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * 2.0

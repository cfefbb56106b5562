"""An axis that stands in no block."""

from tilesmith.script import tir as T


@T.prim_func
def scale(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(16):
        vi = T.axis.spatial(16, i)
        B[vi] = A[vi] * 2.0

"""An axis of a negative extent."""

from tilesmith.script import tir as T


@T.prim_func
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(16):
        with T.block("b"):
            v = T.axis.spatial(-16, i)
            B[v] = A[v]

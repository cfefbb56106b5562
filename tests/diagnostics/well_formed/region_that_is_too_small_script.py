"""A block that reads its neighbour, which T.reads does not say."""

from tilesmith.script import tir as T


@T.prim_func
def scale(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(15):
        with T.block("difference"):
            vi = T.axis.spatial(15, i)
            T.reads(A[vi])
            T.writes(B[vi])
            B[vi] = A[vi + 1] - A[vi]

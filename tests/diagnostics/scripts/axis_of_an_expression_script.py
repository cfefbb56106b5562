"""T.axis.remap of something that is no loop."""

from tilesmith.script import tir as T


@T.prim_func
def scale(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i, j in T.grid(4, 4):
        with T.block("scale"):
            vi = T.axis.remap("S", [i * 4 + j])
            B[vi] = A[vi] * 2.0

"""A letter that stands for no kind of axis."""

from tilesmith.script import tir as T


@T.prim_func
def scale(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(16):
        with T.block("scale"):
            vi = T.axis.remap("X", [i])
            B[vi] = A[vi] * 2.0

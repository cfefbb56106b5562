"""A data type with a slip of the pen."""

from tilesmith.script import tir as T


@T.prim_func
def scale(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    C = T.alloc_buffer((16,), "flaot32")
    for i in range(16):
        C[i] = A[i]

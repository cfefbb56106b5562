"""A buffer that belongs to another function."""

from tilesmith import tir
from tilesmith.script import tir as T

C = tir.decl_buffer((16,), "float32", "C")


@T.prim_func
def scale(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(16):
        B[i] = C[i] * 2.0

"""A buffer of a negative size."""

from tilesmith.script import tir as T


@T.prim_func
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    C = T.alloc_buffer((-3,), "float32")
    B[0] = C[0]

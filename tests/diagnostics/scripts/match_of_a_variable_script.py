"""T.match_buffer of something that is no parameter."""

from tilesmith.script import tir as T


@T.prim_func
def scale(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    n = T.int32()
    C = T.match_buffer(n, (16,))
    C[0] = 1.0

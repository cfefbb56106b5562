"""Two vectors of different lengths."""

from tilesmith.script import tir as T


@T.prim_func
def scale(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    B[0:8] = A[0:8] + T.Broadcast(T.float32(1), 4)

"""A statement of Python that scripts do not have."""

from tilesmith.script import tir as T


@T.prim_func
def scale(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(16):
        if A[i] < 0.0:
            break
        B[i] = A[i]

"""A size that nothing binds."""

from tilesmith.script import tir as T


@T.prim_func
def scale(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    n = T.int32()
    for i in range(n):
        B[i] = A[i] * 2.0

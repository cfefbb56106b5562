"""A keyword argument that a word does not take."""

from tilesmith.script import tir as T


@T.prim_func
def scale(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in T.serial(16, anotations={"pragma_x": 1}):
        B[i] = A[i] * 2.0

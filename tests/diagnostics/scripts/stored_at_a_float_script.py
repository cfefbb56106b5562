"""A store at an index that is a float."""

from tilesmith.script import tir as T


@T.prim_func
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    B[0.5] = A[0]

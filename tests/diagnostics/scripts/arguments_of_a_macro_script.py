"""A macro called with too few arguments."""

from tilesmith.script import tir as T


@T.macro
def scale_one(buffer, index, factor):
    buffer[index] = buffer[index] * factor


@T.prim_func
def scale(A: T.Buffer((16,), "float32")):
    for i in range(16):
        scale_one(A, i)

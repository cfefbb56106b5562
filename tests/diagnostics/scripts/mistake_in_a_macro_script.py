"""A mistake inside of a macro: where it is, and who called it."""

from tilesmith.script import tir as T


@T.macro
def scale_one(buffer, index):
    buffer[index] = buffer[index] * factor


@T.prim_func
def scale(A: T.Buffer((16,), "float32")):
    for i in range(16):
        scale_one(A, i)

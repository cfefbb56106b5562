"""Two functions of one name in a module."""

from tilesmith.script import ir as I
from tilesmith.script import tir as T


@I.ir_module
class Module:
    @T.prim_func
    def scale(A: T.Buffer((16,), "float32")):
        for i in range(16):
            A[i] = A[i] * 2.0

    @T.prim_func
    def scale(A: T.Buffer((8,), "float32")):  # noqa: F811
        for i in range(8):
            A[i] = A[i] * 2.0

"""A call of a function that the module does not have."""

from tilesmith.script import ir as I
from tilesmith.script import tir as T


@I.ir_module
class Module:
    @T.prim_func
    def scale(A: T.Buffer((16,), "float32")):
        for i in range(16):
            A[i] = A[i] * 2.0

    @T.prim_func
    def main(A: T.Buffer((16,), "float32")):
        Module.scales(A.data)

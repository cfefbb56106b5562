"""A function of a module without a decorator."""

from tilesmith.script import ir as I
from tilesmith.script import tir as T


@I.ir_module
class Module:
    def scale(A: T.Buffer((16,), "float32")):
        for i in range(16):
            A[i] = A[i] * 2.0

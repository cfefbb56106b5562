"""An attribute that buffers do not have."""

from tilesmith.script import tir as T


@T.prim_func
def scale(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(A.shap[0]):
        B[i] = A[i] * 2.0

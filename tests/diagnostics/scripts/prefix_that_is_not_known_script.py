"""A text that uses another word for the dialect."""

import tilesmith as ts

ts.script.from_source(
    """
@tensor.prim_func
def scale(A: tensor.Buffer((16,), "float32")):
    for i in range(16):
        A[i] = A[i] * 2.0
"""
)

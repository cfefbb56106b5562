"""A text that is no Python."""

import tilesmith as ts

ts.script.from_source(
    """
@T.prim_func
def scale(A: T.Buffer((16,), "float32")):
    for i in range(16)
        A[i] = A[i] * 2.0
"""
)

"""An assertion among the statements of a kernel."""

import tilesmith
from tilesmith.script import tir as T


@T.prim_func
def main(A: T.Buffer((64,), "float32")):
    tx = T.launch_thread("threadIdx.x", 64)
    assert A[tx] > T.float32(0), "positive"
    A[tx] = T.float32(1)


tilesmith.build(main, target="cuda")

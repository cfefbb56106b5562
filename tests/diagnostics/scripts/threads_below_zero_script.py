"""A kernel with fewer threads than none."""

from tilesmith.script import tir as T


@T.prim_func
def main(A: T.Buffer((64,), "float32")):
    tx = T.launch_thread("threadIdx.x", -5)
    A[tx] = T.float32(1)

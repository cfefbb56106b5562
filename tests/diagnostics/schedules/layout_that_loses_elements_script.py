"""A layout in which two elements share a place."""

from tilesmith import tir
from tilesmith.script import tir as T


@T.prim_func
def two_steps(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
    B = T.alloc_buffer((16, 16), "float32")
    for i, j in T.grid(16, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid(16, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1.0


sch = tir.Schedule(two_steps)
sch.transform_layout(sch.get_block("B"), "B", lambda i, j: [i // 2, j])

"""A consumer moved to a place where not all that it reads is there."""

from tilesmith import tir
from tilesmith.script import tir as T


@T.prim_func
def blur(A: T.Buffer((18,), "float32"), C: T.Buffer((16,), "float32")):
    B = T.alloc_buffer((18,), "float32")
    for i in range(18):
        with T.block("B"):
            vi = T.axis.spatial(18, i)
            B[vi] = A[vi] * 2.0
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = B[vi] + B[vi + 1] + B[vi + 2]


sch = tir.Schedule(blur)
(loop,) = sch.get_loops(sch.get_block("B"))
sch.reverse_compute_at(sch.get_block("C"), loop)

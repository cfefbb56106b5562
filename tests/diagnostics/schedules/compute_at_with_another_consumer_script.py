"""A producer moved under one of its two consumers."""

from tilesmith import tir
from tilesmith.script import tir as T


@T.prim_func
def fan_out(
    A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32"), D: T.Buffer((16,), "float32")
):
    B = T.alloc_buffer((16,), "float32")
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] * 2.0
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = B[vi] + 1.0
    for i in range(16):
        with T.block("D"):
            vi = T.axis.spatial(16, i)
            D[vi] = B[vi] - 1.0


sch = tir.Schedule(fan_out)
(loop,) = sch.get_loops(sch.get_block("C"))
sch.compute_at(sch.get_block("B"), loop)

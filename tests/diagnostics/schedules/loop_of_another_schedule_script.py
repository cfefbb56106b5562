"""A loop of another schedule."""

from tilesmith import tir
from tilesmith.script import tir as T


@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
    for i, j in T.grid(16, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)


sch = tir.Schedule(main)
i, j = sch.get_loops(sch.get_block("B"))
tir.Schedule(main).parallel(i)

"""A block whose buffer another block writes too."""

from tilesmith import tir
from tilesmith.script import tir as T


@T.prim_func
def rows(A: T.Buffer((16, 16), "float32"), S: T.Buffer((16,), "float32")):
    for i in range(16):
        with T.block("clear"):
            vi = T.axis.spatial(16, i)
            S[vi] = 0.0
        for j in range(16):
            with T.block("sum"):
                vi, vj = T.axis.remap("SR", [i, j])
                S[vi] = S[vi] + A[vi, vj]


sch = tir.Schedule(rows)
sch.compute_inline(sch.get_block("clear"))

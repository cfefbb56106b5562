"""A loop whose iterations build on each other made parallel."""

from tilesmith import tir
from tilesmith.script import tir as T


@T.prim_func
def running_sum(A: T.Buffer((16,), "float32")):
    for i in range(15):
        with T.block("sum"):
            vi = T.axis.opaque(15, i)
            A[vi + 1] = A[vi + 1] + A[vi]


sch = tir.Schedule(running_sum)
(i,) = sch.get_loops(sch.get_block("sum"))
sch.parallel(i)

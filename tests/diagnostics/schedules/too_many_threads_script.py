"""More threads in a block than the target has."""

import tilesmith
from tilesmith.script import tir as T
from tilesmith.tir import Schedule


@T.prim_func
def main(A: T.Buffer((8192,), "float32"), B: T.Buffer((8192,), "float32")):
    for i in range(8192):
        with T.block("B"):
            v = T.axis.spatial(8192, i)
            B[v] = A[v] * T.float32(2)


sch = Schedule(main)
outer, inner = sch.split(sch.get_loops("B")[0], [None, 512])
sch.bind(outer, "blockIdx.x")
sch.bind(inner, "threadIdx.x")
tilesmith.build(sch.mod, target="opencl -max_threads_per_block=128")

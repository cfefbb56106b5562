"""Two loops of one nest bound to the same threads."""

from tilesmith import tir
from tilesmith.script import tir as T


@T.prim_func
def matmul(
    A: T.Buffer((16, 16), "float32"),
    B: T.Buffer((16, 16), "float32"),
    C: T.Buffer((16, 16), "float32"),
):
    for i, j, k in T.grid(16, 16, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


sch = tir.Schedule(matmul)
i, j, k = sch.get_loops(sch.get_block("C"))
sch.bind(i, "threadIdx.x")
sch.bind(j, "threadIdx.x")

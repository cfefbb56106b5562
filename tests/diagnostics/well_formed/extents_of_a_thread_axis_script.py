"""Two loops of one kernel over the same threads, of different extents."""

from tilesmith.script import tir as T


@T.prim_func
def scale(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    C = T.alloc_buffer((16,), "float32", scope="shared")
    for block in T.thread_binding(1, thread="blockIdx.x"):
        for i in T.thread_binding(16, thread="threadIdx.x"):
            with T.block("copy"):
                vi = T.axis.spatial(16, block * 16 + i)
                C[vi] = A[vi]
        for i in T.thread_binding(8, thread="threadIdx.x"):
            for j in range(2):
                with T.block("scale"):
                    vi = T.axis.spatial(16, block * 16 + i * 2 + j)
                    B[vi] = C[vi] * 2.0

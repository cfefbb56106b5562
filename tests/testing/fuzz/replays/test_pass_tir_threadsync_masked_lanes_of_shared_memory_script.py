"""pass: tir.ThreadSync: then running fails (ExecutionError)

The last block of threads writes one of two elements of shared memory; a vector reads both, and its
mask takes one out. Written after a finding of ``tilesmith fuzz tir``, seeds 9700000 and following.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

ARGUMENTS = [
    [
        {"name": "A", "shape": [3, 4], "dtype": "float32", "low": 0, "high": 5},
        {"name": "B", "shape": [3], "dtype": "float32"},
    ]
]


@T.prim_func
def main(A: T.Buffer((3, 4), "float32"), B: T.Buffer((3,), "float32")):
    T.func_attr({"tir.noalias": True})
    T0 = T.alloc_buffer((3,), "float32")
    for i, k in T.grid(3, 4):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SR", [i, k])
            with T.init():
                T0[v0] = T.float32(0)
            T0[v0] = T0[v0] + A[v0, v1]
    for i in range(3):
        with T.block("B1"):
            v0 = T.axis.spatial(3, i)
            B[v0] = T0[v0] * T.float32(2)


def schedule(sch):
    b = sch.get_block("B0")
    i, k = sch.get_loops(b)
    o, n = sch.split(i, [None, 2])
    sch.bind(n, "threadIdx.y")
    sch.bind(o, "blockIdx.x")
    _, ki = sch.split(k, [None, 2])
    sch.bind(ki, "threadIdx.x")
    c = sch.get_block("B1")
    sch.reverse_compute_at(c, o)
    sch.set_scope(b, 0, "shared")
    sch.vectorize(sch.get_loops(c)[-1])


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", [], device="cuda")

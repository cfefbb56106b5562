"""primitive: ReverseComputeAt: wrong result

Found by ``tilesmith fuzz tir``, seed 5004750.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T1': 1 of 1 elements differ, first at [0]: 2 instead of 3
ARGUMENTS = [[{'name': 'T1', 'shape': [1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(T1: T.Buffer((1,), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T0 = T.alloc_buffer((1, 3), "int32")
    for i1_0, i1_1, i0 in T.grid(2, 2, 1):
        with T.block("B0"):
            v0 = T.axis.spatial(1, i0)
            v1 = T.axis.spatial(3, i1_0 * 2 + i1_1)
            T.where(i1_0 * 2 + i1_1 < 3)
            T.reads()
            T.writes(T0[v0, v1])
            T0[v0, v1] = v1
    for i0, i1 in T.grid(1, 3):
        with T.block("B1"):
            v0, v1 = T.axis.remap("RR", [i0, i1])
            T.reads(T0[v0, 2 - v1])
            T.writes(T1[0])
            with T.init():
                T1[0] = 0
            T1[0] = T1[0] + T0[v0, 2 - v1]


def schedule(sch):
    b0 = sch.get_block("B1", func_name="main")
    (b1,) = sch.get_producers(b0)
    l2, l3, l4 = sch.get_loops(b1)
    sch.reverse_compute_at(b0, l2)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

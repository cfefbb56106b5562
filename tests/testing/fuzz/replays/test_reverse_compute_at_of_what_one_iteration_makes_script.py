"""pass: tir.PlanAndUpdateBufferAllocationLocation: wrong result

Found by ``tilesmith fuzz tir``, seed 1845.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T1': 1 of 1 elements differ, first at [0]: 5 instead of 2
ARGUMENTS = [[{'name': 'A2', 'shape': [3, 2], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T1', 'shape': [1], 'dtype': 'int32'},
  {'name': 'A0', 'shape': [3, 3], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'A1', 'shape': [3, 2], 'dtype': 'int32', 'low': -4, 'high': 5}]]  # fmt: skip


@T.prim_func
def main(
    A2: T.Buffer((3, 2), "int32"),
    T1: T.Buffer((1,), "int32"),
    A0: T.Buffer((3, 3), "int32"),
    A1: T.Buffer((3, 2), "int32"),
):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T0 = T.alloc_buffer((3, 3), "int32")
    for i1_0, i1_1, i0, i2 in T.grid(2, 2, 3, 2):
        with T.block("B0"):
            v0 = T.axis.spatial(3, i0)
            v1 = T.axis.spatial(3, i1_0 * 2 + i1_1)
            v2 = T.axis.reduce(2, i2)
            T.where(i1_0 * 2 + i1_1 < 3)
            T.reads(A1[v0, v2])
            T.writes(T0[v0, v1])
            with T.init():
                T0[v0, v1] = 0
            T0[v0, v1] = T0[v0, v1] + A1[v0, v2]
    for i0, i1 in T.grid(1, 2):
        with T.block("B1"):
            v0, v1 = T.axis.remap("RR", [i0, i1])
            T.reads(A0[0:3, 0], A2[0:3, v1], T0[0, v1 % 3])
            T.writes(T1[0])
            with T.init():
                T1[0] = 0
            T1[0] = T1[0] + T.truncmod(A0[A2[T0[0, v1 % 3] % 3, v1] % 3, 0], 5)


def schedule(sch):
    b0 = sch.get_block("B1", func_name="main")
    (b1,) = sch.get_producers(b0)
    l2, l3, l4, l5 = sch.get_loops(b1)
    sch.reverse_compute_at(b0, l2)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"])

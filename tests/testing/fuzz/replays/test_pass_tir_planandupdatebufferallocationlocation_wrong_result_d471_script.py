"""pass: tir.PlanAndUpdateBufferAllocationLocation: wrong result

Found by ``tilesmith fuzz tir``, seed 7812807.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T1': 6 of 8 elements differ, first at [0, 0, 0]: 1515870810 instead of 5
ARGUMENTS = [[{'name': 'A0', 'shape': [2, 1], 'dtype': 'int32', 'low': 0, 'high': 5},
  {'name': 'T1', 'shape': [2, 2, 2], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A0: T.Buffer((2, 1), "int32"), T1: T.Buffer((2, 2, 2), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1, i2 in T.grid(2, 2, 2):
        with T.block("B1"):
            v0, v1, v2 = T.axis.remap("SSS", [i0, i1, i2])
            T.reads(A0[v1, 0])
            T.writes(T1[v0, v1, v2])
            T1[v0, v1, v2] = A0[v1, 0]


def schedule(sch):
    b0 = sch.get_block("B1", func_name="main")
    sch.transform_block_layout(b0, lambda i0, i1, i2: [i0 * 2 + i1, i2])
    b1 = sch.get_block("B1", func_name="main")
    b2, b3 = sch.cache_index(b1, "global", 0)
    b4 = sch.get_block("B1", func_name="main")
    l5, l6 = sch.get_loops(b4)
    b7 = sch.write_at(l5, b4, 0, "global")


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"])

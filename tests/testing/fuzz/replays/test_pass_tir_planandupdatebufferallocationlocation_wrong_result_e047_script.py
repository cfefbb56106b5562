"""pass: tir.PlanAndUpdateBufferAllocationLocation: wrong result

Found by ``tilesmith fuzz tir``, seed 8113564.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T0': 1 of 2 elements differ, first at [1, 0]: 1515870810 instead of 4
ARGUMENTS = [[{'name': 'A0', 'shape': [1], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [2, 1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A0: T.Buffer((1,), "int32"), T0: T.Buffer((2, 1), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T0_1 = T.alloc_buffer((2, 1), "int32")
    for i0 in range(2):
        for i1 in range(1):
            with T.block("B0_row"):
                v0, v1 = T.axis.remap("SS", [i0, i1])
                T.reads(A0[v1])
                T.writes(T0_1[v0, v1])
                T0_1[v0, v1] = A0[v1]
        for i1 in range(1):
            with T.block("B0"):
                v0 = T.axis.opaque(2, i0)
                v1 = T.axis.spatial(1, i1)
                T.reads(T0_1[0, v1])
                T.writes(T0[v0, v1])
                T0[v0, v1] = T0_1[0, v1]


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    b1 = sch.cache_read(b0, 0, "global")


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"])

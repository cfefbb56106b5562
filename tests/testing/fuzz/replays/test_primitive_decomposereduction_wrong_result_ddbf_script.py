"""primitive: DecomposeReduction: wrong result

Found by ``tilesmith fuzz tir``, seed 2325.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T1': 6 of 8 elements differ, first at [0, 0, 1]: 32 instead of 16
ARGUMENTS = [[{'name': 'A0', 'shape': [2, 2, 2], 'dtype': 'int32', 'low': 0, 'high': 5},
  {'name': 'T1', 'shape': [2, 2, 2], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A0: T.Buffer((2, 2, 2), "int32"), T1: T.Buffer((2, 2, 2), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T0 = T.alloc_buffer((2,), "int32")
    for i0, i1, i2 in T.grid(2, 2, 2):
        with T.block("B0"):
            v0, v1, v2 = T.axis.remap("RRS", [i0, i1, i2])
            T.reads(A0[0, v2, v1])
            T.writes(T0[v2])
            with T.init():
                T0[v2] = 0
            T0[v2] = T0[v2] + A0[0, v2, v1]
    for i0, i1, i2 in T.grid(2, 2, 2):
        with T.block("B1"):
            v0, v1, v2 = T.axis.remap("SSS", [i0, i1, i2])
            T.reads(T0[v0])
            T.writes(T1[v0, v1, v2])
            T1[v0, v1, v2] = T0[v0]


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    (b1,) = sch.get_consumers(b0)
    l2, l3, l4 = sch.get_loops(b1)
    sch.compute_at(b0, l4)
    b5 = sch.get_block("B0", func_name="main")
    l6, l7, l8, l9, l10 = sch.get_loops(b5)
    b11 = sch.decompose_reduction(b5, l6)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

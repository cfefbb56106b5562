"""primitive: WriteAt: wrong result

Found by ``tilesmith fuzz tir``, seed 12.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T0': 1 of 1 elements differ, first at [0, 0, 0]: 1515870816 instead of 6
ARGUMENTS = [[{'name': 'A1', 'shape': [1, 1, 2], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [1, 1, 1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A1: T.Buffer((1, 1, 2), "int32"), T0: T.Buffer((1, 1, 1), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1, i2, i3 in T.grid(1, 1, 1, 2):
        with T.block("B0"):
            v0, v1, v2, v3 = T.axis.remap("SSSR", [i0, i1, i2, i3])
            T.reads(A1[v0, v1, v3])
            T.writes(T0[v0, v1, v2])
            with T.init():
                T0[v0, v1, v2] = 0
            T0[v0, v1, v2] = T0[v0, v1, v2] + A1[v0, v1, v3]


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    l1, l2, l3, l4 = sch.get_loops(b0)
    b5 = sch.decompose_reduction(b0, l3)
    b6 = sch.get_block("B0_update", func_name="main")
    l7, l8, l9, l10 = sch.get_loops(b6)
    b11 = sch.blockize(l9)
    b12 = sch.get_block("B0_update", func_name="main")
    l13, l14 = sch.get_loops(b12)
    b15 = sch.write_at(l13, b12, 0, "global")


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

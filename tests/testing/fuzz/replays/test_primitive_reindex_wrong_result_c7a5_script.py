"""primitive: ReIndex: wrong result

Found by ``tilesmith fuzz tir``, seed 8003243.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T0': 1 of 1 elements differ, first at [0, 0]: 1515870810 instead of 0
ARGUMENTS = [[{'name': 'T0', 'shape': [1, 1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(T0: T.Buffer((1, 1), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1, i2 in T.grid(1, 1, 1):
        with T.block("B0"):
            v0, v1, v2 = T.axis.remap("SSR", [i0, i1, i2])
            T.reads()
            T.writes(T0[v0, v1])
            with T.init():
                T0[v0, v1] = 0
            T0[v0, v1] = T0[v0, v1]


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    l1, l2, l3 = sch.get_loops(b0)
    b4 = sch.decompose_reduction(b0, l1)
    b5 = sch.get_block("B0_update", func_name="main")
    l6, l7, l8 = sch.get_loops(b5)
    b9 = sch.blockize(l8)
    b10 = sch.get_block("B0_update", func_name="main")
    b11 = sch.reindex(b10, ("write", 0))


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

"""primitive: Reorder: wrong result

Found by ``tilesmith fuzz tir``, seed 9604857.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T1': 1 of 3 elements differ, first at [1]: 2 instead of -1
ARGUMENTS = [[{'name': 'A0', 'shape': [2, 3], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T1', 'shape': [3], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A0: T.Buffer((2, 3), "int32"), T1: T.Buffer((3,), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1 in T.grid(2, 3):
        with T.block("B1"):
            v0, v1 = T.axis.remap("RS", [i0, i1])
            T.reads(A0[v0, v1])
            T.writes(T1[v1])
            with T.init():
                T1[v1] = 2147483647
            T1[v1] = T.min(T1[v1], A0[v0, v1])


def schedule(sch):
    b0 = sch.get_block("B1", func_name="main")
    l1, l2 = sch.get_loops(b0)
    l3 = sch.fuse(l1, l2)
    b4 = sch.get_block("B1", func_name="main")
    (l5,) = sch.get_loops(b4)
    l6, l7 = sch.split(l5, [None, 2])
    b8 = sch.get_block("B1", func_name="main")
    l9, l10 = sch.get_loops(b8)
    sch.reorder(l10, l9)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

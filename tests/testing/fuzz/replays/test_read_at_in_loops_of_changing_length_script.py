"""primitive: ReadAt: raises VerifyError in tir/analysis/well_formed.py:fail (the block _
uses the loop variable _ from outside; a block with iterat)

Found by ``tilesmith fuzz tir``, seed 160068.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# VerifyError: the block 'A0_global' uses the loop variable 'i0' from outside; a block with
# iterators sees the loops through them only
#   bind an axis to it: v = T.axis.spatial(extent, i0), and use v
#   in the block 'A0_global'
#   in the function 'main'
#   the program:
#   @T.prim_func
#   File "/work/main/tilesmith/tir/analysis/well_formed.py", line 182, in walk
#     super().walk(node)
ARGUMENTS = [[{'name': 'A0', 'shape': [2, 1, 2], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T1', 'shape': [5], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A0: T.Buffer((2, 1, 2), "int32"), T1: T.Buffer((5,), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T0 = T.alloc_buffer((2, 2), "int32")
    for i0, i1 in T.grid(2, 2):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(A0[0, 0, v0])
            T.writes(T0[v0, v1])
            T0[v0, v1] = A0[0, 0, v0]
    for i0, i1 in T.grid(2, 5):
        with T.block("B1"):
            v0, v1 = T.axis.remap("RS", [i0, i1])
            T.reads(T0[0 : v0 + 1, 0 : v1 % 2 + 1])
            T.writes(T1[v1])
            with T.init():
                T1[v1] = 0
            T1[v1] = T1[v1] + T.truncdiv(T0[v0, 0] - T0[0, v1 % 2], 5)


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    (b1,) = sch.get_consumers(b0)
    l2, l3 = sch.get_loops(b1)
    sch.compute_at(b0, l3)
    b4 = sch.get_block("B1", func_name="main")
    l5, l6 = sch.get_loops(b4)
    l7, l8 = sch.split(l6, [None, 1])
    b9 = sch.get_block("B0", func_name="main")
    l10, l11, l12, l13, l14 = sch.get_loops(b9)
    sch.read_at(l14, b9, 0, "global")


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

"""primitive: WriteAt: raises VerifyError in tir/analysis/well_formed.py:fail (the block _
uses the loop variable _ from outside; a block with iterat)

Found by ``tilesmith fuzz tir``, seed 6001645.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# VerifyError: the block 'T1_shared' uses the loop variable 'i0' from outside; a block with
# iterators sees the loops through them only
#   bind an axis to it: v = T.axis.spatial(extent, i0), and use v
#   in the block 'T1_shared'
#   in the function 'main'
#   the program:
#   @T.prim_func
#   File "/tmp/fz4/tilesmith/tir/analysis/well_formed.py", line 182, in walk
#     super().walk(node)
ARGUMENTS = [[{'value': 1},
  {'name': 'A1', 'shape': [4, 3, 1], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T2', 'shape': [4, 2], 'dtype': 'int32'}],
 [{'value': 1},
  {'name': 'A1', 'shape': [4, 3, 1], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T2', 'shape': [4, 2], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(b: T.int32, A1_handle: T.handle, T2_handle: T.handle):
    T.func_attr({"tir.noalias": True})
    A1 = T.match_buffer(A1_handle, (b + 3, b + 2, 1), "int32")
    T2 = T.match_buffer(T2_handle, (b + 3, 2), "int32")
    # with T.block("root"):
    T0 = T.alloc_buffer((1,), "int32")
    T1 = T.alloc_buffer((b + 3, b + 2), "int32")
    for i0, i1 in T.grid(1, 1):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SR", [i0, i1])
            T.reads(A1[0, 0, 0])
            T.writes(T0[v0])
            with T.init():
                T0[v0] = 2147483647
            T0[v0] = T.min(T0[v0], T.Div(A1[0, 0, 0], 4))
    for i0, i1, i2 in T.grid(b + 3, b + 2, 1):
        with T.block("B1"):
            v0, v1, v2 = T.axis.remap("SSR", [i0, i1, i2])
            T.reads(T0[0])
            T.writes(T1[v0, v1])
            with T.init():
                T1[v0, v1] = 0
            T1[v0, v1] = T1[v0, v1] + T0[0] // 5
    for i0, i1 in T.grid(b + 3, 2):
        with T.block("B2"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(T1[0 : v0 + 1, T.min(0, 1 % (b + 2)) : T.max(1, 1 % (b + 2) + 1)])
            T.writes(T2[v0, v1])
            T2[v0, v1] = T.max(T1[v0, 0], T1[0, 1 % (b + 2)])


def schedule(sch):
    b0 = sch.get_block("B1", func_name="main")
    (b1,) = sch.get_consumers(b0)
    l2, l3 = sch.get_loops(b1)
    sch.compute_at(b0, l3, index=-2)
    b4 = sch.get_block("B1", func_name="main")
    l5, l6, l7, l8 = sch.get_loops(b4)
    sch.write_at(l7, b4, 0, "shared")


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

"""pass: tir.Simplify: raises VerifyError in tir/analysis/well_formed.py:fail

Found by ``tilesmith fuzz tir``, seed 1155.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# tilesmith.support.errors.VerifyError: the loop variable 'i0_0' is used after the end of its
# scope
#   move the use inside, or bind the value again
#   in the function 'main'
#   the program:
#   (...)
#               T1[0] = T.float32(0)
#           T1[0] = T1[0] + T.Cast("float32", T.max(i0_0, T.Cast("int32", A0[i0_0])))
#       for i0_1 in range(3):
#           x = T.int32()
#           T1[0] = T1[0] + T.Cast("float32", T.Let(T.max(i0_0, T.Cast("int32", A0[i0_1 + 2])),
# where={x: i0_1 + 2}))
#           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
# ^^^^^^^^^^^^^^^^^^^
#       T1[0] = T1[0] + T.Cast("float32", T.max(5, T.Cast("int32", A0[5])))
ARGUMENTS = [[{'name': 'A0', 'shape': [6], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'T1', 'shape': [1], 'dtype': 'float32'}]]  # fmt: skip


@T.prim_func
def main(A0: T.Buffer((6,), "float32"), T1: T.Buffer((1,), "float32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0 in range(6):
        with T.block("B1"):
            v0 = T.axis.reduce(6, i0)
            T.reads(A0[v0])
            T.writes(T1[0])
            with T.init():
                T1[0] = T.float32(0)
            x = T.int32()
            T1[0] = T1[0] + T.Cast(
                "float32", T.Let(T.max(x, T.Cast("int32", A0[v0])), where={x: v0})
            )


def schedule(sch):
    b0 = sch.get_block("B1", func_name="main")
    (l1,) = sch.get_loops(b0)
    l2, l3, l4 = sch.loop_partition(l1, [2, 3, None])


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"])

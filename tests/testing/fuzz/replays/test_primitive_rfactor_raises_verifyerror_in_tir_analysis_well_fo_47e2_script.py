"""primitive: RFactor: raises VerifyError in tir/analysis/well_formed.py:fail (the variable _
is used after the end of its scope)

Found by ``tilesmith fuzz tir``, seed 200135.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# VerifyError: the variable 'at' is used after the end of its scope
#   move the use inside, or bind the value again
#   in the function 'main'
#   the program:
#   (...)
#               T.reads(A2[v0, vi2])
#   File "/tmp/fzrun/tilesmith/tir/analysis/variables.py", line 56, in walk
#     self.use(node)
ARGUMENTS = [[{'name': 'A2', 'shape': [1, 1], 'dtype': 'int32', 'low': 0, 'high': 5},
  {'name': 'T0', 'shape': [1, 1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A2: T.Buffer((1, 1), "int32"), T0: T.Buffer((1, 1), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i1_0, i1_1, i0, i2 in T.grid(1, 2, 1, 1):
        at: T.int32 = i0
        with T.block("B0"):
            v0 = T.axis.spatial(1, at)
            v1 = T.axis.spatial(1, i1_0 * 2 + i1_1)
            v2 = T.axis.reduce(1, i2)
            T.where(i1_0 * 2 + i1_1 < 1)
            T.reads(A2[v0, v2])
            T.writes(T0[v0, v1])
            with T.init():
                T0[v0, v1] = 0
            T0[v0, v1] = T0[v0, v1] + A2[v0, v2]


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    l1, l2, l3, l4 = sch.get_loops(b0)
    sch.rfactor(l4, 0)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

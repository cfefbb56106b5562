"""primitive: WriteAt: raises VerifyError in tir/analysis/well_formed.py:fail (the block
iterator _ is used after the end of its scope)

Found by ``tilesmith fuzz tir``, seed 4002048.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# VerifyError: the block iterator 'v0' is used after the end of its scope
#   move the use inside, or bind the value again
#   in the block 'A1_global_global'
#   in the function 'main'
#   the program:
#   (...)
#   File "/tmp/fz2/tilesmith/tir/analysis/variables.py", line 56, in walk
#     self.use(node)
ARGUMENTS = [[{'name': 'A1', 'shape': [2, 2, 1], 'dtype': 'int32', 'low': 0, 'high': 5},
  {'name': 'T0', 'shape': [1, 3], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A1: T.Buffer((2, 2, 1), "int32"), T0: T.Buffer((1, 3), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1 in T.grid(3, 1):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(A1[0:2, 0 : (v0 + 5) // 3, 0])
            T.writes(T0[v1, v0])
            T0[v1, v0] = A1[A1[0, (v0 + 2) // 3 % 2, 0] % 2, 0, 0] % 5


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    l1, l2 = sch.get_loops(b0)
    b3 = sch.read_at(l1, b0, 0, "global")
    b4 = sch.get_block("A1_global", func_name="main")
    (l5,) = sch.get_loops(b4)
    sch.write_at(l5, b4, 0, "global")


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

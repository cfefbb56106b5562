"""primitive: DecomposeReduction: raises VerifyError in tir/analysis/well_formed.py:fail (the
variable _ is used; it is bound nowhere)

Found by ``tilesmith fuzz tir``, seed 200022.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# VerifyError: the variable 'at' is used; it is bound nowhere
#   make it a parameter, or bind it by a loop, an axis or a value
#   in the function 'main'
#   the program:
#   (...)
#       T.func_attr({"tir.noalias": True})
#   File "/tmp/fzrun/tilesmith/tir/analysis/variables.py", line 56, in walk
#     self.use(node)
ARGUMENTS = [[{'name': 'T3', 'shape': [1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(T3: T.Buffer((1,), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1 in T.grid(1, 1):
        at: T.int32 = i0
        with T.block("B3"):
            v0 = T.axis.spatial(1, at)
            v1 = T.axis.reduce(1, i1)
            T.reads()
            T.writes(T3[v0])
            with T.init():
                T3[v0] = 0
            T3[v0] = T3[v0] + T.Div(v1, 4)


def schedule(sch):
    b0 = sch.get_block("B3", func_name="main")
    l1, l2 = sch.get_loops(b0)
    sch.decompose_reduction(b0, l2)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

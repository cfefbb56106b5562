"""pass: tir.VectorizeLoop: raises VerifyError in tir/analysis/well_formed.py:fail (the
variable _ is used; it is bound nowhere)

Found by ``tilesmith fuzz tir``, seed 8106051.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# VerifyError: the variable 'width' is used; it is bound nowhere
#   'width' in sight here is another variable of the same name
#   in the function 'main'
#   the program:
#   (...)
#       T.func_attr({"tir.noalias": True})
#   File "/work/main/tilesmith/tir/analysis/variables.py", line 40, in walk
#     self.use(node)
ARGUMENTS = [[{'name': 'T0_1', 'shape': [2], 'dtype': 'float32', 'low': 0, 'high': 5},
  {'name': 'T1', 'shape': [2], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(T0_1: T.Buffer((2,), "float32"), T1: T.Buffer((2,), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0 in range(2):
        with T.block("B1"):
            v0 = T.axis.spatial(2, i0)
            T.reads(T0_1[v0])
            T.writes(T1[v0])
            B1_kept = T.alloc_buffer((8,), "int32", scope="local")
            width: T.int32 = v0 % 3 + 1
            B1_kept_view = T.decl_buffer((2, width), "int32", data=B1_kept.data)
            B1_kept_view[1, 0] = T.Cast("int32", T0_1[v0]) % -2
            T1[v0] = B1_kept_view[1, 0]


def schedule(sch):
    b0 = sch.get_block("B1", func_name="main")
    (l1,) = sch.get_loops(b0)
    sch.vectorize(l1)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"])

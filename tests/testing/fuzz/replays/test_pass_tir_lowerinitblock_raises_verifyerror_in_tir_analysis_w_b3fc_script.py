"""pass: tir.LowerInitBlock: raises VerifyError in tir/analysis/well_formed.py:fail (the
variable _ is used; it is bound nowhere)

Found by ``tilesmith fuzz tir``, seed 7803333.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# VerifyError: the variable 'v0_o' is used; it is bound nowhere
#   make it a parameter, or bind it by a loop, an axis or a value
#   in the block 'outer_T0_global_B1__init'
#   in the function 'main'
#   the program:
#   (...)
#   File "/work/main/tilesmith/tir/analysis/variables.py", line 40, in walk
#     self.use(node)
ARGUMENTS = [[{'value': 1}, {'name': 'T1', 'shape': [1], 'dtype': 'int32'},
  {'name': 'T0', 'shape': [1, 2, 2], 'dtype': 'int32', 'low': -4, 'high': 5}],
 [{'value': 1}, {'name': 'T1', 'shape': [1], 'dtype': 'int32'},
  {'name': 'T0', 'shape': [1, 2, 2], 'dtype': 'int32', 'low': -4, 'high': 5}]]  # fmt: skip


@T.prim_func
def main(a: T.int32, T1: T.Buffer((1,), "int32"), T0_handle: T.handle):
    T.func_attr({"tir.noalias": True})
    T0 = T.match_buffer(T0_handle, (a, 2, 2), "int32")
    # with T.block("root"):
    for i0, i1, i2 in T.grid(a, 2, 2):
        with T.block("B1"):
            v0, v1, v2 = T.axis.remap("RRR", [i0, i1, i2])
            T.reads(T0[v0, 0, v2])
            T.writes(T1[0])
            with T.init():
                T1[0] = 0
            T1[0] = T1[0] + T0[v0, 0, v2]


def schedule(sch):
    b0 = sch.get_block("B1", func_name="main")
    l1, l2, l3 = sch.get_loops(b0)
    b4 = sch.read_at(l2, b0, 0, "global")
    b5 = sch.get_block("T0_global", func_name="main")
    l6, l7 = sch.get_loops(b5)
    b8 = sch.blockize(l7)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"])

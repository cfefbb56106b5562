"""pass: tir.LowerInitBlock: raises VerifyError in tir/analysis/well_formed.py:fail (the
variable _ is used; it is bound nowhere)

Found by ``tilesmith fuzz tir``, seed 9300426.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# VerifyError: the variable 'at' is used; it is bound nowhere
#   make it a parameter, or bind it by a loop, an axis or a value
#   in the function 'main'
#   the program:
#   (...)
#       A0 = T.match_buffer(A0_handle, (1, b))
#   File "/work/wt/fz/tilesmith/tir/analysis/variables.py", line 40, in walk
#     self.use(node)
ARGUMENTS = [[{'name': 'A0', 'shape': [1, 1], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [1], 'dtype': 'int32'}],
 [{'name': 'A0', 'shape': [1, 1], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A0_handle: T.handle, T0: T.Buffer((1,), "int32")):
    T.func_attr({"tir.noalias": True})
    b = T.int32()
    A0 = T.match_buffer(A0_handle, (1, b))
    # with T.block("root"):
    for i0, i1 in T.grid(1, b):
        at: T.int32 = i0
        with T.block("B0"):
            v0 = T.axis.spatial(1, at)
            v1 = T.axis.reduce(b, i1)
            T.reads(A0[0, v1])
            T.writes(T0[v0])
            with T.init():
                T0[v0] = 0
            T0[v0] = T0[v0] + T.Cast("int32", A0[0, v1])


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    l1, l2 = sch.get_loops(b0)
    l3 = sch.fuse(l1, l2, preserve_unit_iters=False)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"])

"""primitive: ComputeAt: raises VerifyError in tir/analysis/well_formed.py:fail (the variable
_ is used; it is bound nowhere)

Found by ``tilesmith fuzz tir``, seed 4003524.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# VerifyError: the variable 'v1_o' is used; it is bound nowhere
#   make it a parameter, or bind it by a loop, an axis or a value
#   in the function 'main'
#   the program:
#   (...)
#               T.reads()
#   File "/tmp/fz2/tilesmith/tir/analysis/variables.py", line 56, in walk
#     self.use(node)
ARGUMENTS = [[{'name': 'A1', 'shape': [4, 2], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T2', 'shape': [4], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A1: T.Buffer((4, 2), "int32"), T2: T.Buffer((4,), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T0 = T.alloc_buffer((1,), "float32")
    T1 = T.alloc_buffer((4, 3), "int32")
    for i0 in range(1):
        with T.block("B0"):
            v0 = T.axis.spatial(1, i0)
            T.reads()
            T.writes(T0[v0])
            T0[v0] = T.float32(1)
    for i1_0, i1_1, i0, i2 in T.grid(2, 2, 4, 2):
        with T.block("B1"):
            v0 = T.axis.spatial(4, i0)
            v1 = T.axis.spatial(3, i1_0 * 2 + i1_1)
            v2 = T.axis.reduce(2, i2)
            T.where(i1_0 * 2 + i1_1 < 3)
            T.reads(A1[v0, v2])
            T.writes(T1[v0, v1])
            with T.init():
                T1[v0, v1] = 0
            T1[v0, v1] = T1[v0, v1] + A1[v0, v2]
    for i0, i1 in T.grid(4, 3):
        with T.block("B2"):
            v0, v1 = T.axis.remap("SR", [i0, i1])
            T.reads(A1[v0, 0], T1[v0, v1], T0[0])
            T.writes(T2[v0])
            with T.init():
                T2[v0] = -2147483648
            T2[v0] = T.max(
                T2[v0], T.if_then_else(A1[v0, 0] < T1[v0, v1], T.Cast("int32", T0[0]), v0)
            )


def schedule(sch):
    b0 = sch.get_block("B1", func_name="main")
    l1, l2, l3, l4 = sch.get_loops(b0)
    b5 = sch.blockize(l2, preserve_unit_iters=False)
    b6 = sch.get_block("B1_o", func_name="main")
    (b7,) = sch.get_consumers(b6)
    l8, l9 = sch.get_loops(b7)
    sch.compute_at(b6, l8, preserve_unit_loops=True, index=0)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

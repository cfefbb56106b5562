"""pass: tir.PlanAndUpdateBufferAllocationLocation: raises VerifyError in
tir/analysis/well_formed.py:fail (the buffer _ is used outside of the block _ that
allocates it)

Found by ``tilesmith fuzz tir``, seed 20261831.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# VerifyError: the buffer 'T0_global' is used outside of the block 'T0_global' that allocates it
#   allocate it in a block around both uses
#   in the block 'B2_update'
#   in the function 'main'
#   the program:
#   (...)
#   File "/work/main/tilesmith/tir/analysis/variables.py", line 40, in walk
#     self.use(node)
ARGUMENTS = [[{'name': 'A0', 'shape': [1, 1], 'dtype': 'int32', 'low': 0, 'high': 5},
  {'name': 'T1', 'shape': [1, 2, 1], 'dtype': 'int32'},
  {'name': 'T2', 'shape': [1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(
    A0: T.Buffer((1, 1), "int32"), T1: T.Buffer((1, 2, 1), "int32"), T2: T.Buffer((1,), "int32")
):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T0 = T.alloc_buffer((1, 1), "int32")
    for i0, i1 in T.grid(1, 1):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(A0[v0, v1])
            T.writes(T0[v0, v1])
            T0[v0, v1] = A0[v0, v1] // 8
    for i0, i1, i2 in T.grid(1, 2, 1):
        with T.block("B1"):
            v0, v1, v2 = T.axis.remap("SSS", [i0, i1, i2])
            T.reads(A0[0, 0])
            T.writes(T1[v0, v1, v2])
            T1[v0, v1, v2] = T.truncmod(T.Div(A0[0, 0] // 4, 8), 4)
    for i0, i1 in T.grid(1, 1):
        with T.block("B2"):
            v0, v1 = T.axis.remap("SR", [i0, i1])
            T.reads(T0[0, 0])
            T.writes(T2[v0])
            with T.init():
                T2[v0] = T0[0, 0]
            T2[v0] = T2[v0] + v1 % 4


def schedule(sch):
    b0 = sch.get_block("B2", func_name="main")
    l1, l2 = sch.get_loops(b0)
    b3 = sch.decompose_reduction(b0, l1)
    b4 = sch.get_block("B2_init", func_name="main")
    b5 = sch.get_block("B2_update", func_name="main")
    b6 = sch.cache_read(b4, 0, "global", consumer_blocks=[b5])


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"])

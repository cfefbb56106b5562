"""pass: tir.PlanAndUpdateBufferAllocationLocation: raises VerifyError in
tir/analysis/well_formed.py:fail (the buffer _ is used outside of the block _ that
allocates it)

Found by ``tilesmith fuzz tir``, seed 95.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# VerifyError: the buffer 'T1_global' is used outside of the block 'T1_global' that allocates it
#   allocate it in a block around both uses
#   in the block 'B2'
#   in the function 'main'
#   the program:
#   (...)
#   File "/work/wt/fuzzdraws/tilesmith/tir/analysis/variables.py", line 40, in walk
#     self.use(node)
ARGUMENTS = [[{'name': 'T1', 'shape': [1, 1], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T2', 'shape': [1, 1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(T1: T.Buffer((1, 1), "int32"), T2: T.Buffer((1, 1), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1 in T.grid(1, 1):
        with T.block("B2"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(T1[v1, v0])
            T.writes(T2[v0, v1])
            B2_T1 = T.decl_buffer((1, 1), "int32", data=T1.data)
            T2[v0, v1] = B2_T1[v1, v0]


def schedule(sch):
    b0 = sch.get_block("B2", func_name="main")
    b1 = sch.cache_read(b0, 0, "global")


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"])

"""pass: tir.PlanAndUpdateBufferAllocationLocation: raises VerifyError in
tir/analysis/well_formed.py:fail (the buffer _ is used outside of the block _ that
allocates it)

Found by ``tilesmith fuzz tir``, seed 8406159.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# VerifyError: the buffer 'T0' is used outside of the block '' that allocates it
#   allocate it in a block around both uses
#   in the block 'B1'
#   in the function 'main'
#   the program:
#   (...)
#   File "/work/wt/old/tilesmith/tir/analysis/variables.py", line 40, in walk
#     self.use(node)
ARGUMENTS = [[{'name': 'A1',
   'shape': [1, 1],
   'dtype': 'float32',
   'low': 0,
   'high': 500,
   'distinct': True},
  {'name': 'T0_1', 'shape': [1], 'dtype': 'float32'},
  {'name': 'T1', 'shape': [1], 'dtype': 'float32'}]]  # fmt: skip


@T.prim_func
def main(
    A1: T.Buffer((1, 1), "float32"), T0_1: T.Buffer((1,), "float32"), T1: T.Buffer((1,), "float32")
):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T0 = T.alloc_buffer((1,), "int32")
    for i0, i1 in T.grid(1, 1):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SR", [i0, i1])
            T.reads(A1[v0, v1])
            T.writes(T0[v0], T0_1[v0])
            with T.init():
                T0[v0] = -1
                T0_1[v0] = T.float32(-340282346638528859811704183484516925440.0)
            v_number: T.int32 = T.Select(T0_1[v0] >= A1[v0, v1], T0[v0], v1)
            v_best: T.float32 = T.Select(T0_1[v0] >= A1[v0, v1], T0_1[v0], A1[v0, v1])
            T0[v0] = v_number
            T0_1[v0] = v_best
    for i0 in range(1):
        with T.block("B1"):
            v0 = T.axis.spatial(1, i0)
            T.reads(T0[v0], A1[0, 0])
            T.writes(T1[v0])
            T1[v0] = T.if_then_else(
                not T0[v0] > T0[v0],
                T.max(T.min(A1[0, 0], T.float32(20.0)), T.float32(-9.0)),
                T.float32(-2.0),
            )


def schedule(sch):
    b0 = sch.get_block("B1", func_name="main")
    (l1,) = sch.get_loops(b0)
    b2 = sch.decompose_padding(b0, l1)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"])

"""pass: tir.PlanAndUpdateBufferAllocationLocation: raises VerifyError in
tir/analysis/well_formed.py:fail (the buffer _ is neither a parameter nor allocated here)

Found by ``tilesmith fuzz tir``, seed 7809486.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# VerifyError: the buffer 'T1' is neither a parameter nor allocated here
#   make it a parameter, or allocate it: T.alloc_buffer(shape, dtype)
#   in the block 'B2_init'
#   in the function 'main'
#   the program:
#   (...)
#   File "/work/main/tilesmith/tir/analysis/variables.py", line 40, in walk
#     self.use(node)
ARGUMENTS = [[{'name': 'A1', 'shape': [1, 1], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [1, 1], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'T2', 'shape': [1], 'dtype': 'int32'}],
 [{'name': 'A1', 'shape': [1, 1], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [1, 1], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'T2', 'shape': [1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A1_handle: T.handle, T0_handle: T.handle, T2: T.Buffer((1,), "int32")):
    T.func_attr({"tir.noalias": True})
    b = T.int32()
    A1 = T.match_buffer(A1_handle, (b, 1), "int32")
    T0 = T.match_buffer(T0_handle, (b, 1))
    # with T.block("root"):
    T1 = T.alloc_buffer((1,))
    for i0, i1 in T.grid(b, 1):
        with T.block("B1"):
            v0, v1 = T.axis.remap("RS", [i0, i1])
            T.reads(T0[v0, v1])
            T.writes(T1[v1])
            with T.init():
                T1[v1] = T.float32(-340282346638528859811704183484516925440.0)
            T1[v1] = T.max(T1[v1], T0[v0, v1])
    for i0, i1 in T.grid(b, 1):
        with T.block("B2"):
            v0, v1 = T.axis.remap("RS", [i0, i1])
            T.reads(A1[0, 0], T1[v1])
            T.writes(T2[v1])
            with T.init():
                T2[v1] = A1[0, 0]
            T2[v1] = T2[v1] + T.Cast("int32", T1[v1])


def schedule(sch):
    b0 = sch.get_block("B1", func_name="main")
    b1 = sch.get_block("B2", func_name="main")
    l2, l3 = sch.get_loops(b1)
    sch.compute_at(b0, l2)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"])

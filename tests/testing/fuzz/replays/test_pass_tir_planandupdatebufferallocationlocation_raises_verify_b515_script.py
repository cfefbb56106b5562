"""pass: tir.PlanAndUpdateBufferAllocationLocation: raises VerifyError in
tir/analysis/well_formed.py:fail

Found by ``tilesmith fuzz tir``, seed 40221.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

#   (...)
#       T0_1: T.Buffer((1,), "float32"),
#   ):
#       T.func_attr({"tir.noalias": True})
#       # with T.block("root"):
#       with T.block("outer_B0_T0_1_global_"):
#            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
#           v0_o = T.axis.spatial(1, 0)
#           v0_o_1 = T.axis.spatial(1, 0)
#           T.reads(A1[v0_o, 0:2], T0_1_global[v0_o_1])
#           T.writes(T0[v0_o], T0_1_global[v0_o], T0_1[v0_o_1])
#   (...)
ARGUMENTS = [[{'name': 'A1',
   'shape': [1, 2],
   'dtype': 'float32',
   'low': 0,
   'high': 500,
   'distinct': True},
  {'name': 'T0', 'shape': [1], 'dtype': 'int32'},
  {'name': 'T0_1', 'shape': [1], 'dtype': 'float32'}]]  # fmt: skip


@T.prim_func
def main(
    A1: T.Buffer((1, 2), "float32"),
    T0: T.Buffer((1,), "int32"),
    T0_1: T.Buffer((1,), "float32"),
):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1 in T.grid(1, 2):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SR", [i0, i1])
            T.reads(A1[v0, v1])
            T.writes(T0[v0], T0_1[v0])
            with T.init():
                T0[v0] = -1
                T0_1[v0] = T.float32(-3.4028234663852886e38)
            v_number: T.int32 = T.Select(T0_1[v0] >= A1[v0, v1], T0[v0], v1)
            v_best: T.float32 = T.Select(T0_1[v0] >= A1[v0, v1], T0_1[v0], A1[v0, v1])
            T0[v0] = v_number
            T0_1[v0] = v_best


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    l1, l2 = sch.get_loops(b0)
    b3 = sch.write_at(l1, b0, 1, "global")
    b4 = sch.get_block("T0_1_global", func_name="main")
    (l5,) = sch.get_loops(b4)
    b6 = sch.blockize(l5, preserve_unit_iters=False)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"])

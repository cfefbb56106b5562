"""primitive: RFactor: raises TypeMismatchError in ir/expr.py:__init__

Found by ``tilesmith fuzz tir``, seed 8503189.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# TypeMismatchError: GE needs operands of one dtype, got float32 and float64
#   <tilesmith.ir.expr.GE.map_children>:5:12
#           return cls(a, b)
#                  ^^^^^^^^^
#   File "/work/wt/old/tilesmith/ir/visitor.py", line 38, in visit
#     result: Result = method(self, node)
#                      ^^^^^^^^^^^^^^^^^^
#   File "/work/wt/old/tilesmith/ir/visitor.py", line 92, in visit_default
ARGUMENTS = [[{'name': 'A2',
   'shape': [1],
   'dtype': 'float32',
   'low': 0,
   'high': 500,
   'distinct': True},
  {'name': 'T0', 'shape': [1], 'dtype': 'int32'},
  {'name': 'T1', 'shape': [1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A2: T.Buffer((1,), "float32"), T0: T.Buffer((1,), "int32"), T1: T.Buffer((1,), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T0_1 = T.alloc_buffer((1,))
    for i0 in range(1):
        with T.block("B0"):
            v0 = T.axis.reduce(1, i0)
            T.reads(A2[v0])
            T.writes(T0[0], T0_1[0])
            with T.init():
                T0[0] = -1
                T0_1[0] = T.float32(-340282346638528859811704183484516925440.0)
            v_number: T.int32 = T.Select(T0_1[0] >= A2[v0], T0[0], v0)
            v_best: T.float32 = T.Select(T0_1[0] >= A2[v0], T0_1[0], A2[v0])
            T0[0] = v_number
            T0_1[0] = v_best
    for i0 in range(1):
        with T.block("B1"):
            v0 = T.axis.spatial(1, i0)
            T.reads(T0_1[v0])
            T.writes(T1[v0])
            T1[v0] = T.Cast("int32", T0_1[v0])


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    sch.unsafe_set_dtype(b0, 1, "float64")
    b1 = sch.get_block("B0", func_name="main")
    (l2,) = sch.get_loops(b1)
    sch.rfactor(l2, 1)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

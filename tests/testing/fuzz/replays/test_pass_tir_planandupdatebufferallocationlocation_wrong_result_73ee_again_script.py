"""pass: tir.PlanAndUpdateBufferAllocationLocation: wrong result

Found by ``tilesmith fuzz tir``, seed 8005601.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T1': 1 of 4 elements differ, first at [0, 1]: 2.0 instead of 1.0; at most 8.38861e+06
# ULP, allowed 0
ARGUMENTS = [[{'name': 'A0', 'shape': [2, 2], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T1', 'shape': [2, 2], 'dtype': 'float32'}]]  # fmt: skip


@T.prim_func
def main(A0: T.Buffer((2, 2), "int32"), T1: T.Buffer((2, 2), "float32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T0 = T.alloc_buffer((2, 2), "int32")
    for i0, i1 in T.grid(2, 2):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(A0[T.min(v0, v1) : T.max(v0, v1) + 1, v1])
            T.writes(T0[v0, v1])
            if 0 >= A0[v0, v1]:
                T0[v0, v1] = T.truncmod(A0[v1, v1], 8)
            else:
                T0[v0, v1] = A0[v0, v1]
    for i0, i1 in T.grid(2, 2):
        with T.block("B1"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(T0[0 : v0 + 1, 0 : v1 + 1], A0[v1, v0])
            T.writes(T1[v1, v0])
            T1[v1, v0] = T.min(
                T.min(T.Cast("float32", T0[0, 0]), T.Cast("float32", A0[v1, v0])),
                T.Min(T.Cast("float32", T0[v0, v1]), T.Cast("float32", T0[v0, v1])),
            )


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    l1, l2 = sch.get_loops(b0)
    b3 = sch.write_at(l2, b0, 0, "global")


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"])

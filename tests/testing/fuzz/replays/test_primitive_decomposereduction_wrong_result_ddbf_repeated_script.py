"""primitive: DecomposeReduction: wrong result

Found by ``tilesmith fuzz tir``, seed 5004021.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T1': 5 of 5 elements differ, first at [0]: -22 instead of -11
ARGUMENTS = [[{'name': 'T1', 'shape': [5], 'dtype': 'int32'},
  {'name': 'A1', 'shape': [2, 5], 'dtype': 'int32', 'low': -4, 'high': 5}]]  # fmt: skip


@T.prim_func
def main(T1: T.Buffer((5,), "int32"), A1: T.Buffer((2, 5), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T0 = T.alloc_buffer((2, 5), "int32")
    for i0, i1, i2 in T.grid(2, 5, 5):
        with T.block("B0"):
            v0, v1, v2 = T.axis.remap("SSR", [i0, i1, i2])
            T.reads(A1[v0, v2])
            T.writes(T0[v0, v1])
            with T.init():
                T0[v0, v1] = 0
            T0[v0, v1] = T0[v0, v1] + A1[v0, v2]
    for i0, i1 in T.grid(5, 5):
        with T.block("B1"):
            v0, v1 = T.axis.remap("SR", [i0, i1])
            T.reads(T0[v1 // 3 % 2, v0])
            T.writes(T1[v0])
            with T.init():
                T1[v0] = 2147483647
            T1[v0] = T.min(T1[v0], T0[v1 // 3 % 2, v0])


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    (b1,) = sch.get_consumers(b0)
    l2, l3 = sch.get_loops(b1)
    sch.compute_at(b0, l3)
    b4 = sch.get_block("B0", func_name="main")
    l5, l6, l7 = sch.get_loops(b4)
    b8 = sch.decompose_reduction(b4, l5)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

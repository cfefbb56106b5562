"""pass: tir.PlanAndUpdateBufferAllocationLocation: wrong result

Found by ``tilesmith fuzz tir``, seed 9605135.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T3': 1 of 2 elements differ, first at [1, 0]: 1515870810 instead of 3
ARGUMENTS = [[{'name': 'T2', 'shape': [1, 2], 'dtype': 'int32'},
  {'name': 'T3', 'shape': [2, 1], 'dtype': 'int32'},
  {'name': 'A1', 'shape': [1, 3], 'dtype': 'bool', 'low': 0, 'high': 1},
  {'name': 'T0', 'shape': [3, 1], 'dtype': 'bool'}]]  # fmt: skip


@T.prim_func
def main(
    T2: T.Buffer((1, 2), "int32"),
    T3: T.Buffer((2, 1), "int32"),
    A1: T.Buffer((1, 3), "bool"),
    T0: T.Buffer((3, 1), "bool"),
):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T1 = T.alloc_buffer((3, 2), "int32")
    T3_1 = T.alloc_buffer((2, 1), "int32")
    for i0, i1 in T.grid(1, 3):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(A1[v0, v1])
            T.writes(T0[v1, v0])
            T0[v1, v0] = A1[v0, v1]
    for i0, i1 in T.grid(3, 2):
        with T.block("B1"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads()
            T.writes(T1[v0, v1])
            T1[v0, v1] = v1
    for i0, i1, i2 in T.grid(1, 2, 3):
        with T.block("B2"):
            v0, v1, v2 = T.axis.remap("SSR", [i0, i1, i2])
            T.reads(T1[0, v1])
            T.writes(T2[v0, v1])
            with T.init():
                T2[v0, v1] = -2147483648
            T2[v0, v1] = T.max(T2[v0, v1], T1[0, v1])
    for i0 in range(2):
        for i1 in range(1):
            with T.block("B3_row"):
                v0, v1 = T.axis.remap("SS", [i0, i1])
                T.reads()
                T.writes(T3_1[v0, v1])
                T3_1[v0, v1] = 3
        for i1 in range(1):
            with T.block("B3"):
                v0 = T.axis.opaque(2, i0)
                v1 = T.axis.spatial(1, i1)
                T.reads(T3_1[0, v1])
                T.writes(T3[v0, v1])
                T3[v0, v1] = T3_1[0, v1]


def schedule(sch):
    b0 = sch.get_block("B3_row", func_name="main")
    b1 = sch.get_block("B3", func_name="main")
    b2 = sch.blockize([b0, b1])


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"])

"""primitive: ComputeAt: wrong result

Found by ``tilesmith fuzz tir``, seed 226.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T1': 2 of 2 elements differ, first at [0, 0, 0]: 6 instead of 4
ARGUMENTS = [[{'name': 'A1', 'shape': [1, 2, 2], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T1', 'shape': [1, 2, 1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A1: T.Buffer((1, 2, 2), "int32"), T1: T.Buffer((1, 2, 1), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T0 = T.alloc_buffer((1, 2, 1), "int32")
    for i0, i1, i2 in T.grid(1, 2, 1):
        for i3 in range(T.min(i1 + 1, 2)):
            with T.block("B0"):
                v0, v1, v2 = T.axis.remap("SSS", [i0, i1, i2])
                v3 = T.axis.reduce(2, i3)
                T.reads(A1[v0, v1, v3])
                T.writes(T0[v0, v1, v2])
                with T.init():
                    T0[v0, v1, v2] = 0
                T0[v0, v1, v2] = T0[v0, v1, v2] + A1[v0, v1, v3]
    for i0, i1, i2 in T.grid(1, 2, 1):
        with T.block("B1"):
            v0, v1, v2 = T.axis.remap("SSS", [i0, i1, i2])
            T.reads(T0[v0, 0, v2])
            T.writes(T1[v0, v1, v2])
            T1[v0, v1, v2] = T.truncmod(T0[v0, 0, v2], 7)


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    (b1,) = sch.get_consumers(b0)
    l2, l3, l4 = sch.get_loops(b1)
    sch.compute_at(b0, l2)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

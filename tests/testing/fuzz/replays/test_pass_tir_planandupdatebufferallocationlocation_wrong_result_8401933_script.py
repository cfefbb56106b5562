"""pass: tir.PlanAndUpdateBufferAllocationLocation: wrong result

Found by ``tilesmith fuzz tir``, seed 8401933.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T0': 25 of 30 elements differ, first at [0, 0, 0]: 1515870810 instead of 1
ARGUMENTS = [[{'name': 'A1', 'shape': [1, 1, 4], 'dtype': 'int32', 'low': 0, 'high': 5},
  {'name': 'T0', 'shape': [3, 2, 5], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A1: T.Buffer((1, 1, 4), "int32"), T0: T.Buffer((3, 2, 5), "int32")):
    T.func_attr({"tir.noalias": True})
    with T.block("root"):
        T.reads()
        T.writes()
        with T.block("B0"):
            T.reads(A1[0, 0, 0:4])
            T.writes(T0[0:3, 0:2, 0:5])
            for j0, j1, j2 in T.grid(3, 2, 5):
                with T.block("B0_inner"):
                    v0, v1, v2 = T.axis.remap("SSS", [j0, j1, j2])
                    T.reads(A1[0, 0, 0:4])
                    T.writes(T0[0:3, 0:2, 0:5])
                    B0_A1 = T.match_buffer(
                        A1[0, 0, 0:4],
                        (1, 1, 4),
                        "int32",
                        strides=("B0_A1_s0", "B0_A1_s1", "B0_A1_s2"),
                        offset_factor=1,
                    )
                    B0_T0 = T.match_buffer(
                        T0[0:3, 0:2, 0:5],
                        (3, 2, 5),
                        "int32",
                        strides=("B0_T0_s0", "B0_T0_s1", "B0_T0_s2"),
                        offset_factor=1,
                    )
                    B0_T0[v0, v1, v2] = T.if_then_else(1 <= v0 and v0 < 1, B0_A1[0, 0, v2], 1)


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    b1 = sch.cache_read(b0, 0, "shared")
    b2 = sch.get_block("B0_inner", func_name="main")
    l3, l4, l5 = sch.get_loops(b2)
    b6 = sch.write_at(l4, b2, 0, "local")


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"])

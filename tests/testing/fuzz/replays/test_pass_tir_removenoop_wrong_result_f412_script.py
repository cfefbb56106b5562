"""pass: tir.RemoveNoOp: wrong result

Found by ``tilesmith fuzz tir``, seed 9501388.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T3': 2 of 2 elements differ, first at [0, 0]: 1515870810 instead of 3
ARGUMENTS = [[{'name': 'A0', 'shape': [1], 'dtype': 'int32', 'low': 0, 'high': 5},
  {'name': 'A2', 'shape': [1, 2], 'dtype': 'int32', 'low': 0, 'high': 5},
  {'name': 'T2', 'shape': [1, 2], 'dtype': 'int32'},
  {'name': 'T3', 'shape': [1, 2], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(
    A0: T.Buffer((1,), "int32"),
    A2: T.Buffer((1, 2), "int32"),
    T2: T.Buffer((1, 2), "int32"),
    T3: T.Buffer((1, 2), "int32"),
):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T0 = T.alloc_buffer((3, 2))
    T1 = T.alloc_buffer((1, 2))
    for i0, i1 in T.grid(3, 2):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(A0[0])
            T.writes(T0[v0, v1])
            T0[v0, v1] = T.Cast("float32", A0[0])
    for i0, i1, i2 in T.grid(1, 2, 3):
        with T.block("B1"):
            v0, v1, v2 = T.axis.remap("SSR", [i0, i1, i2])
            T.reads(T0[0, v1])
            T.writes(T1[v0, v1])
            with T.init():
                T1[v0, v1] = T.float32(-340282346638528859811704183484516925440.0)
            T1[v0, v1] = T.max(T1[v0, v1], T0[0, v1])
    for i0, i1 in T.grid(1, 2):
        with T.block("B2"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(T1[0, v1])
            T.writes(T2[v0, v1])
            T2[v0, v1] = T.min(
                T.Cast("int32", T1[0, v1]), T.truncmod(T.Cast("int32", T1[v0, v1]), 2)
            )
    for i1_0, i1_1, i0, i2 in T.grid(1, 4, 1, 1):
        with T.block("B3"):
            v0 = T.axis.spatial(1, i0)
            v1 = T.axis.spatial(2, i1_0 * 4 + i1_1)
            v2 = T.axis.reduce(1, i2)
            T.where(i1_0 * 4 + i1_1 < 2)
            T.reads(A2[v2, v1])
            T.writes(T3[v0, v1])
            with T.init():
                T3[v0, v1] = 0
            T3[v0, v1] = T3[v0, v1] + A2[v2, v1]


def schedule(sch):
    b0 = sch.get_block("B3", func_name="main")
    l1, l2, l3, l4 = sch.get_loops(b0)
    b5 = sch.cache_read(b0, 0, "shared")
    sch.compute_at(b5, l2)
    sch.annotate(l2, "software_pipeline_async_stages", [0])
    sch.annotate(l2, "software_pipeline_stage", [0, 2])
    sch.annotate(l2, "software_pipeline_order", [0, 1])


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"])

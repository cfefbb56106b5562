"""pass: tir.InjectSoftwarePipeline: wrong result

Found by ``tilesmith fuzz tir``, seed 7817526.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T0': 3 of 3 elements differ, first at [0]: 1515870810 instead of 5
ARGUMENTS = [[{'name': 'A1', 'shape': [1, 2], 'dtype': 'int32', 'low': 0, 'high': 5},
  {'name': 'T0', 'shape': [3], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A1: T.Buffer((1, 2), "int32"), T0: T.Buffer((3,), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1 in T.grid(2, 3):
        with T.block("B0"):
            v0, v1 = T.axis.remap("RS", [i0, i1])
            T.reads(A1[0, v0])
            T.writes(T0[v1])
            with T.init():
                T0[v1] = -2147483648
            T0[v1] = T.max(T0[v1], A1[0, v0])


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    l1, l2 = sch.get_loops(b0)
    b3 = sch.cache_read(b0, 0, "local")
    sch.compute_at(b3, l1)
    b4 = sch.cache_read(b0, 0, "global")
    sch.annotate(l1, "software_pipeline_async_stages", [0])
    sch.annotate(l1, "software_pipeline_stage", [0, 1, 1])
    sch.annotate(l1, "software_pipeline_order", [0, 1, 2])
    b5 = sch.get_block("A1_local_global", func_name="main")
    l6, l7, l8 = sch.get_loops(b5)
    sch.bind(l7, "vthread.x")


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"])

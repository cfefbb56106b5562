"""pass: tir.InjectSoftwarePipeline: wrong result

Found by ``tilesmith fuzz tir``, seed 7402458.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T0': 1 of 1 elements differ, first at [0, 0]: nan instead of 4.0; at most inf ULP,
# allowed 0
ARGUMENTS = [[{'name': 'A0', 'shape': [1, 1], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [1, 1], 'dtype': 'float32'}]]  # fmt: skip


@T.prim_func
def main(A0: T.Buffer((1, 1), "float32"), T0: T.Buffer((1, 1), "float32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1 in T.grid(1, 1):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(A0[v0, v1])
            T.writes(T0[v0, v1])
            T0[v0, v1] = A0[v0, v1]


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    l1, l2 = sch.get_loops(b0)
    b3 = sch.cache_read(b0, 0, "local")
    sch.compute_at(b3, l1)
    b4 = sch.cache_read(b0, 0, "global")
    sch.annotate(l1, "software_pipeline_async_stages", [0])
    sch.annotate(l1, "software_pipeline_stage", [0, 0, 1])
    sch.annotate(l1, "software_pipeline_order", [0, 1, 2])
    b5 = sch.get_block("A0_local_global", func_name="main")
    l6, l7, l8 = sch.get_loops(b5)
    sch.bind(l7, "vthread.x")


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"])

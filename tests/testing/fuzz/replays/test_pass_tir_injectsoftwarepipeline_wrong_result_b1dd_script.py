"""pass: tir.InjectSoftwarePipeline: wrong result

Found by ``tilesmith fuzz tir``, seed 9102692.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T0': 1 of 1 elements differ, first at [0, 0, 0]: nan instead of 4.0; at most inf ULP,
# allowed 0
ARGUMENTS = [[{'name': 'A0', 'shape': [4], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [1, 1, 1], 'dtype': 'float32'}]]  # fmt: skip


@T.prim_func
def main(A0: T.Buffer((4,), "float32"), T0: T.Buffer((1, 1, 1), "float32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1, i2 in T.grid(1, 1, 1):
        with T.block("B0"):
            v0, v1, v2 = T.axis.remap("SSS", [i0, i1, i2])
            T.reads(A0[0:2])
            T.writes(T0[v0, v1, v2])
            T0[v0, v1, v2] = T.Select(A0[0] <= A0[1], A0[0], A0[0])


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    l1, l2, l3 = sch.get_loops(b0)
    b4 = sch.cache_read(b0, 0, "local")
    sch.compute_at(b4, l1)
    sch.annotate(l1, "software_pipeline_async_stages", [0])
    sch.annotate(l1, "software_pipeline_stage", [0, 1])
    sch.annotate(l1, "software_pipeline_order", [0, 1])
    b5 = sch.get_block("A0_local", func_name="main")
    l6, l7 = sch.get_loops(b5)
    b8 = sch.cache_read(b5, 0, "shared")
    sch.compute_at(b8, l7)
    (b9,) = sch.get_producers(b5)
    sch.annotate(b9, "double_buffer_scope", 0)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"])

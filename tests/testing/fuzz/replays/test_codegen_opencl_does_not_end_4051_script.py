"""codegen: opencl: does not end

Found by ``tilesmith fuzz tir --field gpu``, seed 4051: PoCL copies everything behind each barrier
that stands in a branch, so that its compiler did not end. These barriers stand outside now.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

ARGUMENTS = [[{'value': 3},
  {'name': 'A1', 'shape': [5, 17], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'A2', 'shape': [17, 17], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [5, 17], 'dtype': 'float32'}]]  # fmt: skip


@T.prim_func
def main(b: T.int64, A1_handle: T.handle, A2_handle: T.handle, T0_handle: T.handle):
    T.func_attr({"tir.noalias": True})
    d = T.int64()
    A1 = T.match_buffer(A1_handle, (T.int64(5), d))
    A2 = T.match_buffer(A2_handle, (d, d))
    T0 = T.match_buffer(T0_handle, (T.int64(5), d))
    # with T.block("root"):
    for i0, i1, i2 in T.grid(T.int64(5), d, d):
        with T.block("B0"):
            v0, v1, v2 = T.axis.remap("SSR", [i0, i1, i2])
            T.reads(A1[v0, v2], A2[v1, v2])
            T.writes(T0[v0, v1])
            with T.init():
                T0[v0, v1] = T.float32(0.0)
            T0[v0, v1] = T0[v0, v1] + A1[v0, v2] * A2[v1, v2]


def schedule(sch):
    b0 = sch.get_block("root", func_name="main")
    (b1,) = sch.get_child_blocks(b0)
    b2 = sch.cache_write(b1, 0, "local")
    l3, l4, l5 = sch.get_loops(b1)
    l6, l7, l8 = sch.get_loops(b1)
    l9, l10, l11, l12 = sch.split(l3, [None, 1, 4, 1])
    l13, l14, l15, l16 = sch.split(l4, [None, 1, 4, 4])
    l17, l18 = sch.split(l8, [None, 8])
    sch.reorder(l9, l13, l10, l14, l11, l15, l17, l18, l12, l16)
    sch.bind(l9, "blockIdx.y")
    sch.bind(l13, "blockIdx.x")
    sch.bind(l10, "vthread.y")
    sch.bind(l14, "vthread.x")
    l19 = sch.fuse(l11, l15)
    sch.bind(l19, "threadIdx.x")
    sch.reverse_compute_at(b2, l19)
    b20 = sch.cache_read(b1, 0, "shared.dyn")
    sch.compute_at(b20, l17)
    sch.storage_align(b20, 0, 0, 32, 2)
    l21, l22, l23, l24, l25, l26, l27, l28 = sch.get_loops(b20)
    l29 = sch.fuse(l27, l28)
    l30, l31 = sch.split(l29, [None, 16])
    sch.bind(l31, "threadIdx.x")
    b32 = sch.decompose_reduction(b1, l17)
    sch.annotate(l17, "software_pipeline_async_stages", [0])
    sch.annotate(l17, "software_pipeline_stage", [0, 3])
    sch.annotate(l17, "software_pipeline_order", [1, 0])


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "codegen", ["llvm"], device="cuda")

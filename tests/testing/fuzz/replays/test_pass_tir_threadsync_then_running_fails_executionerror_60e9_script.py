"""pass: tir.ThreadSync: then running fails (ExecutionError)

Found by ``tilesmith fuzz tir``, seed 61753.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# race: thread (blockIdx.y=0, blockIdx.x=0, threadIdx.y=0, threadIdx.x=1) writes A2_shared[0]
# (scope shared), thread (blockIdx.y=0, blockIdx.x=0, threadIdx.y=0, threadIdx.x=0) writes it, and
# no barrier stands between
#   put T.tvm_storage_sync("shared") between the two, or run ThreadSync
ARGUMENTS = [[{'name': 'A2', 'shape': [16, 3], 'dtype': 'uint16', 'low': 0, 'high': 5},
  {'name': 'T0', 'shape': [16, 32], 'dtype': 'uint16'},
  {'name': 'A1', 'shape': [34], 'dtype': 'uint16', 'low': 0, 'high': 5}]]  # fmt: skip


@T.prim_func
def main(
    A2: T.Buffer((T.int64(16), T.int64(3)), "uint16"),
    T0: T.Buffer((T.int64(16), T.int64(32)), "uint16"),
    A1: T.Buffer((T.int64(34),), "uint16"),
):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1, i2 in T.grid(T.int64(16), T.int64(32), T.int64(3)):
        with T.block("B0"):
            v0, v1, v2 = T.axis.remap("SSR", [i0, i1, i2])
            T.reads(A1[v1 + v2], A2[v0, v2])
            T.writes(T0[v0, v1])
            with T.init():
                T0[v0, v1] = T.uint16(0)
            T0[v0, v1] = T0[v0, v1] + A1[v1 + v2] * A2[v0, v2]


def schedule(sch):
    b0 = sch.get_block("root", func_name="main")
    (b1,) = sch.get_child_blocks(b0)
    b2 = sch.cache_write(b1, 0, "local")
    l3, l4, l5 = sch.get_loops(b1)
    l6, l7, l8 = sch.get_loops(b1)
    l9, l10, l11, l12 = sch.split(l3, [None, 1, 2, 1])
    l13, l14, l15, l16 = sch.split(l4, [None, 1, 2, 1])
    l17, l18 = sch.split(l8, [None, 2])
    sch.reorder(l9, l13, l10, l14, l11, l15, l17, l18, l12, l16)
    sch.bind(l9, "blockIdx.y")
    sch.bind(l13, "blockIdx.x")
    sch.bind(l10, "vthread.y")
    sch.bind(l14, "vthread.x")
    sch.bind(l11, "threadIdx.y")
    sch.bind(l15, "threadIdx.x")
    sch.reverse_compute_at(b2, l15)
    b19 = sch.cache_read(b1, 1, "shared")
    sch.compute_at(b19, l17)
    sch.storage_align(b19, 0, 0, 32, 3)
    b20 = sch.decompose_reduction(b1, l17)
    sch.annotate(l17, "software_pipeline_async_stages", [0])
    sch.annotate(l17, "software_pipeline_stage", [0, 1])
    sch.annotate(l17, "software_pipeline_order", [1, 0])
    b21 = sch.get_block("root", func_name="main")
    b22, b23, b24, b25 = sch.get_child_blocks(b21)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"], device="cuda")

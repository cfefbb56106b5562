"""pass: planted faults: store: only the interpreter finds it

Found by ``tilesmith fuzz tir``, seed 2005528.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# a store one element further (number 1): A3_shared[0] (scope shared) is read by thread
# (blockIdx.y=0, blockIdx.x=0, threadIdx.y=0, threadIdx.x=0) and was never written
# # from tilesmith.script import tir as T
# @T.prim_func
# def main(A2: T.Buffer((15,), "float32"), A3: T.Buffer((16, 3), "float32"), T0: T.Buffer((16,
# 15), "float32")):
#     T.func_attr({"target": T.target({"kind": "cuda", "keys": ["cuda", "gpu"], "max_num_threads":
# 1024, "thread_warp_size": 32, "host": {"kind": "llvm", "keys": ["cpu"]}}), "tir.is_entry_func":
# True, "tir.noalias": True})
#     A3_1 = T.decl_buffer((48,), data=A3.data)
#     T0_1 = T.decl_buffer((240,), data=T0.data)
ARGUMENTS = [[{'name': 'A2', 'shape': [15], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'A3', 'shape': [16, 3], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [16, 15], 'dtype': 'float32'}]]  # fmt: skip


@T.prim_func
def main(
    A2: T.Buffer((15,), "float32"),
    A3: T.Buffer((16, 3), "float32"),
    T0: T.Buffer((16, 15), "float32"),
):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1, i2 in T.grid(16, 15, 3):
        with T.block("B0"):
            v0, v1, v2 = T.axis.remap("SSR", [i0, i1, i2])
            T.reads(A2[v1 + v2 - 1], A3[v0, v2])
            T.writes(T0[v0, v1])
            with T.init():
                T0[v0, v1] = T.float32(0.0)
            T0[v0, v1] = (
                T0[v0, v1]
                + T.if_then_else(
                    0 <= v1 + v2 - 1 and v1 + v2 - 1 < 15, A2[v1 + v2 - 1], T.float32(0.0)
                )
                * A3[v0, v2]
            )


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
    b19 = sch.cache_read(b1, 0, "shared")
    b20 = sch.cache_read(b1, 0, "local")
    sch.compute_at(b20, l18)
    sch.compute_at(b19, l17)
    l21, l22, l23, l24, l25, l26, l27, l28 = sch.get_loops(b19)
    l29, l30, l31 = sch.split(l28, [None, 2, 2])
    sch.bind(l30, "threadIdx.y")
    sch.bind(l31, "threadIdx.x")
    b32 = sch.cache_read(b1, 1, "shared")
    sch.compute_at(b32, l17)
    sch.annotate(b32, "double_buffer_scope", 0)
    b33 = sch.decompose_reduction(b1, l17)
    sch.annotate(l17, "software_pipeline_async_stages", [0])
    sch.annotate(l17, "software_pipeline_stage", [0, 0, 2])
    sch.annotate(l17, "software_pipeline_order", [0, 1, 2])
    b34 = sch.get_block("root", func_name="main")
    b35, b36, b37, b38, b39, b40 = sch.get_child_blocks(b34)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"], device="cuda", planted=True)

"""pass: tir.ThreadSync: then running fails (ExecutionError)

Found by ``tilesmith fuzz tir``, seed 9602320.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# race: thread (blockIdx.x=0, threadIdx.x=0) reads A1_warp[1] (scope warp), thread (blockIdx.x=0,
# threadIdx.x=1) writes it, and no barrier stands between
#   put T.tvm_storage_sync("shared") between the two, or run ThreadSync
ARGUMENTS = [[{'name': 'A1', 'shape': [1, 1, 2], 'dtype': 'bool', 'low': 0, 'high': 1},
  {'name': 'T0', 'shape': [1, 1, 1], 'dtype': 'float32'}]]  # fmt: skip


@T.prim_func
def main(A1: T.Buffer((1, 1, 2), "bool"), T0: T.Buffer((1, 1, 1), "float32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1, i2, i3 in T.grid(1, 1, 1, 2):
        with T.block("B0"):
            v0, v1, v2, v3 = T.axis.remap("SSSR", [i0, i1, i2, i3])
            T.reads(A1[v0, v1, v3])
            T.writes(T0[v0, v1, v2])
            with T.init():
                T0[v0, v1, v2] = T.float32(0.0)
            T0[v0, v1, v2] = T0[v0, v1, v2] + T.Cast("float32", A1[v0, v1, v3])


def schedule(sch):
    b0 = sch.get_block("root", func_name="main")
    (b1,) = sch.get_child_blocks(b0)
    l2, l3, l4, l5 = sch.get_loops(b1)
    l6 = sch.fuse(l2, l3, l4)
    l7, l8 = sch.split(l6, [None, 2])
    sch.bind(l7, "blockIdx.x")
    sch.bind(l8, "threadIdx.x")
    b9 = sch.get_block("root", func_name="main")
    (b10,) = sch.get_child_blocks(b9)
    l11, l12, l13 = sch.get_loops(b10)
    b14 = sch.cache_read(b10, 0, "warp")
    sch.compute_at(b14, l11)
    l15, l16 = sch.get_loops(b14)
    l17, l18 = sch.split(l16, [None, 2])
    sch.bind(l18, "threadIdx.x")
    b19 = sch.get_block("root", func_name="main")
    b20, b21 = sch.get_child_blocks(b19)


def test_replay():
    replay.check(
        main,
        schedule,
        ARGUMENTS,
        "pass",
        ["llvm"],
        config={"tir.detect_global_barrier": True},
        device="cuda",
    )

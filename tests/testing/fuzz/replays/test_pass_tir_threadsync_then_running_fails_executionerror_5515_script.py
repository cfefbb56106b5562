"""pass: tir.ThreadSync: then running fails (ExecutionError)

Found by ``tilesmith fuzz tir``, seed 8108762.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# race: thread (blockIdx.x=0, threadIdx.x=1) writes A0_warp_shared[2] (scope shared), thread
# (blockIdx.x=0, threadIdx.x=0) writes it, and no barrier stands between
#   put T.tvm_storage_sync("shared") between the two, or run ThreadSync
ARGUMENTS = [[{'name': 'A0', 'shape': [3, 1], 'dtype': 'int32', 'low': 0, 'high': 5},
  {'name': 'T0', 'shape': [3, 2], 'dtype': 'bool'}]]  # fmt: skip


@T.prim_func
def main(A0: T.Buffer((3, 1), "int32"), T0: T.Buffer((3, 2), "bool")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1 in T.grid(3, 2):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(A0[v0 % 3, 0])
            T.writes(T0[v0, v1])
            x = T.bool()
            T0[v0, v1] = T.Let(A0[v0 % 3, 0] != 0, where={x: T.bool(True)})


def schedule(sch):
    b0 = sch.get_block("root", func_name="main")
    (b1,) = sch.get_child_blocks(b0)
    l2, l3 = sch.get_loops(b1)
    l4 = sch.fuse(l2, l3)
    l5, l6 = sch.split(l4, [None, 4])
    sch.bind(l5, "blockIdx.x")
    sch.bind(l6, "threadIdx.x")
    b7 = sch.get_block("root", func_name="main")
    (b8,) = sch.get_child_blocks(b7)
    l9, l10 = sch.get_loops(b8)
    b11 = sch.cache_read(b8, 0, "warp")
    sch.compute_at(b11, l9)
    l12, l13 = sch.get_loops(b11)
    l14, l15 = sch.split(l13, [None, 4])
    sch.bind(l15, "threadIdx.x")
    b16 = sch.get_block("root", func_name="main")
    b17, b18 = sch.get_child_blocks(b16)
    b19 = sch.cache_read(b18, 0, "shared")
    sch.set_scope(b19, 0, "shared")
    b20 = sch.get_block("root", func_name="main")
    b21, b22, b23 = sch.get_child_blocks(b20)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"], device="cuda")

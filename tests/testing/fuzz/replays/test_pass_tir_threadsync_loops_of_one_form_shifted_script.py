"""pass: tir.ThreadSync: then running fails (ExecutionError)

Found by ``tilesmith fuzz tir``, seed 7202517.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# race: thread (blockIdx.x=0, threadIdx.x=0) reads A0_warp[1] (scope warp), thread (blockIdx.x=0,
# threadIdx.x=1) writes it, and no barrier stands between
#   put T.tvm_storage_sync("shared") between the two, or run ThreadSync
ARGUMENTS = [[{'name': 'A0', 'shape': [3], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [1], 'dtype': 'float32'}]]  # fmt: skip


@T.prim_func
def main(A0: T.Buffer((3,), "float32"), T0: T.Buffer((1,), "float32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0 in range(3):
        with T.block("B0"):
            v0 = T.axis.reduce(3, i0)
            T.reads(A0[v0 - 1 : v0 - 1 + 2])
            T.writes(T0[0])
            with T.init():
                T0[0] = T.float32(0.0)
            x = T.float32()
            T0[0] = T0[0] + T.Let(
                T.if_then_else(0 <= v0 - 1, A0[v0 - 1], T.float32(0.0)), where={x: A0[v0]}
            )


def schedule(sch):
    b0 = sch.get_block("root", func_name="main")
    (b1,) = sch.get_child_blocks(b0)
    (l2,) = sch.get_loops(b1)
    (l3,) = sch.get_loops(b1)
    l4 = sch.add_unit_loop(l3)
    sch.bind(l4, "blockIdx.x")
    l5, l6 = sch.split(l2, [None, 2])
    sch.bind(l6, "threadIdx.x")
    b7 = sch.get_block("root", func_name="main")
    (b8,) = sch.get_child_blocks(b7)
    l9, l10, l11 = sch.get_loops(b8)
    b12 = sch.cache_read(b8, 0, "warp")
    sch.compute_at(b12, l9)
    l13, l14 = sch.get_loops(b12)
    l15, l16 = sch.split(l14, [None, 2])
    sch.bind(l16, "threadIdx.x")
    b17 = sch.get_block("root", func_name="main")
    b18, b19 = sch.get_child_blocks(b17)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"], device="cuda")

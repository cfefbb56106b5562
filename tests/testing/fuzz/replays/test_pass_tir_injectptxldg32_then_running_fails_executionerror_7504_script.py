"""pass: tir.InjectPTXLDG32: then running fails (ExecutionError)

Found by ``tilesmith fuzz tir``, seed 316228554.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# T1_local[0] (scope local) is read by thread (blockIdx.x=0, threadIdx.x=0) and was never written
ARGUMENTS = [[{'name': 'T0', 'shape': [4], 'dtype': 'int32', 'low': 0, 'high': 5},
  {'name': 'T1', 'shape': [6], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(T0: T.Buffer((4,), "int32"), T1: T.Buffer((6,), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0 in range(6):
        with T.block("B1"):
            v0 = T.axis.spatial(6, i0)
            T.reads(T0[0])
            T.writes(T1[v0])
            T1[v0] = T.if_then_else(2 <= v0, T0[0], 0)


def schedule(sch):
    b0 = sch.get_block("root", func_name="main")
    (b1,) = sch.get_child_blocks(b0)
    (l2,) = sch.get_loops(b1)
    l3, l4, l5 = sch.split(l2, [None, 2, 4])
    sch.bind(l3, "blockIdx.x")
    sch.bind(l4, "vthread.x")
    sch.bind(l5, "threadIdx.x")
    b6 = sch.get_block("root", func_name="main")
    (b7,) = sch.get_child_blocks(b6)
    l8, l9, l10 = sch.get_loops(b7)
    b11 = sch.cache_write(b7, 0, "local")
    sch.reverse_compute_at(b11, l10)
    b12 = sch.get_block("root", func_name="main")
    b13, b14 = sch.get_child_blocks(b12)


def test_replay():
    replay.check(
        main, schedule, ARGUMENTS, "pass", ["llvm"], config={"tir.ptx_ldg32": True}, device="cuda"
    )

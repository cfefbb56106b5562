"""primitive: threads: exchange: then running fails (OutOfBoundsError)

Found by ``tilesmith fuzz tir``, seed 7806731.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# the load of A0[-1, 1, 0] is outside of the buffer of shape (3, 3, 1)
ARGUMENTS = [[{'name': 'A0', 'shape': [3, 3, 1], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [5, 5, 5], 'dtype': 'float32'}]]  # fmt: skip


@T.prim_func
def main(A0: T.Buffer((3, 3, 1), "float32"), T0: T.Buffer((5, 5, 5), "float32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i2, i0, i1 in T.grid(5, 5, 5):
        with T.block("B0"):
            v0, v1, v2 = T.axis.remap("SSS", [i0, i1, i2])
            T.reads(A0[v0 - 2, v1, v2 - 2])
            T.writes(T0[v0, v1, v2])
            T0[v0, v1, v2] = T.if_then_else(
                2 <= v2 and v2 < 1, A0[v0 - 2, v1, v2 - 2], T.float32(0.0)
            )


def schedule(sch):
    b0 = sch.get_block("root", func_name="main")
    (b1,) = sch.get_child_blocks(b0)
    l2, l3, l4 = sch.get_loops(b1)
    l5 = sch.fuse(l2, l3, l4)
    l6, l7 = sch.split(l5, [None, 2])
    sch.bind(l6, "blockIdx.x")
    sch.bind(l7, "threadIdx.x")
    b8 = sch.get_block("root", func_name="main")
    (b9,) = sch.get_child_blocks(b8)
    l10, l11 = sch.get_loops(b9)
    b12 = sch.cache_read(b9, 0, "warp")
    sch.compute_at(b12, l10)
    l13, l14, l15, l16 = sch.get_loops(b12)
    l17 = sch.fuse(l14, l15, l16)
    l18, l19 = sch.split(l17, [None, 2])
    sch.set_scope(b12, 0, "shared")


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"], device="cuda")

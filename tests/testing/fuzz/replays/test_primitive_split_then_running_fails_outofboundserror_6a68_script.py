"""primitive: Split: then running fails (OutOfBoundsError)

Found by ``tilesmith fuzz tir``, seed 140503.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# the store of T0[1, 0, 0] is outside of the buffer of shape (1, 1, 1)
ARGUMENTS = [[{'name': 'A2', 'shape': [1, 1], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [1, 1, 1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A2: T.Buffer((1, 1), "int32"), T0: T.Buffer((1, 1, 1), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1, i2, i3, i4 in T.grid(1, 1, 1, 2, 2):
        with T.block("B0"):
            v0, v1, v2, v3, v4 = T.axis.remap("SSSRR", [i0, i1, i2, i3, i4])
            T.reads(A2[0, 0])
            T.writes(T0[v0, v1, v2])
            with T.init():
                T0[v0, v1, v2] = 0
            T0[v0, v1, v2] = T0[v0, v1, v2] + A2[0, 0]


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    l1, l2, l3, l4, l5 = sch.get_loops(b0)
    b6 = sch.rfactor(l5, 2)
    b7 = sch.get_block("B0_rf", func_name="main")
    (b8,) = sch.get_consumers(b7)
    l9, l10, l11, l12 = sch.get_loops(b8)
    sch.compute_at(b7, l12)
    b13 = sch.get_block("B0_rf", func_name="main")
    l14, l15, l16, l17, l18 = sch.get_loops(b13)
    l19, l20 = sch.split(l14, [3, None])
    b21 = sch.get_block("B0_rf", func_name="main")
    l22, l23, l24, l25, l26, l27 = sch.get_loops(b21)
    b28 = sch.blockize(l24)
    b29 = sch.get_block("B0_rf", func_name="main")
    l30, l31, l32, l33 = sch.get_loops(b29)
    l34, l35, l36 = sch.split(l30, [None, 3, 2])


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

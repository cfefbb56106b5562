"""primitive: RFactor: then running fails (OutOfBoundsError)

Found by ``tilesmith fuzz tir``, seed 160183.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# the store of T1[0, 1] is outside of the buffer of shape (3, 1)
ARGUMENTS = [[{'name': 'T0', 'shape': [1, 1, 2], 'dtype': 'bool', 'low': 0, 'high': 1},
  {'name': 'T1', 'shape': [3, 1], 'dtype': 'float32'}]]  # fmt: skip


@T.prim_func
def main(T0: T.Buffer((1, 1, 2), "bool"), T1: T.Buffer((3, 1), "float32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i2_0, i2_1, i0, i1 in T.grid(1, 2, 2, 3):
        with T.block("B1"):
            v0, v1 = T.axis.remap("RS", [i0, i1])
            v2 = T.axis.spatial(1, i2_0 * 2 + i2_1)
            T.where(i2_0 * 2 + i2_1 < 1)
            T.reads(T0[0, v2, v0])
            T.writes(T1[v1, v2])
            with T.init():
                T1[v1, v2] = T.float32(3.4028234663852886e38)
            T1[v1, v2] = T.min(T1[v1, v2], T.Cast("float32", T0[0, v2, v0]))


def schedule(sch):
    b0 = sch.get_block("B1", func_name="main")
    l1, l2, l3, l4 = sch.get_loops(b0)
    l5, l6, l7 = sch.split(l2, [None, 3, 2], preserve_unit_iters=False)
    b8 = sch.get_block("B1", func_name="main")
    l9, l10, l11, l12, l13, l14 = sch.get_loops(b8)
    b15 = sch.rfactor(l13, 1)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

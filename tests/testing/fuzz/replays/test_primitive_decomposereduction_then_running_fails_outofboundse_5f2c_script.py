"""primitive: DecomposeReduction: then running fails (OutOfBoundsError)

Found by ``tilesmith fuzz tir``, seed 140.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# the store of T1[1] is outside of the buffer of shape (1)
ARGUMENTS = [[{'name': 'A0', 'shape': [4, 1], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'T1', 'shape': [1], 'dtype': 'float32'},
  {'name': 'T2', 'shape': [2], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(
    A0: T.Buffer((4, 1), "float32"),
    T1: T.Buffer((1,), "float32"),
    T2: T.Buffer((2,), "int32"),
):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T0 = T.alloc_buffer((1, 2), "float32")
    for i0, i1 in T.grid(1, 2):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(A0[0, 0])
            T.writes(T0[v0, v1])
            T0[v0, v1] = A0[0, 0]
    for i0_0, i0_1, i1 in T.grid(1, 2, 2):
        with T.block("B1"):
            v0 = T.axis.spatial(1, i0_0 * 2 + i0_1)
            v1 = T.axis.reduce(2, i1)
            T.where(i0_0 * 2 + i0_1 < 1)
            T.reads(T0[v0, v1])
            T.writes(T1[v0])
            with T.init():
                T1[v0] = T.float32(-3.4028234663852886e38)
            T1[v0] = T.max(T1[v0], T0[v0, v1])
    with T.block("B2"):
        T.reads(T2[0:2])
        T.writes(T2[0:2])
        for z in range(2):
            T2[z] = 0
        for _v0, v1 in T.grid(1, 2):
            T2[v1 % 2] = T2[v1 % 2] + 5


def schedule(sch):
    b0 = sch.get_block("B1", func_name="main")
    l1, l2, l3 = sch.get_loops(b0)
    b4 = sch.blockize(l1, preserve_unit_iters=False)
    b5 = sch.get_block("B1", func_name="main")
    l6, l7, l8 = sch.get_loops(b5)
    b9 = sch.decompose_reduction(b5, l6)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

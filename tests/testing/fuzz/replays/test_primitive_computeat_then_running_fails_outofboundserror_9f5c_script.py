"""primitive: ComputeAt: then running fails (OutOfBoundsError)

Found by ``tilesmith fuzz tir``, seed 60224.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# the load of T0[1] is outside of the buffer of shape (1)
ARGUMENTS = [[{'name': 'A0', 'shape': [1, 1], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'T1', 'shape': [1, 1], 'dtype': 'int32'},
  {'name': 'T2', 'shape': [1], 'dtype': 'float32'}]]  # fmt: skip


@T.prim_func
def main(
    A0: T.Buffer((1, 1), "float32"),
    T1: T.Buffer((1, 1), "int32"),
    T2: T.Buffer((1,), "float32"),
):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T0 = T.alloc_buffer((1,), "float32")
    for i0 in range(1):
        with T.block("B0"):
            v0 = T.axis.spatial(1, i0)
            T.reads(A0[v0, 0])
            T.writes(T0[v0])
            T0[v0] = A0[v0, 0]
    for i0, i1, i2, i3 in T.grid(1, 1, 2, 1):
        with T.block("B1"):
            v0, v1, v2, v3 = T.axis.remap("SSRR", [i0, i1, i2, i3])
            T.reads()
            T.writes(T1[v0, v1])
            with T.init():
                T1[v0, v1] = 0
            T1[v0, v1] = T1[v0, v1]
    for i0 in range(1):
        with T.block("B2"):
            v0 = T.axis.reduce(1, i0)
            T.reads(T0[v0])
            T.writes(T2[0])
            with T.init():
                T2[0] = T.float32(3.4028234663852886e38)
            T2[0] = T.min(T2[0], T.max(T.float32(-1), T0[v0]))


def schedule(sch):
    v0 = sch.sample_categorical([2, 3, 4], [0.25, 0.25, 0.5])
    b1 = sch.get_block("B2", func_name="main")
    (l2,) = sch.get_loops(b1)
    l3, l4 = sch.split(l2, [None, v0])
    b5 = sch.get_block("B2", func_name="main")
    l6, l7 = sch.get_loops(b5)
    b8 = sch.rfactor(l6, 1)
    b9 = sch.get_block("B2_rf", func_name="main")
    (b10,) = sch.get_consumers(b9)
    (l11,) = sch.get_loops(b10)
    sch.compute_at(b9, l11, preserve_unit_loops=True)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

"""pass: tir.StorageRewrite: then running fails (OutOfBoundsError)

Found by ``tilesmith fuzz tir``, seed 8907017.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# the store of T1_rf[8] is outside of the buffer of shape (8)
ARGUMENTS = [[{'name': 'A0', 'shape': [5, 2], 'dtype': 'float16', 'low': -4, 'high': 5},
  {'name': 'A1', 'shape': [5], 'dtype': 'float16', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [5], 'dtype': 'float16'},
  {'name': 'T1', 'shape': [5], 'dtype': 'int4'}]]  # fmt: skip


@T.prim_func
def main(
    A0: T.Buffer((5, 2), "float16"),
    A1: T.Buffer((5,), "float16"),
    T0: T.Buffer((5,), "float16"),
    T1: T.Buffer((5,), "int4"),
):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1 in T.grid(5, 1):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SR", [i0, i1])
            T.reads(A1[T.max(T.min(v0 - 1, 5), 0)])
            T.writes(T0[v0])
            with T.init():
                T0[v0] = T.float16(0.0)
            T0[v0] = T0[v0] + A1[T.max(T.min(v0 - 1, 5), 0)]
    for i0_0, i0_1, i1 in T.grid(3, 2, 2):
        with T.block("B1"):
            v0 = T.axis.spatial(5, i0_0 * 2 + i0_1)
            v1 = T.axis.reduce(2, i1)
            T.where(i0_0 * 2 + i0_1 < 5)
            T.reads(A0[v0, v1])
            T.writes(T1[v0])
            with T.init():
                T1[v0] = T.int4(-8)
            T1[v0] = T.max(T1[v0], T.Cast("int4", A0[v0, v1]))


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    b1 = sch.cache_read(b0, 0, "global")
    b2 = sch.get_block("B1", func_name="main")
    l3, l4, l5 = sch.get_loops(b2)
    b6 = sch.rfactor(l5, 0)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"])

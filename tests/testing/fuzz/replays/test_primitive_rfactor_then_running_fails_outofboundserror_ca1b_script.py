"""primitive: RFactor: then running fails (OutOfBoundsError)

Found by ``tilesmith fuzz tir``, seed 20188.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# the store of T1[1] is outside of the buffer of shape (1)
ARGUMENTS = [[{'name': 'T0', 'shape': [1, 1], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T1', 'shape': [1], 'dtype': 'int32'}],
 [{'name': 'T0', 'shape': [1, 1], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T1', 'shape': [1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(T0_handle: T.handle, T1_handle: T.handle):
    T.func_attr({"tir.noalias": True})
    b = T.int32()
    T0 = T.match_buffer(T0_handle, (b, 1), "int32")
    T1 = T.match_buffer(T1_handle, (b,), "int32")
    # with T.block("root"):
    for i0_0, i0_1, i1 in T.grid((b + 1) // 2, 2, 1):
        with T.block("B1"):
            v0 = T.axis.spatial(b, i0_0 * 2 + i0_1)
            v1 = T.axis.reduce(1, i1)
            T.where(i0_0 * 2 + i0_1 < b)
            T.reads(T0[v0, v1])
            T.writes(T1[v0])
            with T.init():
                T1[v0] = 2147483647
            T1[v0] = T.min(T1[v0], T0[v0, v1])


def schedule(sch):
    b0 = sch.get_block("B1", func_name="main")
    l1, l2, l3 = sch.get_loops(b0)
    b4 = sch.rfactor(l3, 1)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

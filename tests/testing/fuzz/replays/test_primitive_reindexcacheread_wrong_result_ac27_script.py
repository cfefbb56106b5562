"""primitive: ReindexCacheRead: wrong result

Found by ``tilesmith fuzz tir``, seed 7815258.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T2': 1 of 4 elements differ, first at [1, 0]: 0 instead of -2
ARGUMENTS = [[{'name': 'A0', 'shape': [2, 2, 1], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T1', 'shape': [2, 2], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T2', 'shape': [2, 2], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(
    A0: T.Buffer((2, 2, 1), "int32"), T1: T.Buffer((2, 2), "int32"), T2: T.Buffer((2, 2), "int32")
):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T0 = T.alloc_buffer((2, 2, 1), "int32")
    for i0, i1, i2 in T.grid(2, 2, 1):
        with T.block("B0"):
            v0, v1, v2 = T.axis.remap("SSS", [i0, i1, i2])
            T.reads(A0[v0, v1, v2])
            T.writes(T0[v0, v1, v2])
            T0[v0, v1, v2] = A0[v0, v1, v2]
    for i0, i1 in T.grid(2, 2):
        with T.block("B2"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(T1[v0, v1], A0[0, 0:2, 0], T0[v0, v1 % 2, 0])
            T.writes(T2[v0, v1])
            T2[v0, v1] = T1[v0, v1] + T.truncmod(A0[0, T0[v0, v1 % 2, 0] % 2, 0], 7)


def schedule(sch):
    b0 = sch.get_block("B2", func_name="main")
    b1 = sch.reindex_cache_read(b0, 1, "global", lambda i0, i1: [i0, i1])


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

"""primitive: SamplePerfectTile: wrong result

Found by ``tilesmith fuzz tir``, seed 1207.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T0': 1 of 2 elements differ, first at [1, 0]: 77 instead of 3
ARGUMENTS = [[{'name': 'A0', 'shape': [1, 1, 2], 'dtype': 'int32', 'low': 0, 'high': 5},
  {'name': 'T0', 'shape': [2, 1], 'dtype': 'int32'}],
 [{'name': 'A0', 'shape': [1, 1, 1], 'dtype': 'int32', 'low': 0, 'high': 5},
  {'name': 'T0', 'shape': [1, 1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A0_handle: T.handle, T0_handle: T.handle):
    T.func_attr({"tir.noalias": True})
    a = T.int32()
    A0 = T.match_buffer(A0_handle, (1, 1, a), "int32")
    T0 = T.match_buffer(T0_handle, (a, 1), "int32")
    # with T.block("root"):
    for i0, i1 in T.grid(a, 1):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(A0[0, 0, v0])
            T.writes(T0[v0, v1])
            T0[v0, v1] = A0[0, 0, v0]


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    l1, l2 = sch.get_loops(b0)
    v3, v4 = sch.sample_perfect_tile(l1, 2, 4)
    l5, l6 = sch.split(l1, [v3, v4])


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

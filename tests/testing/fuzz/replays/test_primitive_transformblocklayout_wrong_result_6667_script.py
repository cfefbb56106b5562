"""primitive: TransformBlockLayout: wrong result

Found by ``tilesmith fuzz tir``, seed 777997.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T0': 3 of 3 elements differ, first at [0]: 16 instead of 12
ARGUMENTS = [[{'name': 'A1', 'shape': [1, 1], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [3], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A1: T.Buffer((1, 1), "int32"), T0: T.Buffer((3,), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1 in T.grid(3, 3):
        with T.block("B0"):
            v0, v1 = T.axis.remap("RS", [i0, i1])
            T.reads(A1[0, 0])
            T.writes(T0[v1])
            with T.init():
                T0[v1] = 0
            T0[v1] = T0[v1] + A1[0, 0]


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    l1, l2 = sch.get_loops(b0)
    l3, l4 = sch.loop_partition(l1, [2, None])
    b5 = sch.get_block("B0", func_name="main")
    sch.transform_block_layout(b5, lambda i0, i1: [i1, i0])


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

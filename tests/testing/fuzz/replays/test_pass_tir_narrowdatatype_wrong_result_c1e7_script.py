"""pass: tir.NarrowDataType: wrong result

Found by ``tilesmith fuzz tir``, seed 200001.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T1': 1 of 1 elements differ, first at [0]: 5 instead of 10
ARGUMENTS = [[{'name': 'T1', 'shape': [1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(T1: T.Buffer((T.int64(1),), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0 in range(T.int64(2)):
        with T.block("B1"):
            v0 = T.axis.reduce(T.int64(2), i0)
            T.reads()
            T.writes(T1[T.int64(0)])
            with T.init():
                T1[T.int64(0)] = 0
            T1[T.int64(0)] = T1[T.int64(0)] + 5


def schedule(sch):
    b0 = sch.get_block("root", func_name="main")
    (b1,) = sch.get_child_blocks(b0)
    (l2,) = sch.get_loops(b1)
    (l3,) = sch.get_loops(b1)
    l4 = sch.add_unit_loop(l3)
    sch.bind(l4, "blockIdx.x")
    l5, l6 = sch.split(l2, [None, 32])
    sch.bind(l6, "threadIdx.x")
    b7 = sch.get_block("root", func_name="main")
    (b8,) = sch.get_child_blocks(b7)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"], device="cuda")

"""pass: tir.LoopPartition: wrong result

Found by ``tilesmith fuzz tir``, seed 8710811.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T2': 1 of 3 elements differ, first at [1]: 1515870810 instead of 2
ARGUMENTS = [[{'name': 'A0', 'shape': [3, 1, 1], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [3, 2], 'dtype': 'int32'},
  {'name': 'T2', 'shape': [3], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(
    A0: T.Buffer((3, 1, 1), "int32"), T0: T.Buffer((3, 2), "int32"), T2: T.Buffer((3,), "int32")
):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T1 = T.alloc_buffer((3,), "int32")
    for i0, i1, i2 in T.grid(3, 2, 2):
        with T.block("B0"):
            v0, v1, v2 = T.axis.remap("SRS", [i0, i1, i2])
            T.reads(A0[v0, 0, 0])
            T.writes(T0[v0, v2])
            with T.init():
                T0[v0, v2] = 0
            T0[v0, v2] = T0[v0, v2] + A0[v0, 0, 0] % 4
    for i0, i1 in T.grid(3, 2):
        with T.block("B1"):
            v0, v1 = T.axis.remap("SR", [i0, i1])
            T.reads()
            T.writes(T1[v0])
            with T.init():
                T1[v0] = 0
            T1[v0] = T1[v0] + v0
    for i0 in range(3):
        with T.block("B2"):
            v0 = T.axis.spatial(3, i0)
            T.reads(T1[v0])
            T.writes(T2[v0])
            T2[v0] = T1[v0]


def schedule(sch):
    b0 = sch.get_block("root", func_name="main")
    b1, b2, b3 = sch.get_child_blocks(b0)
    (l4,) = sch.get_loops(b3)
    l5, l6, l7, l8 = sch.split(l4, [None, 2, 2, 2])
    sch.bind(l5, "blockIdx.x")
    sch.bind(l6, "vthread.x")
    sch.bind(l7, "threadIdx.x")
    b9 = sch.get_block("root", func_name="main")
    b10, b11, b12 = sch.get_child_blocks(b9)
    l13, l14, l15, l16 = sch.get_loops(b12)
    b17 = sch.cache_read(b12, 0, "shared")
    sch.compute_at(b17, l16)
    l18, l19, l20, l21, l22 = sch.get_loops(b17)
    l23, l24 = sch.split(l22, [None, 2])
    sch.bind(l24, "threadIdx.x")
    b25 = sch.get_block("root", func_name="main")
    b26, b27, b28, b29 = sch.get_child_blocks(b25)
    l30, l31, l32 = sch.get_loops(b26)
    l33 = sch.add_unit_loop(l30)
    sch.bind(l33, "blockIdx.x")
    l34, l35 = sch.get_loops(b27)
    l36 = sch.add_unit_loop(l34)
    sch.bind(l36, "blockIdx.x")


def test_replay():
    replay.check(
        main,
        schedule,
        ARGUMENTS,
        "pass",
        ["llvm"],
        config={"tir.LoopPartition": {"partition_const_loop": True}},
        device="cuda",
    )

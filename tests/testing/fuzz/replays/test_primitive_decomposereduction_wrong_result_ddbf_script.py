"""primitive: DecomposeReduction: wrong result

Found by ``tilesmith fuzz tir``, seed 9606867.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T2': 2 of 2 elements differ, first at [0, 0]: 1515870810 instead of 0
ARGUMENTS = [[{'name': 'T2', 'shape': [1, 2], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(T2: T.Buffer((1, 2), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T1 = T.alloc_buffer((1,), "int32")
    for i0, i1 in T.grid(1, 1):
        with T.block("B1"):
            v0, v1 = T.axis.remap("RS", [i0, i1])
            T.reads()
            T.writes(T1[v1])
            with T.init():
                T1[v1] = 0
            T1[v1] = T1[v1]
    for i0, i1, i2 in T.grid(1, 1, 2):
        with T.block("B2"):
            v0, v1, v2 = T.axis.remap("SRS", [i0, i1, i2])
            T.reads(T1[0])
            T.writes(T2[v0, v2])
            with T.init():
                T2[v0, v2] = T1[0]
            T2[v0, v2] = T2[v0, v2] + T1[0] % -4


def schedule(sch):
    b0 = sch.get_block("B1", func_name="main")
    (b1,) = sch.get_consumers(b0)
    l2, l3, l4 = sch.get_loops(b1)
    sch.compute_at(b0, l2)
    b5 = sch.get_block("B2", func_name="main")
    l6, l7, l8 = sch.get_loops(b5)
    b9 = sch.decompose_reduction(b5, l6)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

"""primitive: DecomposeReduction: wrong result

Found by ``tilesmith fuzz tir``, seed 8000711.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T1': 1 of 1 elements differ, first at [0, 0]: 10 instead of 5
ARGUMENTS = [[{'name': 'A2', 'shape': [1, 1], 'dtype': 'int32', 'low': 0, 'high': 5},
  {'name': 'T1', 'shape': [1, 1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A2: T.Buffer((1, 1), "int32"), T1: T.Buffer((1, 1), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1, i2 in T.grid(1, 1, 1):
        with T.block("B1"):
            v0, v1, v2 = T.axis.remap("SSR", [i0, i1, i2])
            T.reads(A2[v0, v2])
            T.writes(T1[v0, v1])
            with T.init():
                T1[v0, v1] = 0
            T1[v0, v1] = T1[v0, v1] + A2[v0, v2]


def schedule(sch):
    b0 = sch.get_block("B1", func_name="main")
    sch.transform_block_layout(b0, lambda i0, i1, i2: [i2, i1, i0])
    b1 = sch.get_block("B1", func_name="main")
    sch.pad_einsum(b1, [1, 2, 1])
    b2 = sch.get_block("B1", func_name="main")
    l3, l4, l5 = sch.get_loops(b2)
    b6 = sch.decompose_reduction(b2, l3)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

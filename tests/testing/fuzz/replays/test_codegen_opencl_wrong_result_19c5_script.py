"""codegen: opencl: wrong result

Found by ``tilesmith fuzz tir``, seed 2006517.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T0': 2 of 9 elements differ, first at [6]: 224892872 instead of 1
ARGUMENTS = [[{'name': 'A0', 'shape': [16], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [9], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A0: T.Buffer((16,), "int32"), T0: T.Buffer((9,), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0 in range(9):
        with T.block("B0"):
            v0 = T.axis.spatial(9, i0)
            T.reads(A0[(v0 * 2 + v0) % 16])
            T.writes(T0[v0])
            T0[v0] = A0[(v0 * 2 + v0) % 16]


def schedule(sch):
    b0 = sch.get_block("root", func_name="main")
    (b1,) = sch.get_child_blocks(b0)
    (l2,) = sch.get_loops(b1)
    l3 = sch.add_unit_loop(l2)
    sch.bind(l3, "blockIdx.x")


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "codegen", ["llvm"], device="opencl")

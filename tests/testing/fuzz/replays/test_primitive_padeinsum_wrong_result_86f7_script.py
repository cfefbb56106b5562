"""primitive: PadEinsum: wrong result

Found by ``tilesmith fuzz tir``, seed 8402570.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T0': 2 of 2 elements differ, first at [0]: 20.0 instead of 8.0; at most 1.04858e+07
# ULP, allowed 0
ARGUMENTS = [[{'name': 'A1', 'shape': [1, 1, 1], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [2], 'dtype': 'float32'}]]  # fmt: skip


@T.prim_func
def main(A1: T.Buffer((1, 1, 1), "float32"), T0: T.Buffer((2,), "float32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1 in T.grid(2, 2):
        with T.block("B0"):
            v0, v1 = T.axis.remap("RS", [i0, i1])
            T.reads(A1[0, 0, 0])
            T.writes(T0[v1])
            with T.init():
                T0[v1] = T.float32(0.0)
            T0[v1] = T0[v1] + A1[0, 0, 0]


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    sch.transform_block_layout(b0, lambda i0, i1: [i0, i1 // 2, i1 % 2])
    b1 = sch.get_block("B0", func_name="main")
    sch.pad_einsum(b1, [2, 4, 3])


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

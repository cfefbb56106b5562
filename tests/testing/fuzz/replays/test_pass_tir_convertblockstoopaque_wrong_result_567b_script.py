"""pass: tir.ConvertBlocksToOpaque: wrong result

Found by ``tilesmith fuzz tir``, seed 9600353.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T0': 2 of 2 elements differ, first at [0]: 2 instead of 4
ARGUMENTS = [[{'name': 'A0', 'shape': [1, 1, 2], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [2], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A0: T.Buffer((1, 1, 2), "int32"), T0: T.Buffer((2,), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, r0 in T.grid(2, 2):
        with T.block("T0"):
            v_i0, v_r0 = T.axis.remap("SR", [i0, r0])
            T.reads(A0[0, 0, v_r0])
            T.writes(T0[v_i0])
            with T.init():
                T0[v_i0] = -2147483648
            T0[v_i0] = T.max(T0[v_i0], A0[0, 0, v_r0])


def schedule(sch):
    b0 = sch.get_block("T0", func_name="main")
    l1, l2 = sch.get_loops(b0)
    b3 = sch.blockize(l2)
    b4 = sch.get_block("T0", func_name="main")
    (l5,) = sch.get_loops(b4)
    sch.bind(l5, "threadIdx.x")


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"])

"""codegen: llvm: wrong result

Found by ``tilesmith fuzz tir``, seed 8709145.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T0': 2 of 16 elements differ, first at [0, 1, 0]: 0 instead of 3
ARGUMENTS = [[{'name': 'A0', 'shape': [2, 4, 2], 'dtype': 'int32', 'low': 0, 'high': 5},
  {'name': 'T0', 'shape': [2, 4, 2], 'dtype': 'uint8'}]]  # fmt: skip


@T.prim_func
def main(A0: T.Buffer((2, 4, 2), "int32"), T0: T.Buffer((2, 4, 2), "uint8")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1, i2 in T.grid(2, 4, 2):
        with T.block("B0"):
            v0, v1, v2 = T.axis.remap("SSS", [i0, i1, i2])
            T.reads(A0[0 : v0 + 1, T.min(3 - v1, v1) : T.max(4 - v1, v1 + 1), 0 : v0 + 1])
            T.writes(T0[v0, v1, v2])
            T0[v0, v1, v2] = (
                T.Cast("uint8", A0[v0, 3 - v1, v0])
                % T.uint8(3)
                * T.Cast("uint8", T.if_then_else(v0 + 1 < 2, A0[0, v1, 0], 0))
            )


def schedule(sch):
    pass


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "codegen", ["llvm"])

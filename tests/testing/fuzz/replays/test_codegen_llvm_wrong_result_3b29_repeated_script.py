"""codegen: llvm: wrong result

Found by ``tilesmith fuzz tir``, seed 5002145.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T0': 11 of 144 elements differ, first at [0, 1]: -2 instead of -1
ARGUMENTS = [[{'name': 'A0', 'shape': [8, 8], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [9, 16], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A0: T.Buffer((8, 8), "int32"), T0: T.Buffer((9, 16), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1 in T.grid(9, 16):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(
                A0[0 : (v1 + 7) % 8 + 1, 0 : T.max(T.truncdiv(v0 - 3, 5), (v0 * 3 + v1) % 8) + 1]
            )
            T.writes(T0[v0, v1])
            T0[v0, v1] = T.truncdiv(
                T.Select(
                    A0[0, 0] != A0[(v1 - 1) % 8, T.truncdiv(v0 - 3, 5) % 8],
                    A0[0, 0],
                    T.truncmod(A0[0, (v0 * 3 + v1) % 8], -3),
                ),
                -2,
            )


def schedule(sch):
    pass


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "codegen", ["llvm"])

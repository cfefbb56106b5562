"""pass: tir.LowerMatchBuffer: then running fails (ExecutionError)

Found by ``tilesmith fuzz tir``, seed 9303629.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# the function 'main' uses 'c' without binding them
#   in the function 'main'
ARGUMENTS = [[{'name': 'A2', 'shape': [1, 1], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [1, 1], 'dtype': 'int32'}],
 [{'name': 'A2', 'shape': [1, 1], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [1, 1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A2_handle: T.handle, T0_handle: T.handle):
    T.func_attr({"tir.noalias": True})
    c = T.int32()
    a = T.int32()
    A2 = T.match_buffer(A2_handle, (c, a), "int32")
    T0 = T.match_buffer(T0_handle, (c, c), "int32")
    # with T.block("root"):
    for i0, i1, i2 in T.grid(c, c, a):
        with T.block("B0"):
            v0, v1, v2 = T.axis.remap("SSR", [i0, i1, i2])
            T.reads(A2[0:c, 0:a])
            T.writes(T0[v0, v1])
            B0_A2 = T.match_buffer(
                A2[0:c, 0:a], (c, a), "int32", strides=("B0_A2_s0", "B0_A2_s1"), offset_factor=1
            )
            B0_T0 = T.match_buffer(
                T0[v0, v1], (1, 1), "int32", strides=("B0_T0_s0", "B0_T0_s1"), offset_factor=1
            )
            with T.init():
                B0_T0[0, 0] = 0
            B0_T0[0, 0] = B0_T0[0, 0] + B0_A2[v0, v2] * B0_A2[v1, v2]


def schedule(sch):
    pass


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"])

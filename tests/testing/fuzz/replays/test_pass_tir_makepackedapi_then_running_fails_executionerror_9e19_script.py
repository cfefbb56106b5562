"""pass: tir.MakePackedAPI: then running fails (ExecutionError)

Found by ``tilesmith fuzz tir``, seed 21373.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# the function 'main' uses 'd' without binding them
#   in the function 'main'
ARGUMENTS = [[{'name': 'A0', 'shape': [1], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [2], 'dtype': 'int32'}],
 [{'name': 'A0', 'shape': [1], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [2], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A0_handle: T.handle, T0: T.Buffer((2,), "int32")):
    T.func_attr({"tir.noalias": True})
    d = T.int32()
    A0 = T.match_buffer(A0_handle, (d,), "int32")
    # with T.block("root"):
    for i0, i1 in T.grid(1, 2):
        with T.block("B0"):
            v0, v1 = T.axis.remap("RS", [i0, i1])
            T.reads(A0[0])
            T.writes(T0[v1])
            with T.init():
                T0[v1] = 2147483647
            T0[v1] = T.min(T0[v1], A0[0])


def schedule(sch):
    pass


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"])

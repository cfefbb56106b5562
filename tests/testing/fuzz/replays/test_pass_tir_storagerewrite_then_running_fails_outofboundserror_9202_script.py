"""pass: tir.StorageRewrite: then running fails (OutOfBoundsError)

Found by ``tilesmith fuzz tir``, seed 5004131.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# the store of T1_reindex[24] is outside of the buffer of shape (24)
ARGUMENTS = [[{'name': 'A0', 'shape': [6, 6], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T1', 'shape': [6, 6], 'dtype': 'bool'}]]  # fmt: skip


@T.prim_func
def main(A0: T.Buffer((6, 6), "int32"), T1: T.Buffer((6, 6), "bool")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T0 = T.alloc_buffer((6,), "int32")
    for i0, i1 in T.grid(6, 6):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SR", [i0, i1])
            T.reads(A0[v1, 0])
            T.writes(T0[v0])
            with T.init():
                T0[v0] = 2147483647
            T0[v0] = T.min(T0[v0], A0[v1, 0] // -4)
    for i0, i1 in T.grid(6, 6):
        with T.block("B1"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(T0[v0])
            T.writes(T1[v0, v1])
            T1[v0, v1] = (T0[v0] != 0) != (T0[v0] != 0)


def schedule(sch):
    b0 = sch.get_block("B1", func_name="main")
    b1 = sch.reindex(b0, ("write", 0))


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"])

"""primitive: CacheRead: then running fails (OutOfBoundsError)

Found by ``tilesmith fuzz tir``, seed 7116675.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# the load of T0[0, 1] is outside of the buffer of shape (1, 1)
ARGUMENTS = [[{'name': 'T0', 'shape': [1, 1], 'dtype': 'float32', 'low': 0, 'high': 4},
  {'name': 'T5', 'shape': [1], 'dtype': 'float32'},
  {'name': 'T1', 'shape': [3, 2], 'dtype': 'float32'}]]  # fmt: skip


@T.prim_func
def main(
    T0: T.Buffer((1, 1), "float32"), T5: T.Buffer((1,), "float32"), T1: T.Buffer((3, 2), "float32")
):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1 in T.grid(3, 2):
        with T.block("B1"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(T0[0, 0])
            T.writes(T1[v0, v1])
            T1[v0, v1] = T0[0, 0]
    for i0, i1 in T.grid(1, 1):
        with T.block("B5"):
            v0, v1 = T.axis.remap("SR", [i0, i1])
            T.reads(T0[v0, 2])
            T.writes(T5[v0])
            with T.init():
                T5[v0] = T.float32(340282346638528859811704183484516925440.0)
            T5[v0] = T.min(T5[v0], T.if_then_else(v1 + 2 < 1, T0[v0, 2], T.float32(0.0)))


def schedule(sch):
    b0 = sch.get_block("B1", func_name="main")
    b1 = sch.cache_read(b0, 0, "global")


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

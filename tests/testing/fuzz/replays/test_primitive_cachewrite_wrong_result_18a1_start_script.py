"""primitive: CacheWrite: wrong result

Found by ``tilesmith fuzz tir``, seed 452903390.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T1': 1 of 2 elements differ, first at [0]: nan instead of 4.0; at most inf ULP,
# allowed 0
ARGUMENTS = [[{'name': 'T0', 'shape': [1, 1], 'dtype': 'int32', 'low': 0, 'high': 4},
  {'name': 'T1', 'shape': [2], 'dtype': 'float32'}]]  # fmt: skip


@T.prim_func
def main(T0: T.Buffer((1, 1), "int32"), T1: T.Buffer((2,), "float32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1 in T.grid(2, 4):
        with T.block("B1"):
            v0, v1 = T.axis.remap("SR", [i0, i1])
            T.reads(T0[0, 0])
            T.writes(T1[v0])
            with T.init():
                T1[v0] = T.float32(-340282346638528859811704183484516925440.0)
            T1[v0] = T.max(T1[v0], T.Cast("float32", T0[0, 0]))


def schedule(sch):
    b0 = sch.get_block("B1", func_name="main")
    l1, l2 = sch.get_loops(b0)
    l3 = sch.fuse(l1, l2)
    b4 = sch.get_block("B1", func_name="main")
    (l5,) = sch.get_loops(b4)
    l6, l7 = sch.loop_partition(l5, [1, None])
    b8 = sch.get_block("B1_1", func_name="main")
    b9 = sch.cache_write(b8, 0, "global")


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

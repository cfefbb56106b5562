"""primitive: Parallel: a parallel loop depends on its order

Found by ``tilesmith fuzz tir``, seed 8714806.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# wrong result: argument 'T2': 2 of 2 elements differ, first at [0]: 1.0 instead of 2.0; at most
# 8.38861e+06 ULP, allowed 0
ARGUMENTS = [[{'name': 'A0', 'shape': [1, 1], 'dtype': 'bool', 'low': 0, 'high': 1},
  {'name': 'T2', 'shape': [2], 'dtype': 'float32'},
  {'name': 'T1', 'shape': [2, 3], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(
    A0: T.Buffer((1, 1), "bool"), T2: T.Buffer((2,), "float32"), T1: T.Buffer((2, 3), "int32")
):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T0 = T.alloc_buffer((2, 3, 2))
    for i0, i1, i2 in T.grid(2, 3, 2):
        with T.block("B0"):
            v0, v1, v2 = T.axis.remap("SSS", [i0, i1, i2])
            T.reads(A0[0, 0])
            T.writes(T0[v0, v1, v2])
            T0[v0, v1, v2] = T.ceil(
                T.max(T.min(T.Cast("float32", v1), T.float32(4.0)), T.Cast("float32", A0[0, 0]))
            )
    for i0, i1, i2 in T.grid(2, 3, 2):
        with T.block("B1"):
            v0, v1, v2 = T.axis.remap("SSR", [i0, i1, i2])
            T.reads(T0[v0, 0, 0])
            T.writes(T1[v0, v1])
            with T.init():
                T1[v0, v1] = 0
            T1[v0, v1] = T1[v0, v1] + T.Cast("int32", T0[v0, 0, 0])
    for i0, i1 in T.grid(2, 2):
        at: T.int32 = i0
        with T.block("B2"):
            v0 = T.axis.reduce(2, at)
            v1 = T.axis.spatial(2, i1)
            T.reads(T0[v1, 0, v0])
            T.writes(T2[v1])
            with T.init():
                T2[v1] = T.float32(0.0)
            T2[v1] = T2[v1] + T0[v1, 0, v0]


def schedule(sch):
    b0 = sch.get_block("B2", func_name="main")
    l1, l2 = sch.get_loops(b0)
    l3 = sch.fuse(l1, l2, preserve_unit_iters=False)
    b4 = sch.get_block("B0", func_name="main")
    b5 = sch.reindex_cache_write(b4, 0, "global", lambda i0, i1, i2: [i1, i0, i2])
    b6 = sch.get_block("B2", func_name="main")
    (l7,) = sch.get_loops(b6)
    sch.parallel(l7)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

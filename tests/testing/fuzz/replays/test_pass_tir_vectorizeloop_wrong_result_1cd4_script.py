"""pass: tir.VectorizeLoop: wrong result

Found by ``tilesmith fuzz tir``, seed 9803694.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T0': 3 of 4 elements differ, first at [0, 0]: 0 instead of 1
ARGUMENTS = [[{'name': 'A2', 'shape': [1, 4], 'dtype': 'bool', 'low': 0, 'high': 1},
  {'name': 'T0', 'shape': [1, 4], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A2: T.Buffer((1, 4), "bool"), T0: T.Buffer((1, 4), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1, i2 in T.grid(1, 4, 1):
        with T.block("B0"):
            v0, v1, v2 = T.axis.remap("SSR", [i0, i1, i2])
            T.reads(A2[v2, v1])
            T.writes(T0[v0, v1])
            with T.init():
                T0[v0, v1] = 0
            T0[v0, v1] = T0[v0, v1] + T.Cast("int32", A2[v2, v1])


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    b1 = sch.cache_read(b0, 0, "global")
    b2 = sch.get_block("B0", func_name="main")
    b3 = sch.get_block("A2_global", func_name="main")
    l4, l5 = sch.get_loops(b3)
    sch.reverse_compute_at(b2, l5)
    b6 = sch.get_block("A2_global", func_name="main")
    l7, l8 = sch.get_loops(b6)
    sch.vectorize(l8)


def test_replay():
    replay.check(
        main, schedule, ARGUMENTS, "pass", ["llvm"], extra=[["tir.Simplify", "StorageRewrite"]]
    )

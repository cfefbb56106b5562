"""primitive: CacheWrite: wrong result

Found by ``tilesmith fuzz tir``, seed 20573.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T0': 1 of 1 elements differ, first at [0, 0]: 1515870810 instead of 77
ARGUMENTS = [[{'name': 'T0', 'shape': [1, 1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(T0: T.Buffer((1, 1), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1 in T.grid(1, 1):
        with T.block("B1"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(T0[v0, v1])
            T.writes(T0[v0, v1])
            T0[v0, v1] = T.max(T0[v0, v1], 2)


def schedule(sch):
    b0 = sch.get_block("B1", func_name="main")
    b1 = sch.cache_write(b0, 0, "global")


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

"""codegen: c: wrong result

Found by ``tilesmith fuzz tir``, seed 9605882.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T1': 1 of 2 elements differ, first at [0, 1]: 3 instead of 1
ARGUMENTS = [[{'name': 'A1', 'shape': [1, 2], 'dtype': 'uint8', 'low': 0, 'high': 5},
  {'name': 'T1', 'shape': [1, 2], 'dtype': 'uint8'}]]  # fmt: skip


@T.prim_func
def main(A1: T.Buffer((1, 2), "uint8"), T1: T.Buffer((1, 2), "uint8")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1 in T.grid(1, 2):
        with T.block("B1"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(A1[v0, v1])
            T.writes(T1[v0, v1])
            T1[v0, v1] = T.Select(
                T.Cast("uint8", v1) + T.uint8(255) < T.uint8(1), T.uint8(1), A1[v0, v1]
            )


def schedule(sch):
    b0 = sch.get_block("B1", func_name="main")
    l1, l2 = sch.get_loops(b0)
    sch.vectorize(l2)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "codegen", ["c"])

"""primitive: ReIndex: wrong result

Found by ``tilesmith fuzz tir``, seed 9102877.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T1': 1 of 1 elements differ, first at [0]: nan instead of 15.0; at most inf ULP,
# allowed 0
ARGUMENTS = [[{'name': 'A1', 'shape': [6], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [6, 1], 'dtype': 'float32'},
  {'name': 'T1', 'shape': [1], 'dtype': 'float32'}]]  # fmt: skip


@T.prim_func
def main(
    A1: T.Buffer((6,), "int32"), T0: T.Buffer((6, 1), "float32"), T1: T.Buffer((1,), "float32")
):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1 in T.grid(1, 6):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(A1[v1])
            T.writes(T0[v1, v0])
            T0[v1, v0] = T.Cast("float32", A1[v1])
    for i0 in range(6):
        with T.block("B1"):
            v0 = T.axis.reduce(6, i0)
            T.reads()
            T.writes(T1[0])
            with T.init():
                T1[0] = T.float32(0.0)
            T1[0] = T1[0] + T.Cast("float32", v0)


def schedule(sch):
    b0 = sch.get_block("B1", func_name="main")
    (l1,) = sch.get_loops(b0)
    l2, l3 = sch.loop_partition(l1, [4, None])
    b4 = sch.get_block("B1_1", func_name="main")
    (l5,) = sch.get_loops(b4)
    b6 = sch.blockize(l5, preserve_unit_iters=False)
    b7 = sch.get_block("B1_1", func_name="main")
    b8 = sch.reindex(b7, ("write", 0))


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

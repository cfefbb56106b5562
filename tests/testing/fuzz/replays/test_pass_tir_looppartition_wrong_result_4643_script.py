"""pass: tir.LoopPartition: wrong result

Found by ``tilesmith fuzz tir``, seed 9800626.
"""

from tilesmith.script import ir as I
from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T0': 2 of 3 elements differ, first at [0, 0]: -3.0 instead of 5.0; at most 2.16216e+09
# ULP, allowed 0
ARGUMENTS = [[{'name': 'A0', 'shape': [3], 'dtype': 'int32', 'low': 0, 'high': 5},
  {'name': 'T0', 'shape': [1, 3], 'dtype': 'float32'}]]  # fmt: skip


metadata = I.metadata(
    {
        "tir.AllocateConst": [
            I.array("float32", (1,), "AABAwA=="),
        ],
    }
)


@T.prim_func
def main(A0: T.Buffer((3,), "int32"), T0: T.Buffer((1, 3), "float32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1 in T.grid(1, 3):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(A0[v1])
            T.writes(T0[v0, v1])
            table0 = T.allocate_const(metadata["tir.AllocateConst"][0], "float32", [1])
            table0_1 = T.decl_buffer((1,), data=table0)
            T0[v0, v1] = T.Select(
                T.Cast("int16", v1) - T.int16(-32766) >= T.int16(-16384),
                T.Cast("float32", A0[v1]),
                table0_1[0],
            )


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    l1, l2 = sch.get_loops(b0)
    sch.annotate(l1, "pragma_loop_partition_hint", 1)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"])

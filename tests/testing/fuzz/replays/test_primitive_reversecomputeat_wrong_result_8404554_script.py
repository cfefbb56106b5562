"""primitive: ReverseComputeAt: wrong result

Found by ``tilesmith fuzz tir``, seed 8404554.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T0': 1 of 1 elements differ, first at [0, 0]: 77.0 instead of 8.0; at most 2.68698e+07
# ULP, allowed 0
ARGUMENTS = [[{'name': 'A0', 'shape': [1, 1], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'A1', 'shape': [1, 1, 2], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [1, 1], 'dtype': 'float32'}]]  # fmt: skip


@T.prim_func
def main(
    A0: T.Buffer((1, 1), "float32"),
    A1: T.Buffer((1, 1, 2), "float32"),
    T0: T.Buffer((1, 1), "float32"),
):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1, i2 in T.grid(1, 1, 2):
        with T.block("B0"):
            v0, v1, v2 = T.axis.remap("SSR", [i0, i1, i2])
            T.reads(A1[v0, 2, v2], A0[0, 0])
            T.writes(T0[v0, v1])
            with T.init():
                T0[v0, v1] = T.float32(0.0)
            T0[v0, v1] = T0[v0, v1] + T.max(
                T.if_then_else(v1 + 2 < 1, A1[v0, 2, v2], T.float32(0.0)), A0[0, 0]
            )


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    b1 = sch.cache_read(b0, 0, "shared")
    b2 = sch.get_block("B0", func_name="main")
    (b3,) = sch.get_producers(b2)
    l4, l5, l6 = sch.get_loops(b3)
    sch.reverse_compute_at(b2, l6)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

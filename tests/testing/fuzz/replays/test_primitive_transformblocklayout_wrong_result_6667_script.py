"""primitive: TransformBlockLayout: wrong result

Found by ``tilesmith fuzz tir``, seed 20094.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T2': 2 of 2 elements differ, first at [0, 0]: nan instead of 2.0; at most inf ULP,
# allowed 0
ARGUMENTS = [[{'name': 'A1', 'shape': [2, 1], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'T2', 'shape': [1, 2], 'dtype': 'float32'},
  {'name': 'T1', 'shape': [4, 1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(
    A1: T.Buffer((2, 1), "float32"),
    T2: T.Buffer((1, 2), "float32"),
    T1: T.Buffer((4, 1), "int32"),
):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T0 = T.alloc_buffer((2, 2), "float32")
    for i0, i1, i2 in T.grid(2, 2, 1):
        with T.block("B0"):
            v0, v1, v2 = T.axis.remap("SSR", [i0, i1, i2])
            T.reads(A1[v0, v2])
            T.writes(T0[v0, v1])
            with T.init():
                T0[v0, v1] = T.float32(0)
            T0[v0, v1] = T0[v0, v1] + A1[v0, v2]
    for i0 in range(4):
        with T.block("B1"):
            v0 = T.axis.spatial(4, i0)
            T.reads(T1[v0, -1])
            T.writes(T1[v0, 0])
            for v1 in range(1):
                if v1 == 0:
                    T1[v0, v1] = -2
                else:
                    T1[v0, v1] = T1[v0, v1 - 1] + -2
    for i0, i1 in T.grid(1, 2):
        with T.block("B2"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(T0[1, 0])
            T.writes(T2[v0, v1])
            T2[v0, v1] = T0[1, 0]


def schedule(sch):
    b0 = sch.get_block("B2", func_name="main")
    b1 = sch.cache_read(b0, 0, "shared")
    b2 = sch.get_block("T0_shared", func_name="main")
    sch.transform_block_layout(b2, lambda i0, i1: [i0 * 1 + i1])


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

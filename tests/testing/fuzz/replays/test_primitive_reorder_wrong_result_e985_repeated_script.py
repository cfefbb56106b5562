"""primitive: Reorder: wrong result

Found by ``tilesmith fuzz tir``, seed 7116598.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T2': 2 of 4 elements differ, first at [0, 1]: 8.0 instead of 4.0; at most 8.38861e+06
# ULP, allowed 0
ARGUMENTS = [[{'name': 'A0', 'shape': [2, 2], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T2', 'shape': [2, 2], 'dtype': 'float32'}]]  # fmt: skip


@T.prim_func
def main(A0: T.Buffer((2, 2), "int32"), T2: T.Buffer((2, 2), "float32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T0 = T.alloc_buffer((2,), "int32")
    T1 = T.alloc_buffer((3, 2))
    for i0, i1 in T.grid(2, 2):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SR", [i0, i1])
            T.reads(A0[v0, v0])
            T.writes(T0[v0])
            with T.init():
                T0[v0] = 0
            T0[v0] = T0[v0] + A0[v0, v0] % 4
    for i0, i1 in T.grid(3, 2):
        with T.block("B1"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(T0[v1 % 2])
            T.writes(T1[v0, v1])
            T1[v0, v1] = T.Cast("float32", T0[v1 % 2])
    for i0, i1, i2 in T.grid(2, 2, 2):
        with T.block("B2"):
            v0, v1, v2 = T.axis.remap("SSR", [i0, i1, i2])
            T.reads(T1[0, v1])
            T.writes(T2[v0, v1])
            with T.init():
                T2[v0, v1] = T.float32(-340282346638528859811704183484516925440.0)
            T2[v0, v1] = T.max(T2[v0, v1], T1[0, v1])


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    (b1,) = sch.get_consumers(b0)
    l2, l3 = sch.get_loops(b1)
    sch.compute_at(b0, l2)
    b4 = sch.get_block("B1", func_name="main")
    sch.compute_inline(b4)
    b5 = sch.get_block("B0", func_name="main")
    l6, l7, l8 = sch.get_loops(b5)
    sch.reorder(l8, l6)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

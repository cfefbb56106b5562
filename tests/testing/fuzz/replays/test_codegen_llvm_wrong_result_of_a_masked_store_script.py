"""codegen: llvm: wrong result

Found by ``tilesmith fuzz tir``, seed 100168.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T2': 1 of 16 elements differ, first at [1, 0]: 0.0 instead of 6.0; at most 16576 ULP,
# allowed 0
ARGUMENTS = [[{'name': 'A0', 'shape': [4], 'dtype': 'bfloat16', 'low': -4, 'high': 5},
  {'name': 'T2', 'shape': [4, 4], 'dtype': 'bfloat16'}]]  # fmt: skip


@T.prim_func
def main(A0: T.Buffer((4,), "bfloat16"), T2: T.Buffer((4, 4), "bfloat16")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T1 = T.alloc_buffer((4, 4), "bfloat16")
    for i1_0, i1_1, i0 in T.grid(2, 3, 4):
        with T.block("B1"):
            v0 = T.axis.spatial(4, i0)
            v1 = T.axis.spatial(4, i1_0 * 3 + i1_1)
            T.where(i1_0 * 3 + i1_1 < 4)
            T.reads(A0[0])
            T.writes(T1[v0, v1])
            T1[v0, v1] = T.if_then_else(v1 + 1 < 4, A0[0], T.bfloat16(0))
    for i0, i1 in T.grid(4, 4):
        with T.block("B2"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(A0[v1], T1[v0, v1])
            T.writes(T2[v0, v1])
            T2[v0, v1] = T.min(A0[v1], T.bfloat16(2)) + T1[v0, v1] - T.min(T.bfloat16(0), A0[v1])


def schedule(sch):
    b0 = sch.get_block("B2", func_name="main")
    (b1,) = sch.get_producers(b0)
    l2, l3, l4 = sch.get_loops(b1)
    sch.reverse_compute_at(b0, l3, preserve_unit_loops=True)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "codegen", ["llvm"])

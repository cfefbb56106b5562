"""primitive: ComputeInline: raises VerifyError in tir/analysis/well_formed.py:fail

Found by ``tilesmith fuzz tir``, seed 1568.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

#   (...)
#               T.writes(T1[v0, v1])
#               with T.init():
#                   T1[v0, v1] = 0
#               T1[v0, v1] = T1[v0, v1] + A2[v0, v2]
#       with T.block("B2"):
#            ^^^^^^^^^^^^^
#           T.reads(A0_global[0, 0, 0], T2[0])
#           T.writes(T2[0])
#           with T.block("B2_steps"):
#               T.reads(A0_global[0, 0, 0], T2[0])
#   (...)
ARGUMENTS = [[{'name': 'A0', 'shape': [1, 1, 1], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'A1', 'shape': [4], 'dtype': 'int32', 'low': 0, 'high': 5},
  {'name': 'A2', 'shape': [1, 2], 'dtype': 'int32', 'low': 0, 'high': 5},
  {'name': 'T0', 'shape': [1], 'dtype': 'int32'},
  {'name': 'T1', 'shape': [1, 1], 'dtype': 'int32'},
  {'name': 'T2', 'shape': [1], 'dtype': 'float32'}]]  # fmt: skip


@T.prim_func
def main(
    A0: T.Buffer((1, 1, 1), "float32"),
    A1: T.Buffer((4,), "int32"),
    A2: T.Buffer((1, 2), "int32"),
    T0: T.Buffer((1,), "int32"),
    T1: T.Buffer((1, 1), "int32"),
    T2: T.Buffer((1,), "float32"),
):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0 in range(4):
        with T.block("B0"):
            v0 = T.axis.reduce(4, i0)
            T.reads(A1[v0])
            T.writes(T0[0])
            with T.init():
                T0[0] = 0
            T0[0] = T0[0] + A1[v0] // 4
    for i0, i1, i2 in T.grid(1, 1, 2):
        with T.block("B1"):
            v0, v1, v2 = T.axis.remap("SSR", [i0, i1, i2])
            T.reads(A2[v0, v2])
            T.writes(T1[v0, v1])
            with T.init():
                T1[v0, v1] = 0
            T1[v0, v1] = T1[v0, v1] + A2[v0, v2]
    with T.block("B2"):
        T.reads(A0[0, 0, 0], T2[0])
        T.writes(T2[0])
        with T.block("B2_steps"):
            T.reads(A0[0, 0, 0], T2[0])
            T.writes(T2[0])
            B2_count = T.alloc_buffer((1,), "int32", scope="local")
            B2_count[0] = 0
            while B2_count[0] < 1:
                with T.LetStmt(B2_count[0], T.int32) as v0:
                    if v0 == 0:
                        T2[v0] = A0[0, 0, 0]
                    else:
                        T2[v0] = T2[v0 - 1] + A0[0, 0, 0]
                B2_count[0] = B2_count[0] + 1


def schedule(sch):
    b0 = sch.get_block("B2", func_name="main")
    b1 = sch.cache_read(b0, 0, "global")
    b2 = sch.get_block("A0_global", func_name="main")
    sch.compute_inline(b2)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

"""primitive: Blockize: raises VerifyError in tir/analysis/well_formed.py:fail

Found by ``tilesmith fuzz tir``, seed 20103.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

#   (...)
#           T.reads()
#           T.writes(T0[0], T1[v0_o_1])
#           with T.init():
#               for i1_0_init in range(3):
#                   with T.block("B0_init"):
#                        ^^^^^^^^^^^^^^^^^^
#                       v1_init = T.axis.spatial(1, i1_0_init)
#                       T.where(i1_0_init + i1_1 < 1)
#                       T.reads()
#                       T.writes(T0[v1_init])
#   (...)
ARGUMENTS = [[{'name': 'T1', 'shape': [1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(T1: T.Buffer((1,), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T0 = T.alloc_buffer((1,), "int32")
    for i0, i1 in T.grid(1, 1):
        with T.block("B0"):
            v0, v1 = T.axis.remap("RS", [i0, i1])
            T.reads()
            T.writes(T0[v1])
            with T.init():
                T0[v1] = -2147483648
            T0[v1] = T.max(T0[v1], 4)
    for i0, i1 in T.grid(1, 1):
        with T.block("B1"):
            v0, v1 = T.axis.remap("SR", [i0, i1])
            T.reads(T0[v1])
            T.writes(T1[v0])
            with T.init():
                T1[v0] = 0
            T1[v0] = T1[v0] + T0[v1]


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    l1, l2 = sch.get_loops(b0)
    l3, l4 = sch.split(l2, [3, None])
    b5 = sch.get_block("B1", func_name="main")
    b6 = sch.get_block("B0", func_name="main")
    sch.blockize([b5, b6])


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

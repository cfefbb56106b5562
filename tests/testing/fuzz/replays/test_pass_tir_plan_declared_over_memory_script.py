"""pass: tir.PlanAndUpdateBufferAllocationLocation: a variable is used after the end of its scope

Found by ``tilesmith fuzz tir``, seed 9601093.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# VerifyError: the variable 'T2' is used after the end of its scope
ARGUMENTS = [[{'name': 'T0', 'shape': [1, 1], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T3', 'shape': [1, 1], 'dtype': 'float32'}]]  # fmt: skip


@T.prim_func
def main(T0: T.Buffer((1, 1), "int32"), T3: T.Buffer((1, 1), "float32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T2 = T.alloc_buffer((1, 1), "int32")
    for i0, i1 in T.grid(1, 1):
        with T.block("B2"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(T0[v0, v1])
            T.writes(T2[v0, v1])
            T2[v0, v1] = T0[v0, v1]
    for i0, i1 in T.grid(1, 1):
        with T.block("B3"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads()
            T.writes(T3[v0, v1])
            B3_T2 = T.decl_buffer((1, 1), "int32", data=T2.data)
            T3[v0, v1] = T.float32(1)


def schedule(sch):
    pass


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"])

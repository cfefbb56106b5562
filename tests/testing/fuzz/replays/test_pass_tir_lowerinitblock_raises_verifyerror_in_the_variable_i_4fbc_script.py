"""pass: tir.LowerInitBlock: raises VerifyError in ? (the variable _ is used; it is bound
nowhere)

Found by ``tilesmith fuzz tir``, seed 9502339.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# VerifyError: the variable 'v2' is used; it is bound nowhere
#   make it a parameter, or bind it by a loop, an axis or a value
#   in the block 'B1_init'
#   in the function 'main'
#   the program:
#   (...)
#   File "/work/wt/fuzz/tilesmith/tir/analysis/variables.py", line 40, in walk
#     self.use(node)
ARGUMENTS = [[{'name': 'A1', 'shape': [2, 1], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T1', 'shape': [2, 3], 'dtype': 'int32'}],
 [{'name': 'A1', 'shape': [2, 1], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T1', 'shape': [2, 3], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A1_handle: T.handle, T1: T.Buffer((2, 3), "int32")):
    T.func_attr({"tir.noalias": True})
    d = T.int32()
    A1 = T.match_buffer(A1_handle, (2, d), "int32")
    # with T.block("root"):
    for i0, i1, i2 in T.grid(2, 3, d):
        with T.block("B1"):
            v0, v1, v2 = T.axis.remap("SSR", [i0, i1, i2])
            T.reads(A1[v0, v2])
            T.writes(T1[v0, v1])
            B1_A1 = T.match_buffer(
                A1[v0, v2], (1, 1), "int32", strides=("B1_A1_s0", "B1_A1_s1"), offset_factor=1
            )
            B1_T1 = T.match_buffer(
                T1[v0, v1], (1, 1), "int32", strides=("B1_T1_s0", "B1_T1_s1"), offset_factor=1
            )
            with T.init():
                B1_T1[0, 0] = 0
            B1_T1[0, 0] = B1_T1[0, 0] + B1_A1[0, 0]


def schedule(sch):
    pass


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"])

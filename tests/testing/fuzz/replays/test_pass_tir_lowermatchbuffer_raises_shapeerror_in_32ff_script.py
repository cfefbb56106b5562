"""pass: tir.LowerMatchBuffer: raises ShapeError in ?

Found by ``tilesmith fuzz tir``, seed 9601006.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# ShapeError: block 'B0': 'B0_A1', a part of 'A1', is said to have the size c, a variable that has
# another meaning here
#   <tilesmith.tir.stmt.BlockRealize.map_children>:4:13
#           block = f(self.block)
#                   ^^^^^^^^^^^^^
#   take a new variable for what the match is to find out
#   in the function 'main'
#   File "/work/wt/fuzz/tilesmith/ir/visitor.py", line 38, in visit
#     result: Result = method(self, node)
ARGUMENTS = [[{'name': 'A1', 'shape': [1], 'dtype': 'int32', 'low': 0, 'high': 5},
  {'name': 'T0', 'shape': [3, 1], 'dtype': 'float32'}],
 [{'name': 'A1', 'shape': [1], 'dtype': 'int32', 'low': 0, 'high': 5},
  {'name': 'T0', 'shape': [3, 1], 'dtype': 'float32'}]]  # fmt: skip


@T.prim_func
def main(A1_handle: T.handle, T0_handle: T.handle):
    T.func_attr({"tir.noalias": True})
    c = T.int32()
    A1 = T.match_buffer(A1_handle, (c,), "int32")
    T0 = T.match_buffer(T0_handle, (c + 2, 1))
    # with T.block("root"):
    for i0, i1 in T.grid(c + 2, 1):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(A1[0:c])
            T.writes(T0[v0, v1])
            B0_A1 = T.match_buffer(A1[0:c], (c,), "int32", strides=("B0_A1_s0",), offset_factor=1)
            B0_T0 = T.match_buffer(
                T0[v0, v1], (1, 1), strides=("B0_T0_s0", "B0_T0_s1"), offset_factor=1
            )
            B0_T0[0, 0] = T.Cast("float32", B0_A1[0])


def schedule(sch):
    pass


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"])

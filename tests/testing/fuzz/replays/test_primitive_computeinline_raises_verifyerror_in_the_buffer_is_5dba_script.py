"""primitive: ComputeInline: raises VerifyError in ? (the buffer _ is neither a parameter nor
allocated here)

Found by ``tilesmith fuzz tir``, seed 9604644.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# VerifyError: the buffer 'T0' is neither a parameter nor allocated here
#   make it a parameter, or allocate it: T.alloc_buffer(shape, dtype)
#   in the block 'B1_o'
#   in the function 'main'
#   the program:
#   (...)
#   File "/work/wt/fuzz/tilesmith/tir/analysis/variables.py", line 40, in walk
#     self.use(node)
ARGUMENTS = [[{'name': 'A0', 'shape': [1, 1], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'A1', 'shape': [1, 1], 'dtype': 'int32', 'low': 0, 'high': 5},
  {'name': 'T1', 'shape': [1, 1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(
    A0: T.Buffer((1, 1), "float32"), A1: T.Buffer((1, 1), "int32"), T1: T.Buffer((1, 1), "int32")
):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T0 = T.alloc_buffer((1, 1), "int32")
    for i0, i1 in T.grid(1, 1):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(A0[v0, v1])
            T.writes(T0[v0, v1])
            T0[v0, v1] = T.Div(T.Cast("int32", A0[v0, v1]) % 8, 5)
    for i0, i1, i2 in T.grid(1, 1, 1):
        with T.block("B1"):
            v0, v1, v2 = T.axis.remap("SSR", [i0, i1, i2])
            T.reads(T0[v1, v0], A1[v0, v2])
            T.writes(T1[v0, v1])
            with T.init():
                T1[v0, v1] = T0[v1, v0]
            T1[v0, v1] = T1[v0, v1] + A1[v0, v2]


def schedule(sch):
    b0 = sch.get_block("B1", func_name="main")
    l1, l2, l3 = sch.get_loops(b0)
    b4 = sch.blockize(l1)
    b5 = sch.get_block("B0", func_name="main")
    sch.compute_inline(b5)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

"""primitive: TransformLayout: raises VerifyError in tir/analysis/well_formed.py:fail (the
buffer _ is neither a parameter nor allocated here)

Found by ``tilesmith fuzz tir``, seed 8004407.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# VerifyError: the buffer 'B' is neither a parameter nor allocated here
#   <script 97c79389>:9:13
#   make it a parameter, or allocate it: T.alloc_buffer(shape, dtype)
#   in the block 'copy'
#   in the function 'main'
#   the program:
#   File "/tmp/fz6/tilesmith/tir/analysis/variables.py", line 56, in walk
#     self.use(node)
ARGUMENTS = [[{'name': 'A1', 'shape': [1, 4], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [1, 1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A1: T.Buffer((1, 4), "int32"), T0: T.Buffer((1, 1), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1, i2 in T.grid(1, 1, 4):
        with T.block("B0"):
            v0, v1, v2 = T.axis.remap("SSR", [i0, i1, i2])
            T.reads(A1[v0, v2])
            T.writes(T0[v0, v1])
            with T.init():
                T0[v0, v1] = 0
            T0[v0, v1] = T0[v0, v1] + A1[v0, v2]


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    b1 = sch.cache_read(b0, 0, "global")
    b2 = sch.get_block("A1_global", func_name="main")
    l3, l4 = sch.get_loops(b2)
    sch.reorder(l3, l4)
    sch.tensorize(l4, "fuzz.copy.int32")
    b5 = sch.get_block("copy", func_name="main")
    sch.transform_layout(b5, ("write", 0), lambda i0: [i0 // 4, i0 % 4])


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

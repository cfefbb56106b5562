"""primitive: ComputeInline: raises VerifyError in tir/analysis/well_formed.py:fail (the
buffer _ is neither a parameter nor allocated here)

Found by ``tilesmith fuzz tir``, seed 5002519.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# VerifyError: the buffer 'T0' is neither a parameter nor allocated here
#   make it a parameter, or allocate it: T.alloc_buffer(shape, dtype)
#   in the block 'T0_global'
#   in the function 'main'
#   the program:
#   (...)
#   File "/tmp/fz3/tilesmith/tir/analysis/variables.py", line 56, in walk
#     self.use(node)
ARGUMENTS = [[{'name': 'T1', 'shape': [4, 5], 'dtype': 'float32'}]]  # fmt: skip


@T.prim_func
def main(T1: T.Buffer((4, 5), "float32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T0 = T.alloc_buffer((1, 2), "float32")
    for i0 in range(1):
        with T.block("B0"):
            v0 = T.axis.spatial(1, i0)
            T.reads(T0[v0, -1:1])
            T.writes(T0[v0, 0:2])
            for v1 in range(2):
                if v1 == 0:
                    T0[v0, v1] = T.Cast("float32", v0)
                else:
                    T0[v0, v1] = T0[v0, v1 - 1] + T.Cast("float32", v0)
    for i0, i1 in T.grid(4, 5):
        with T.block("B1"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(T0[0, 0])
            T.writes(T1[v0, v1])
            T1[v0, v1] = T0[0, 0]


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    b1, b2 = sch.cache_inplace(b0, 0, "global")
    b3 = sch.get_block("T0_global_out", func_name="main")
    sch.compute_inline(b3)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

"""pass: tir.LowerCrossThreadReduction: raises VerifyError in
tir/analysis/well_formed.py:fail (the buffer _ is neither a parameter nor allocated here)

Found by ``tilesmith fuzz tir``, seed 7117557.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# VerifyError: the buffer 'B0_T0' is neither a parameter nor allocated here
#   make it a parameter, or allocate it: T.alloc_buffer(shape, dtype)
#   in the block 'B0_write_back'
#   in the function 'main'
#   the program:
#   (...)
#   File "/work/main/tilesmith/tir/analysis/variables.py", line 40, in walk
#     self.use(node)
ARGUMENTS = [[{'name': 'T0', 'shape': [1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(T0: T.Buffer((1,), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1 in T.grid(1, 1):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SR", [i0, i1])
            T.reads()
            T.writes(T0[v0])
            B0_T0 = T.match_buffer(T0[v0], (1,), "int32", strides=("B0_T0_s0",), offset_factor=1)
            with T.init():
                B0_T0[0] = 0
            B0_T0[0] = B0_T0[0] + -3


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    l1, l2 = sch.get_loops(b0)
    l3, l4 = sch.split(l1, [None, 1])
    b5 = sch.get_block("B0", func_name="main")
    l6, l7, l8 = sch.get_loops(b5)
    sch.bind(l8, "threadIdx.x")


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"])

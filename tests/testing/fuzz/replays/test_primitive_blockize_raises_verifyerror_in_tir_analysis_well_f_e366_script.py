"""primitive: Blockize: raises VerifyError in tir/analysis/well_formed.py:fail (the buffer _
is neither a parameter nor allocated here)

Found by ``tilesmith fuzz tir``, seed 100179.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# VerifyError: the buffer 'B0_T0' is neither a parameter nor allocated here
#   make it a parameter, or allocate it: T.alloc_buffer(shape, dtype)
#   in the block 'B0_init'
#   in the function 'main'
#   the program:
#   (...)
#   File "/tmp/fzrun/tilesmith/tir/analysis/variables.py", line 56, in walk
#     self.use(node)
ARGUMENTS = [[{'name': 'A0', 'shape': [1, 1, 1], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [1, 1], 'dtype': 'float32'}]]  # fmt: skip


@T.prim_func
def main(A0: T.Buffer((1, 1, 1), "float32"), T0: T.Buffer((1, 1), "float32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1, i2 in T.grid(1, 1, 1):
        with T.block("B0"):
            v0, v1, v2 = T.axis.remap("SSR", [i0, i1, i2])
            T.reads(A0[v0, v1, v2])
            T.writes(T0[v0, v1])
            B0_A0 = T.match_buffer(
                A0[v0, v1, v2], (1, 1, 1), strides=("s0", "s1", "s2"), offset_factor=1
            )
            B0_T0 = T.match_buffer(T0[v0, v1], (1, 1), strides=("t0", "t1"), offset_factor=1)
            with T.init():
                B0_T0[0, 0] = T.float32(0.0)
            B0_T0[0, 0] = B0_T0[0, 0] + B0_A0[0, 0, 0]


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    l1, l2, l3 = sch.get_loops(b0)
    sch.blockize(l1)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

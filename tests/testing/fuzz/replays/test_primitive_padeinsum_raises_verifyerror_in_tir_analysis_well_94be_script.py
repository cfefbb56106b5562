"""primitive: PadEinsum: raises VerifyError in tir/analysis/well_formed.py:fail (the buffer _
is neither a parameter nor allocated here)

Found by ``tilesmith fuzz tir``, seed 8000402.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# VerifyError: the buffer 'B0_A1' is neither a parameter nor allocated here
#   make it a parameter, or allocate it: T.alloc_buffer(shape, dtype)
#   in the block 'B0_A1_pad'
#   in the function 'main'
#   the program:
#   (...)
#   File "/tmp/fz6/tilesmith/tir/analysis/variables.py", line 56, in walk
#     self.use(node)
ARGUMENTS = [[{'name': 'A1', 'shape': [1, 1], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [1, 1], 'dtype': 'float32'}]]  # fmt: skip


@T.prim_func
def main(A1: T.Buffer((1, 1), "float32"), T0: T.Buffer((1, 1), "float32")):
    T.func_attr({"tir.noalias": True})
    with T.block("root"):
        T.reads()
        T.writes()
        with T.block("B0"):
            T.reads(A1[0, 0])
            T.writes(T0[0, 0])
            for j0, j1, j2 in T.grid(1, 1, 1):
                with T.block("B0_inner"):
                    v0, v1, v2 = T.axis.remap("SSR", [j0, j1, j2])
                    T.reads(A1[0, 0])
                    T.writes(T0[0, 0])
                    B0_A1 = T.match_buffer(
                        A1[0, 0], (1, 1), strides=("B0_A1_s0", "B0_A1_s1"), offset_factor=1
                    )
                    B0_T0 = T.match_buffer(
                        T0[0, 0], (1, 1), strides=("B0_T0_s0", "B0_T0_s1"), offset_factor=1
                    )
                    with T.init():
                        B0_T0[v0, v1] = T.float32(0.0)
                    B0_T0[v0, v1] = B0_T0[v0, v1] + B0_A1[v0, v2]


def schedule(sch):
    b0 = sch.get_block("B0_inner", func_name="main")
    sch.pad_einsum(b0, [3, 2, 1])


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])

"""primitive: PadEinsum: then running fails (OutOfBoundsError)

Found by ``tilesmith fuzz tir``, seed 8005907.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# the matched region of T0[0:1, 1:2] is outside of the buffer of shape (1, 1)
ARGUMENTS = [[{'name': 'T0', 'shape': [1, 1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(T0: T.Buffer((1, 1), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1 in T.grid(1, 1):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads()
            T.writes(T0[v0, v1])
            B0_T0 = T.match_buffer(
                T0[v0, v1], (1, 1), "int32", strides=("B0_T0_s0", "B0_T0_s1"), offset_factor=1
            )
            B0_T0[0, 0] = 0


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    sch.pad_einsum(b0, [4, 2])


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])
